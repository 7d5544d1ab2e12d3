// A new task: waiting, in no queue, without a worker. The one place that lists every field of a new row.

import type { RunId, TaskId, WaitingTask } from "../../storage/rows.ts";

/** Separate arguments instead of an object, because this is called for every task. */
export function newTaskRow(id: TaskId, run: RunId, route: string, band: number, needs: number, key: string | null): WaitingTask {
  return {
    kind: "task",
    id,
    run,
    phase: "waiting",
    route,
    pin: null,
    line: null,
    band,
    rank: null,
    needs,
    fence: 0,
    attempt: 0,
    deliveries: 0,
    failures: 0,
    worker: null,
    boot: null,
    epoch: 0,
    acked: false,
    key,
    due: null,
    readyAt: null,
    grantedAt: null,
    endedAt: null,
    params: null,
    result: null,
    error: null,
    state: null,
  };
}
