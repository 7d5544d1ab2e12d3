// Rebuilds a run from its facts up to any position of the log: without results, parameters and output, which are not in the facts.

import type { ResultError } from "../definitions/workflow.ts";
import type { NodeStatus, NodeWarning, RunStatus } from "../rest/bodies/run-bodies.ts";
import type { EventData } from "./server-events.ts";

/** One fact of a run as stored in the log; `at` in ms. */
export interface RunFact {
  readonly position: number;
  readonly at: number;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The phase of a task; `leased`: held by a worker, `hosting`: carried out by other tasks. */
export type TaskPhase = "waiting" | "parked" | "ready" | "leased" | "hosting" | "succeeded" | "failed" | "cancelled" | "skipped";

export const nodeStatusByPhase: Readonly<Record<TaskPhase, NodeStatus>> = {
  waiting: "queued",
  parked: "queued",
  ready: "queued",
  leased: "running",
  hosting: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  skipped: "skipped",
};

/** The stage of a node that has reported none: why it waits, else its status. */
export const defaultStageOfPhase = (phase: TaskPhase): string => (nodeStatusByPhase[phase] === "running" ? "running" : phase);

/** The effect of a fact on its task: the new phase, and the node status to send as an event (null: no event). */
export interface TaskStateChange {
  readonly phase: TaskPhase;
  readonly status: EventData<"node.status">["status"] | null;
}

const taskStateChanges: Readonly<Record<string, TaskStateChange>> = {
  "task.waiting": { phase: "waiting", status: "queued" },
  "task.ready": { phase: "ready", status: "queued" },
  "task.parked": { phase: "parked", status: "queued" },
  "task.requeued": { phase: "ready", status: "queued" },
  "task.hosting": { phase: "hosting", status: "running" },
  "task.granted": { phase: "leased", status: "dispatching" },
  "task.running": { phase: "leased", status: "running" },
  "task.rebound": { phase: "leased", status: "running" },
  "task.repeated": { phase: "leased", status: "running" },
  "task.succeeded": { phase: "succeeded", status: "completed" },
  "task.failed": { phase: "failed", status: "failed" },
  "task.cancelled": { phase: "cancelled", status: "cancelled" },
  "task.skipped": { phase: "skipped", status: "skipped" },
  "frame.opened": { phase: "hosting", status: null },
};

/** Null: the fact does not change the phase. */
export function taskStateChangeOf({ type, data }: Pick<RunFact, "type" | "data">): TaskStateChange | null {
  if (type === "task.retrying") {
    // A container that repeats an iteration keeps its phase.
    if (data["frame"] !== undefined) return { phase: "hosting", status: "running" };
    return { phase: readNumber(data, "delayMs") > 0 ? "parked" : "ready", status: "queued" };
  }
  // Refused by its worker: it waits for its pause.
  if (type === "task.requeued" && readNumber(data, "delayMs") > 0) return { phase: "parked", status: "queued" };
  if (type === "frame.ended") return { phase: data["status"] as TaskPhase, status: null };
  return Object.hasOwn(taskStateChanges, type) ? (taskStateChanges[type] ?? null) : null;
}

/** The run status after a fact; a run that is ending still runs. */
export const runStatusByFact: Readonly<Record<string, RunStatus>> = {
  "run.created": "queued",
  "run.started": "running",
  "run.cancelling": "running",
  "run.ending": "running",
  "run.succeeded": "succeeded",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
};

export interface TaskFeedback {
  readonly stage?: string;
  readonly progress?: number;
  readonly message?: string;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly at: number;
}

export interface ArtifactSnapshot {
  readonly resource: string;
  readonly worker: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly inline?: boolean;
  readonly expiresAt?: number;
}

export interface TaskSnapshot {
  readonly id: string;
  readonly phase: TaskPhase;
  readonly fence: number;
  readonly attempt: number;
  /** The worker that holds it, or held it when it ended. */
  readonly worker: string | null;
  /** Whether the ack of its dispatch was stored. */
  readonly isAcked: boolean;
  readonly readyAt: number | null;
  readonly grantedAt: number | null;
  readonly endedAt: number | null;
  readonly error: ResultError | null;
  /** What the current attempt has reported. */
  readonly feedback: TaskFeedback | null;
  /** The index, if the task is an iteration. */
  readonly iteration: number | null;
  readonly why: string | null;
  readonly artifacts: readonly ArtifactSnapshot[];
  /** Values that did not match their schema and did not fail the task. */
  readonly warnings: readonly NodeWarning[];
}

export interface RunSnapshot {
  /** Position of the last fact that was folded. */
  readonly position: number;
  /** Null before the run was created. */
  readonly status: RunStatus | null;
  readonly isEnding: boolean;
  readonly createdAt: number | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly error: ResultError | null;
  /** Tasks that have not ended. */
  readonly open: number;
  readonly tasks: ReadonlyMap<string, TaskSnapshot>;
  /** Artifacts that are gone, by resource, with the reason. */
  readonly removed: ReadonlyMap<string, string>;
}

const emptyRunSnapshot: RunSnapshot = {
  position: 0,
  status: null,
  isEnding: false,
  createdAt: null,
  startedAt: null,
  endedAt: null,
  error: null,
  open: 0,
  tasks: new Map(),
  removed: new Map(),
};

const initialTaskSnapshot: Omit<TaskSnapshot, "id"> = {
  phase: "waiting",
  fence: 0,
  attempt: 0,
  worker: null,
  isAcked: false,
  readyAt: null,
  grantedAt: null,
  endedAt: null,
  error: null,
  feedback: null,
  iteration: null,
  why: null,
  artifacts: [],
  warnings: [],
};

/** A run over several pages of facts that follow those of `before`, which is copied once and not changed. */
export class RunFold {
  readonly #tasks: Map<string, TaskSnapshot>;
  readonly #removed: Map<string, string>;
  #run: RunSnapshot;
  #position: number;
  #open: number;
  /** The approximate length of all feedback and errors of its tasks; everything else in a task is small. */
  textChars = 0;

  constructor(before: RunSnapshot | null) {
    const start = before ?? emptyRunSnapshot;
    this.#tasks = new Map(start.tasks);
    this.#removed = new Map(start.removed);
    this.#run = { ...start, tasks: this.#tasks, removed: this.#removed };
    this.#position = start.position;
    this.#open = start.open;
    for (const task of this.#tasks.values()) this.textChars += textCharsOf(task);
  }

  add(facts: Iterable<RunFact>): this {
    for (const fact of facts) this.#apply(fact);
    return this;
  }

  /** The run after all added facts; nothing may be added afterwards. */
  finish(): RunSnapshot {
    return { ...this.#run, position: this.#position, open: this.#open };
  }

  #apply(fact: RunFact): void {
    this.#position = fact.position;
    this.#run = applyRunFact(this.#run, fact);
    if (fact.type === "artifact.removed")
      this.#removed.set(readString(fact.data, "resource") ?? "", readString(fact.data, "reason") ?? "removed");
    const id = readString(fact.data, "task");
    if (id === null) return;
    const known = this.#tasks.get(id);
    const task = applyTaskFact(known ?? { ...initialTaskSnapshot, id }, fact);
    if (task === null) return;
    this.#tasks.set(id, task);
    this.textChars += textCharsOf(task) - (known === undefined ? 0 : textCharsOf(known));
    if (known === undefined) this.#open += 1;
    // An ended task is never folded again, so it is counted once.
    if (task.endedAt !== null) this.#open -= 1;
  }
}

function textCharsOf({ feedback, error, artifacts, warnings }: TaskSnapshot): number {
  if (feedback === null && error === null && artifacts.length === 0 && warnings.length === 0) return 0;
  let chars = (feedback?.stage?.length ?? 0) + (feedback?.message?.length ?? 0) + artifacts.length * artifactCharsEstimate;
  for (const { message, field } of warnings) chars += message.length + field.length;
  if (feedback?.metrics !== undefined) for (const name of Object.keys(feedback.metrics)) chars += name.length;
  return error === null ? chars : chars + JSON.stringify(error).length;
}

const artifactCharsEstimate = 200;

function applyRunFact(run: RunSnapshot, { type, at, data }: RunFact): RunSnapshot {
  const status = Object.hasOwn(runStatusByFact, type) ? (runStatusByFact[type] ?? null) : null;
  if (status === null) return run;
  const isOver = status === "succeeded" || status === "failed" || status === "cancelled";
  const error = readError(data);
  return {
    ...run,
    status,
    isEnding: type === "run.ending",
    ...(type === "run.created" && { createdAt: at }),
    ...(type === "run.started" && { startedAt: at }),
    ...(isOver && { endedAt: at }),
    ...(error !== null && { error }),
  };
}

/** Null: the fact does not concern the state of the task, or the task has ended. */
function applyTaskFact(task: TaskSnapshot, fact: RunFact): TaskSnapshot | null {
  if (task.endedAt !== null) return null;
  const change = taskStateChangeOf(fact);
  // Recorded again when it moves to another queue, as after a rebind: it has been ready since the first time.
  if (fact.type === "task.ready" && task.phase === "ready") return task;
  if (change !== null) return applyStateChange({ ...task, phase: change.phase }, fact);
  if (fact.type === "task.feedback") return applyFeedback(task, fact);
  if (fact.type === "task.warning") return { ...task, warnings: [...task.warnings, readWarning(fact.data)] };
  if (fact.type === "task.artifact") return { ...task, artifacts: [...task.artifacts, readArtifact(fact.data)] };
  return null;
}

const readWarning = (data: RunFact["data"]): NodeWarning => ({
  code: readString(data, "code") ?? "",
  message: readString(data, "message") ?? "",
  field: readString(data, "field") ?? "",
});

const endPhases: ReadonlySet<TaskPhase> = new Set<TaskPhase>(["succeeded", "failed", "cancelled", "skipped"]);

function applyStateChange(task: TaskSnapshot, { type, at, data }: RunFact): TaskSnapshot {
  if (endPhases.has(task.phase))
    return { ...task, endedAt: at, error: readError(data) ?? task.error, why: readString(data, "why") };
  switch (type) {
    case "task.granted":
      return {
        ...task,
        fence: readNumber(data, "fence"),
        attempt: readNumber(data, "attempt"),
        worker: readString(data, "worker"),
        isAcked: false,
        // A task that is granted in the turn in which it becomes ready has no task.ready fact.
        readyAt: task.readyAt ?? at,
        grantedAt: at,
      };
    case "task.running":
    case "task.rebound":
      return { ...task, isAcked: true };
    case "task.repeated":
      return { ...task, attempt: readNumber(data, "attempt") };
    case "task.requeued": {
      // Where no worker ran it, the number of the attempt is free again.
      const attempt = data["attempt"] === undefined ? task.attempt : readNumber(data, "attempt");
      return releaseTask({ ...task, attempt }, readNumber(data, "fence"), at);
    }
    case "task.retrying":
      return data["frame"] === undefined ? releaseTask(task, readNumber(data, "nextFence"), at) : task;
    case "frame.opened":
      return { ...task, readyAt: at, iteration: readNumber(data, "index") };
    case "task.waiting":
      return task;
    default:
      return { ...task, readyAt: at };
  }
}

/** Taken from its worker: the next attempt starts without feedback. */
const releaseTask = (task: TaskSnapshot, fence: number, at: number): TaskSnapshot => ({
  ...task,
  fence: Math.max(fence, task.fence),
  worker: null,
  isAcked: false,
  readyAt: at,
  feedback: null,
});

/** Feedback of a running node; feedback that arrives after the result is marked late and changes nothing. */
function applyFeedback(task: TaskSnapshot, { at, data }: RunFact): TaskSnapshot | null {
  if (data["isLate"] === true) return null;
  const { stage, progress, message, metrics, metadata } = data;
  if ([stage, progress, message, metrics, metadata].every((field) => field === undefined)) return task;
  const mergedMetrics =
    metrics === undefined ? task.feedback?.metrics : mergeMetrics(task.feedback?.metrics, metrics as MetricValues);
  return {
    ...task,
    feedback: {
      ...task.feedback,
      ...(typeof stage === "string" && { stage }),
      ...(typeof progress === "number" && { progress }),
      ...(typeof message === "string" && { message }),
      ...(mergedMetrics !== undefined && { metrics: mergedMetrics }),
      at,
    },
  };
}

type MetricValues = Readonly<Record<string, number>>;

/** The same bound as in the engine. */
const metricsMax = 256;

function mergeMetrics(before: MetricValues | undefined, more: MetricValues): MetricValues {
  const all = Object.entries({ ...before, ...more });
  return Object.fromEntries(all.slice(0, metricsMax));
}

function readArtifact(data: RunFact["data"]): ArtifactSnapshot {
  return {
    resource: readString(data, "resource") ?? "",
    worker: readString(data, "worker") ?? "",
    type: readString(data, "type") ?? "",
    ...(typeof data["sizeBytes"] === "number" && { sizeBytes: data["sizeBytes"] }),
    ...(typeof data["inline"] === "boolean" && { inline: data["inline"] }),
    ...(typeof data["expiresAt"] === "number" && { expiresAt: data["expiresAt"] }),
  };
}

const readString = (data: RunFact["data"], name: string): string | null => {
  const value = data[name];
  return typeof value === "string" ? value : null;
};
const readNumber = (data: RunFact["data"], name: string): number => {
  const value = data[name];
  return typeof value === "number" ? value : 0;
};
const readError = (data: RunFact["data"]): ResultError | null => (data["error"] as ResultError | null | undefined) ?? null;
