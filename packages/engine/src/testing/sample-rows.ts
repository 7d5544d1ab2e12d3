// Whole rows and numbers for tests and benches that care for a few of their fields only. Nothing of the engine uses them.

import { Fleet } from "../core/fleet/fleet.ts";
import { newTaskRow } from "../core/rows/new-task.ts";
import type { DecisionContext } from "../core/unit-of-work/decision-context.ts";
import { createDefinitionCaches } from "../core/unit-of-work/definition-caches.ts";
import { defaultSettings } from "../interface/settings.ts";
import type { EngineGauge } from "../interface/world.ts";
import {
  type InPhase,
  type Row,
  type RowColumns,
  type RunId,
  type RunPhase,
  type RunRow,
  runOf,
  type TaskId,
  type TaskRow,
  type TaskRowPhase,
  type WorkerId,
  type WorkerPhase,
  type WorkerRow,
} from "../storage/rows.ts";

/** Some fields of a row in phase `P`; the others get values that the phase allows. */
type Sample<R extends { readonly phase: string }, P> = { readonly phase?: P } & Partial<RowColumns<InPhase<R, P>>>;

/** What a run has in each phase besides the fields of a queued one. */
const runFields: { readonly [P in RunPhase]: Partial<InPhase<RunRow, P>> } = {
  queued: {},
  running: { startedAt: 1_500 },
  ending: { verdict: "cancelled", due: 1_000 },
  succeeded: { startedAt: 1_500, endedAt: 2_000 },
  failed: { verdict: "failed", startedAt: 1_500, endedAt: 2_000 },
  cancelled: { verdict: "cancelled", startedAt: 1_500, endedAt: 2_000 },
};

export function sampleRun<P extends RunPhase = "queued">(id: RunId, over: Sample<RunRow, P> = {}): InPhase<RunRow, P> {
  const row = {
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
    ...runFields[over.phase ?? "queued"],
    ...over,
  };
  return row as InPhase<RunRow, P>;
}

const held = {
  fence: 1,
  attempt: 1,
  deliveries: 1,
  worker: "acme/w1",
  boot: "boot-1",
  epoch: 7,
  readyAt: 1_500,
  grantedAt: 1_600,
};
/** What a task has in each phase besides the fields of a waiting one. */
const taskFields: { readonly [P in TaskRowPhase]: Partial<RowColumns<InPhase<TaskRow, P>>> } = {
  waiting: {},
  ready: { line: "r|route-1", readyAt: 1_500 },
  parked: { line: "k|acme/k1", readyAt: 1_500 },
  leased: held,
  hosting: { readyAt: 1_500 },
  succeeded: { ...held, endedAt: 2_000, result: "{}" },
  skipped: { endedAt: 2_000, result: "{}" },
  failed: { ...held, endedAt: 2_000, error: '{"code":"E.RUNNER.FAILURE","message":"failed"}' },
  cancelled: { ...held, endedAt: 2_000 },
};

export function sampleTask<P extends TaskRowPhase = "waiting">(id: TaskId, over: Sample<TaskRow, P> = {}): InPhase<TaskRow, P> {
  const row = { ...newTaskRow(id, runOf(id), "route-1", 5, 0, null), ...taskFields[over.phase ?? "waiting"], ...over };
  return row as InPhase<TaskRow, P>;
}

const leaseEnd: { readonly [P in WorkerPhase]: InPhase<WorkerRow, P>["due"] } = {
  online: 60_000,
  away: 60_000,
  lost: null,
  left: null,
  enrolled: null,
};

/** The row with other columns, whether or not its phase allows them. */
export const withColumns = <R extends Row>(row: R, columns: Partial<RowColumns<R>>): R => ({ ...row, ...columns });

export function sampleWorker<P extends WorkerPhase = "online">(
  id: WorkerId,
  over: Sample<WorkerRow, P> = {},
): InPhase<WorkerRow, P> {
  const phase = over.phase ?? "online";
  const row = {
    kind: "worker",
    id,
    tenant: id.slice(0, id.indexOf("/")),
    name: `name of ${id}`,
    phase,
    boot: "boot-1",
    epoch: 7,
    replica: "a",
    replicaEpoch: 1,
    draining: false,
    joinedAt: 2_000,
    seenAt: 3_000,
    due: leaseEnd[phase],
    about: '{"slots":4}',
    condition: "{}",
    ...over,
  };
  return row as InPhase<WorkerRow, P>;
}

/** The numbers of an engine that has nothing to do. */
export function sampleGauge(over: Partial<EngineGauge> = {}): EngineGauge {
  const count = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };
  return { ...count, waiting: 0, quarantined: 0, sessions: 0, held: 0, saturated: {}, now: 0, ...over };
}

/** For a unit of work that decides nothing. */
export const sampleContext = (over: Partial<DecisionContext> = {}): DecisionContext => ({
  settings: defaultSettings,
  fleet: new Fleet(),
  self: { replica: "a", epoch: 1 },
  ...createDefinitionCaches(),
  digest: (text) => text,
  random: () => 0,
  nextId: () => "id",
  forgetsFence: false,
  ...over,
});
