import type { ChangeSet, TaskRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { advanceTaskQueueClocks, assignRanks, FairnessClocks } from "./fairness-ranks.ts";

const task = (id: string, fields: Partial<TaskRow>): TaskRow => ({ kind: "task", id, phase: "ready", ...fields }) as TaskRow;
const changes = (fields: Partial<ChangeSet>): ChangeSet =>
  ({ roots: [], puts: [], deletes: [], enqueued: [], logEntries: [], mail: [], ...fields }) as ChangeSet;
const clocksAt = (tenants: Record<string, number>, lines: Record<string, number>) =>
  new FairnessClocks({ tenantClock: (name) => tenants[name] ?? 0, taskQueueClock: (name) => lines[name] ?? 0 });

describe("ranks", () => {
  it("[S15] a tenant that brings much is spread out behind itself, and a latecomer begins where the queue is", () => {
    const clocks = clocksAt({ busy: 10, late: 0 }, { q: 7 });
    const puts = ["a", "b", "c"].map((id) => task(id, { line: "q", rank: null }));
    const enqueued = [
      { task: "a", tenant: "busy", cost: 1 },
      { task: "b", tenant: "busy", cost: 2 },
      { task: "c", tenant: "late", cost: 1 },
    ];

    const ranks = assignRanks([changes({ puts, enqueued })], clocks);

    expect(Object.fromEntries(ranks)).toEqual({ a: 11, b: 13, c: 8 });
    expect(Object.fromEntries(clocks.tenants)).toEqual({ busy: 13, late: 8 });
  });

  it("[S15] the clock of a queue is the highest rank that has left it: by a grant, by a move to another queue, or by deletion", () => {
    const stored = new Map([
      ["granted", task("granted", { line: "q", rank: 5 })],
      ["moved", task("moved", { line: "p", rank: 9 })],
      ["deleted", task("deleted", { line: "q", rank: 8 })],
      ["older", task("older", { line: "q", rank: 2 })],
      ["stays", task("stays", { line: "q", rank: 99 })],
    ]);
    const clocks = clocksAt({}, { q: 1, p: 3 });
    const leave = (id: string, after: Partial<TaskRow>) => task(id, { ...stored.get(id), ...after } as Partial<TaskRow>);
    const puts = [
      leave("granted", { phase: "leased", line: null } as Partial<TaskRow>),
      leave("moved", { line: "r" } as Partial<TaskRow>),
      leave("stays", {}),
    ];

    advanceTaskQueueClocks(
      [changes({ puts, deletes: ["task/deleted"] }), changes({ deletes: ["task/older"] })],
      clocks,
      (id) => stored.get(id) ?? null,
    );

    expect(Object.fromEntries(clocks.lines)).toEqual({ q: 8, p: 9 });
  });

  it("[S15] the clock of a queue does not go back when a task of a lower rank leaves it", () => {
    const clocks = clocksAt({}, { q: 20 });

    advanceTaskQueueClocks([changes({ deletes: ["task/low"] })], clocks, () => task("low", { line: "q", rank: 4 }));

    expect(clocks.taskQueueClock("q")).toBe(20);
  });
});
