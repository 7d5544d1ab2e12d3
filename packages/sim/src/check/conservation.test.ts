import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const list = (items: object[], query = {}) =>
  new Script()
    .start("r1")
    .start("r2")
    .exchange("listRuns", { query }, { status: 200, body: { items, nextCursor: null } });
const face = (runId: string, status = "queued") => ({ runId, status, clientId: runId });

describe("conservation", () => {
  it("[X31] finds a run that is listed twice, listed unasked for, or listed under another state", () => {
    expect(passed(list([face("r1"), face("r2")]), "conservation")).toBe(true);
    expect(caught(list([face("r1"), face("r1")]), "conservation")).toContain("shows a run twice");
    expect(caught(list([face("r3")]), "conservation")).toContain("run r3 is listed and nobody asked for it");
    expect(caught(list([face("r1", "failed")], { status: "queued" }), "conservation")).toContain(
      "is failed in the list of those queued",
    );
  });

  it("[X31] finds a run whose nodes are not those of its definition, or do not add up to its state", () => {
    const run = (status: string, ...states: string[]) =>
      new Script().start("r1", [{}, {}]).show(
        "r1",
        status,
        states.map((state) => ({ status: state })),
      );

    expect(passed(run("running", "succeeded", "running"), "conservation")).toBe(true);
    expect(passed(run("failed", "failed", "cancelled"), "conservation")).toBe(true);
    expect(caught(run("running", "running"), "conservation")).toContain("was asked for");
    expect(caught(run("succeeded", "succeeded", "cancelled"), "conservation")).toContain("although not every node did");
    expect(caught(run("cancelled", "cancelled", "running"), "conservation")).toContain("is cancelled with 1 open, 1 ended");
    expect(caught(run("queued", "queued", "running"), "conservation")).toContain("although a node has moved");
    expect(caught(run("running", "running", "asleep"), "conservation")).toContain("in no known state");
  });
});
