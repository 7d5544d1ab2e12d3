// A run as its facts tell it: folded one after the other up to any position of the log, by whoever shows a run as it was. Pure, for doors,
// console and command line alike. Results, parameters and printed text are not in the facts, and so not here.

import type { EventData } from "./events.ts";
import type { NodeStatus, RunStatus } from "./rest.ts";
import type { ResultError } from "./workflow.ts";

/** One fact of a run as the log keeps it; `at` in ms. */
export interface RunFact {
  readonly position: number;
  readonly at: number;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Where a task stands; `leased` is with a worker, `hosting` carried out by other tasks. */
export type TaskPhase = "waiting" | "parked" | "ready" | "leased" | "hosting" | "succeeded" | "failed" | "cancelled" | "skipped";

export const statusOfPhase: Readonly<Record<TaskPhase, NodeStatus>> = {
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

/** What a node's stage is while it says none itself: why it waits, else its status. */
export const stageOfPhase = (phase: TaskPhase): string => (statusOfPhase[phase] === "running" ? "running" : phase);

/** What a fact makes of its task: its phase, and the status that events say of its node. Null: events say nothing of it. */
export interface TaskTurn {
  readonly phase: TaskPhase;
  readonly status: EventData<"node.status">["status"] | null;
}

const turns: Readonly<Record<string, TaskTurn>> = {
  "task.waiting": { phase: "waiting", status: "queued" },
  "task.ready": { phase: "ready", status: "queued" },
  "task.parked": { phase: "parked", status: "queued" },
  "task.requeued": { phase: "ready", status: "queued" },
  "task.hosting": { phase: "hosting", status: "running" },
  "task.granted": { phase: "leased", status: "dispatching" },
  "task.running": { phase: "leased", status: "running" },
  "task.rebound": { phase: "leased", status: "running" },
  "task.succeeded": { phase: "succeeded", status: "completed" },
  "task.failed": { phase: "failed", status: "failed" },
  "task.cancelled": { phase: "cancelled", status: "cancelled" },
  "task.skipped": { phase: "skipped", status: "skipped" },
  "frame.opened": { phase: "hosting", status: null },
};

/** Null: the fact leaves its task where it is. */
export function turnOf({ type, data }: Pick<RunFact, "type" | "data">): TaskTurn | null {
  if (type === "task.retrying") {
    // A container that tries an iteration again stays what it is.
    if (data["frame"] !== undefined) return { phase: "hosting", status: "running" };
    return { phase: numberIn(data, "delayMs") > 0 ? "parked" : "ready", status: "queued" };
  }
  if (type === "frame.ended") return { phase: data["status"] as TaskPhase, status: null };
  return Object.hasOwn(turns, type) ? (turns[type] ?? null) : null;
}

/** What a fact makes of its run; one that is ending still runs. */
export const runStatusOf: Readonly<Record<string, RunStatus>> = {
  "run.created": "queued",
  "run.started": "running",
  "run.cancelling": "running",
  "run.ending": "running",
  "run.succeeded": "succeeded",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
};

export interface SaidMoment {
  readonly stage?: string;
  readonly progress?: number;
  readonly message?: string;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly at: number;
}

export interface ArtifactMoment {
  readonly resource: string;
  readonly worker: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly inline?: boolean;
  readonly expiresAt?: number;
}

export interface TaskMoment {
  readonly id: string;
  readonly phase: TaskPhase;
  readonly fence: number;
  readonly attempt: number;
  /** Who has it, or had it when it ended. */
  readonly worker: string | null;
  /** Whether the ack of its dispatch was stored. */
  readonly isAcked: boolean;
  readonly readyAt: number | null;
  readonly grantedAt: number | null;
  readonly endedAt: number | null;
  readonly error: ResultError | null;
  /** What the present attempt has said of itself. */
  readonly said: SaidMoment | null;
  /** Of a frame: which iteration. */
  readonly frame: number | null;
  readonly why: string | null;
  readonly artifacts: readonly ArtifactMoment[];
}

export interface RunMoment {
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
  readonly tasks: ReadonlyMap<string, TaskMoment>;
  /** Artifacts that are gone, by resource, with the reason. */
  readonly removed: ReadonlyMap<string, string>;
}

const nothing: RunMoment = {
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

const unborn: Omit<TaskMoment, "id"> = {
  phase: "waiting",
  fence: 0,
  attempt: 0,
  worker: null,
  isAcked: false,
  readyAt: null,
  grantedAt: null,
  endedAt: null,
  error: null,
  said: null,
  frame: null,
  why: null,
  artifacts: [],
};

/** The run after these facts, which follow those of `before` in the order of their positions. `before` stays as it was. */
export function foldRun(before: RunMoment | null, facts: Iterable<RunFact>): RunMoment {
  const folding = beginFold(before);
  folding.add(facts);
  return folding.end();
}

/** A fold that is fed page by page: a large run is copied once, and not once a page. */
export interface RunFolding {
  add(facts: Iterable<RunFact>): void;
  /** The run after all that was added; nothing may be added afterwards. */
  end(): RunMoment;
  /** About how long the words are that its tasks have said of themselves and failed with: all else of a task is small. */
  readonly chars: number;
}

export function beginFold(before: RunMoment | null): RunFolding {
  const start = before ?? nothing;
  const tasks = new Map(start.tasks);
  const removed = new Map(start.removed);
  let run: RunMoment = { ...start, tasks, removed };
  let { position, open } = start;
  let chars = 0;
  for (const task of tasks.values()) chars += charsOf(task);

  const addOne = (fact: RunFact): void => {
    ({ position } = fact);
    run = foldOwn(run, fact);
    if (fact.type === "artifact.removed")
      removed.set(textIn(fact.data, "resource") ?? "", textIn(fact.data, "reason") ?? "removed");
    const id = textIn(fact.data, "task");
    if (id === null) return;
    const seen = tasks.get(id);
    const task = foldTask(seen ?? { ...unborn, id }, fact);
    if (task === null) return;
    tasks.set(id, task);
    chars += charsOf(task) - (seen === undefined ? 0 : charsOf(seen));
    if (seen === undefined) open += 1;
    // What has ended is never folded again, so it is counted once.
    if (task.endedAt !== null) open -= 1;
  };

  return {
    add(facts) {
      for (const fact of facts) addOne(fact);
    },
    end: () => ({ ...run, position, open }),
    get chars() {
      return chars;
    },
  };
}

function charsOf({ said, error, artifacts }: TaskMoment): number {
  if (said === null && error === null && artifacts.length === 0) return 0;
  let chars = (said?.stage?.length ?? 0) + (said?.message?.length ?? 0) + artifacts.length * artifactChars;
  if (said?.metrics !== undefined) for (const name of Object.keys(said.metrics)) chars += name.length;
  return error === null ? chars : chars + JSON.stringify(error).length;
}

/** Of one artifact, names and all. */
const artifactChars = 200;

/** What a fact says of the run itself. */
function foldOwn(run: RunMoment, { type, at, data }: RunFact): RunMoment {
  const status = Object.hasOwn(runStatusOf, type) ? (runStatusOf[type] ?? null) : null;
  if (status === null) return run;
  const isOver = status === "succeeded" || status === "failed" || status === "cancelled";
  const error = errorIn(data);
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

/** Null: the fact says nothing of what the task is. What is said after its end changes nothing any more. */
function foldTask(task: TaskMoment, fact: RunFact): TaskMoment | null {
  if (task.endedAt !== null) return null;
  const turn = turnOf(fact);
  // Told again where it stands in another line, as after a rebind: it is ready since the first time.
  if (fact.type === "task.ready" && task.phase === "ready") return task;
  if (turn !== null) return turned({ ...task, phase: turn.phase }, fact);
  if (fact.type === "task.feedback") return feedback(task, fact);
  if (fact.type === "task.artifact") return { ...task, artifacts: [...task.artifacts, artifactIn(fact.data)] };
  return null;
}

const ends: ReadonlySet<TaskPhase> = new Set<TaskPhase>(["succeeded", "failed", "cancelled", "skipped"]);

function turned(task: TaskMoment, { type, at, data }: RunFact): TaskMoment {
  if (ends.has(task.phase)) return { ...task, endedAt: at, error: errorIn(data) ?? task.error, why: textIn(data, "why") };
  switch (type) {
    case "task.granted":
      return {
        ...task,
        fence: numberIn(data, "fence"),
        attempt: numberIn(data, "attempt"),
        worker: textIn(data, "worker"),
        isAcked: false,
        // Granted in the turn in which it became ready, it was never told as ready.
        readyAt: task.readyAt ?? at,
        grantedAt: at,
      };
    case "task.running":
    case "task.rebound":
      return { ...task, isAcked: true };
    case "task.requeued":
      return unheld(task, numberIn(data, "fence"), at);
    case "task.retrying":
      return data["frame"] === undefined ? unheld(task, numberIn(data, "nextFence"), at) : task;
    case "frame.opened":
      return { ...task, readyAt: at, frame: numberIn(data, "index") };
    case "task.waiting":
      return task;
    default:
      return { ...task, readyAt: at };
  }
}

/** Taken from its holder: the next attempt begins with nothing said. */
const unheld = (task: TaskMoment, fence: number, at: number): TaskMoment => ({
  ...task,
  fence: Math.max(fence, task.fence),
  worker: null,
  isAcked: false,
  readyAt: at,
  said: null,
});

/** What a node said while it ran; what a result has overtaken is told as late, and changes nothing. */
function feedback(task: TaskMoment, { at, data }: RunFact): TaskMoment | null {
  if (data["isLate"] === true) return null;
  const { stage, progress, message, metrics, metadata } = data;
  if ([stage, progress, message, metrics, metadata].every((word) => word === undefined)) return task;
  const numbers = metrics === undefined ? task.said?.metrics : withNumbers(task.said?.metrics, metrics as Numbers);
  return {
    ...task,
    said: {
      ...task.said,
      ...(typeof stage === "string" && { stage }),
      ...(typeof progress === "number" && { progress }),
      ...(typeof message === "string" && { message }),
      ...(numbers !== undefined && { metrics: numbers }),
      at,
    },
  };
}

type Numbers = Readonly<Record<string, number>>;

/** As many as the engine keeps. */
const metricsMax = 256;

function withNumbers(before: Numbers | undefined, more: Numbers): Numbers {
  const all = Object.entries({ ...before, ...more });
  return Object.fromEntries(all.slice(0, metricsMax));
}

function artifactIn(data: RunFact["data"]): ArtifactMoment {
  return {
    resource: textIn(data, "resource") ?? "",
    worker: textIn(data, "worker") ?? "",
    type: textIn(data, "type") ?? "",
    ...(typeof data["sizeBytes"] === "number" && { sizeBytes: data["sizeBytes"] }),
    ...(typeof data["inline"] === "boolean" && { inline: data["inline"] }),
    ...(typeof data["expiresAt"] === "number" && { expiresAt: data["expiresAt"] }),
  };
}

const textIn = (data: RunFact["data"], name: string): string | null => {
  const value = data[name];
  return typeof value === "string" ? value : null;
};
const numberIn = (data: RunFact["data"], name: string): number => {
  const value = data[name];
  return typeof value === "number" ? value : 0;
};
const errorIn = (data: RunFact["data"]): ResultError | null => (data["error"] as ResultError | null | undefined) ?? null;
