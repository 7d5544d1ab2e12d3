import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const entry = (position: number, type = "run.created", subject = "run/r1") => ({ position, at: 1, subject, type, data: {} });
const page = (items: ReturnType<typeof entry>[], next: number, head = next) => ({ items, next, head, floor: 0 });

describe("positions of the log", () => {
  it("[X37] the positions checker finds a gap in the log, and a cursor that skips something", () => {
    expect(
      passesChecker(
        new ObservationScript().tail(0, page([entry(1), entry(2)], 2)).tail(2, page([entry(3)], 3), "s2"),
        "positions",
      ),
    ).toBe(true);
    expect(violationOf(new ObservationScript().tail(0, page([entry(1), entry(3)], 3)), "positions")).toContain(
      "position 2 of t1 is missing",
    );
    expect(violationOf(new ObservationScript().tail(0, page([entry(1)], 3)), "positions")).toContain("the cursor goes on at 3");
    expect(violationOf(new ObservationScript().tail(0, page([], 0, 3)), "positions")).toContain(
      "nothing is shown although the log of t1 reaches 3",
    );
  });

  it("[X37] the positions checker finds a position that shows something else to another reader, and a log that shrinks", () => {
    const first = () => new ObservationScript().tail(0, page([entry(1)], 1));

    expect(violationOf(first().tail(0, page([entry(1, "run.started")], 1), "s2"), "positions")).toContain("position 1 of t1 was");
    expect(violationOf(first().tail(0, page([], 0, 0), "s2"), "positions")).toContain("reached 1 and reaches 0 now");
    const run = { status: 200, body: { runId: "r1", status: "queued", asOf: 0 } };
    expect(violationOf(first().exchange("getRun", { params: { runId: "r1" } }, run), "positions")).toContain(
      "reaches 0 now, by getRun",
    );
  });

  it("[X37] the positions checker finds facts of one run that are not those of the whole log", () => {
    const run = (items: object[], nextCursor: string) => ({ status: 200, body: { items, nextCursor, asOf: 3 } });
    const log = () =>
      new ObservationScript().tail(0, page([entry(1), entry(2, "worker.joined", "worker/t1/w1"), entry(3, "run.started")], 3));
    const facts = (items: object[], cursor = "3") =>
      log().exchange("listRunEvents", { params: { runId: "r1" } }, run(items, cursor));

    expect(passesChecker(facts([entry(1), entry(3, "run.started")]), "positions")).toBe(true);
    expect(violationOf(facts([entry(1)]), "positions")).toContain("position 3 is missing, in the facts of run r1");
    expect(violationOf(facts([entry(1), entry(3, "run.failed")]), "positions")).toContain("position 3 of t1 was");
  });
});
