import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const begun = () => new Script().start("r1").created("r1").joined("w1").granted("r1.0", "w1", 10);
const tells = (script: Script, first: number, count = 1) =>
  script.tells("r1.0", "task.feedback", { fence: 10, chunks: { first, count } }).read();
const rows = (script: Script, ...ranges: (readonly [first: number, count: number])[]) => {
  const items = ranges.map(([first, count]) => ({ first, count, chunks: Array.from({ length: count }, () => ({})) }));
  return script.exchange("readChunks", { params: { task: "r1.0", fence: "10" } }, { status: 200, body: { items } });
};
const speaks = (script: Script, session: string) =>
  script
    .accepted("w1", `c-${session}`, session)
    .says("w1", `c-${session}`, "biz.exec.feedback", { task_id: "r1.0", fence: 10, chunks: [{ text: "x" }] }, { seq: 0 });

describe("printed", () => {
  it("[X65] finds chunks that are told twice, or left out within one session", () => {
    expect(passed(tells(tells(begun(), 0), 1, 2), "printed")).toBe(true);
    expect(caught(tells(tells(begun(), 0, 2), 1), "printed")).toContain("after 1");
    expect(caught(tells(tells(begun(), 0), 2), "printed")).toContain("in one session only");
    expect(passed(tells(tells(speaks(speaks(begun(), "s-1"), "s-2"), 0), 2), "printed")).toBe(true);
  });

  it("[X65] finds rows that are not what the log points to", () => {
    expect(passed(rows(tells(begun(), 0, 2), [0, 1], [1, 1]), "printed")).toBe(true);
    expect(caught(rows(tells(begun(), 0, 2), [0, 1]), "printed")).toContain("points to chunk 1 of r1.0#10, and it is not stored");
    expect(caught(rows(tells(begun(), 0), [0, 1], [0, 1]), "printed")).toContain("chunk 0 of r1.0#10 is stored twice");
    expect(caught(rows(tells(begun(), 0), [0, 2]), "printed")).toContain("the log does not point to it");
  });
});
