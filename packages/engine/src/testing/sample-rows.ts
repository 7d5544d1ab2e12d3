// Whole rows and numbers for tests and benches that care for a few of their fields only. Nothing of the engine uses them.

import { newTaskRow } from "../core/rows/new-task.ts";
import type { EngineGauge } from "../interface/world.ts";
import { type RunId, type RunRow, runOf, type TaskId, type TaskRow } from "../storage/rows.ts";

export function sampleRun(id: RunId, over: Partial<RunRow> = {}): RunRow {
  return {
    kind: "run",
    id,
    tenant: "acme",
    phase: "queued",
    workflow: "acme/w1",
    client: "cli",
    band: 5,
    open: 1,
    verdict: null,
    cursor: null,
    createdAt: 1_000,
    startedAt: null,
    endedAt: null,
    due: null,
    error: null,
    label: "",
    source: "",
    about: "{}",
    marks: null,
    bindings: null,
    ...over,
  };
}

export function sampleTask(id: TaskId, over: Partial<TaskRow> = {}): TaskRow {
  return { ...newTaskRow(id, runOf(id), "route-1", 5, 0, null), ...over };
}

/** The numbers of an engine that has nothing to do. */
export function sampleGauge(over: Partial<EngineGauge> = {}): EngineGauge {
  const count = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };
  return { ...count, waiting: 0, quarantined: 0, sessions: 0, held: 0, saturated: {}, now: 0, ...over };
}
