import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const grantedRun = () => new ObservationScript().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10);
const recordFeedback = (script: ObservationScript, first: number, count = 1) =>
  script.commitTaskFact("r1.0", "task.feedback", { fence: 10, chunks: { first, count } }).read();
const readChunkRows = (script: ObservationScript, ...ranges: (readonly [first: number, count: number])[]) => {
  const items = ranges.map(([first, count]) => ({ first, count, chunks: Array.from({ length: count }, () => ({})) }));
  return script.exchange("readChunks", { params: { task: "r1.0", fence: "10" } }, { status: 200, body: { items } });
};
const sendFeedback = (script: ObservationScript, session: string) =>
  script
    .accepted("w1", `c-${session}`, session)
    .sendToScheduler(
      "w1",
      `c-${session}`,
      "biz.exec.feedback",
      { task_id: "r1.0", fence: 10, chunks: [{ text: "x" }] },
      { seq: 0 },
    );

describe("printed", () => {
  it("[X65] the output checker reports chunks that are recorded twice, or missing within one session", () => {
    expect(passesChecker(recordFeedback(recordFeedback(grantedRun(), 0), 1, 2), "printed")).toBe(true);
    expect(violationOf(recordFeedback(recordFeedback(grantedRun(), 0, 2), 1), "printed")).toContain("after 1");
    expect(violationOf(recordFeedback(recordFeedback(grantedRun(), 0), 2), "printed")).toContain("used only one session");
    expect(
      passesChecker(recordFeedback(recordFeedback(sendFeedback(sendFeedback(grantedRun(), "s-1"), "s-2"), 0), 2), "printed"),
    ).toBe(true);
  });

  it("[X65] the output checker reports stored chunks that differ from those the log points to", () => {
    expect(passesChecker(readChunkRows(recordFeedback(grantedRun(), 0, 2), [0, 1], [1, 1]), "printed")).toBe(true);
    expect(violationOf(readChunkRows(recordFeedback(grantedRun(), 0, 2), [0, 1]), "printed")).toContain(
      "points to chunk 1 of r1.0#10, and it is not stored",
    );
    expect(violationOf(readChunkRows(recordFeedback(grantedRun(), 0), [0, 1], [0, 1]), "printed")).toContain(
      "chunk 0 of r1.0#10 is stored twice",
    );
    expect(violationOf(readChunkRows(recordFeedback(grantedRun(), 0), [0, 2]), "printed")).toContain(
      "the log does not point to it",
    );
  });
});
