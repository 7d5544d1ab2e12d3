// What the table names as held, attempt by attempt. Sessions that report it are in link.test.ts and work.test.ts.
import type { Dispatch } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { AttemptTable } from "./attempt-table.ts";

const dispatch = (task: string, fence: number): Dispatch => ({
  run_id: "r",
  task_id: task,
  node_id: "n",
  node_type: "demo.x",
  package_name: "demo",
  package_version: "1.0.0",
  fence,
  parameters: {},
  constraints: {},
});

describe("the inventory", () => {
  it("[W3] names what waits for a slot, what runs and what is finished and not acked, and nothing that was dropped", () => {
    const table = new AttemptTable({ slotsMax: 1, slotWaitMs: 1_000, fencesMax: 100 });
    const running = table.offer(dispatch("runs", 1), 0);
    const waiting = table.offer(dispatch("waits", 2), 0);
    if (running.verdict !== "start" || waiting.verdict !== "wait") throw new Error("the table has other ideas");

    expect(table.held()).toEqual([
      { task_id: "runs", fence: 1 },
      { task_id: "waits", fence: 2 },
    ]);
    table.finish(running.attempt);
    expect(table.held()).toHaveLength(2);
    table.drop(waiting.attempt);
    table.release(running.attempt);
    expect(table.held()).toEqual([]);
  });
});
