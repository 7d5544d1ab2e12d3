import { describe, expect, it } from "vitest";
import type { Command } from "../interface/command.ts";
import type { WaitingCommand } from "./inbox.ts";
import { PendingWorkerJoins } from "./inbox.ts";

const item = (type: "worker.join" | "worker.leave", session: string): WaitingCommand => ({
  ref: 1,
  command: { type, tenant: "t1", worker: "t1/w", session } as Command,
  bytes: 256,
  at: 0,
  newRunId: null,
  failedCommits: 0,
  busyTurns: 0,
  isDecidedAlone: false,
  isSessionGone: false,
});

describe("joins that wait", () => {
  it("[B26] a pending join is marked as gone when its own session leaves before it was decided, and no other join is", () => {
    const [mine, other] = [item("worker.join", "s1"), item("worker.join", "s2")];
    const joins = new PendingWorkerJoins();

    for (const one of [mine, other, item("worker.leave", "s1")]) joins.commandArrived(one);

    expect([mine.isSessionGone, other.isSessionGone]).toEqual([true, false]);
  });

  it("[B25] two pending joins of one session are tracked separately: after the first is committed, a leave applies to the second", () => {
    const [first, second] = [item("worker.join", "s1"), item("worker.join", "s1")];
    const joins = new PendingWorkerJoins();
    joins.commandArrived(first);
    joins.commandArrived(second);

    joins.turnCommitted([first]);
    joins.commandArrived(item("worker.leave", "s1"));

    expect([first.isSessionGone, second.isSessionGone]).toEqual([false, true]);
  });
});
