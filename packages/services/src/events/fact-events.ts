// One fact of the log as the events that readers of a stream see. Names, results and printed text are looked up.

import type { LoggedFact } from "@astraflow/engine";
import { listPatchChanges } from "@astraflow/graph";
import {
  defaultStageOfPhase,
  type EventData,
  type EventType,
  type JsonObject,
  omitUndefined,
  runStatusByFact,
  type ServerEvent,
  taskStateChangeOf,
} from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
import type { EndedTaskResult, EventLookup, NodeName, PrintedChunk } from "./event-lookup.ts";

/** One event, with what filters look at. `id` is given by whoever sends it. */
export interface StreamEvent {
  readonly type: EventType;
  readonly occurredAt: string;
  readonly scope: ServerEvent["scope"];
  readonly node: NodeName | null;
  readonly data: EventData;
}

type FactData = Readonly<Record<string, unknown>>;

export async function eventsOfFact(entry: LoggedFact, lookup: EventLookup, tenant: string): Promise<StreamEvent[]> {
  const [kind, id] = splitAtFirst(entry.subject, "/");
  if (kind === "run") return eventsOfRunFact(entry, id, lookup, tenant);
  if (kind === "worker") return eventsOfWorkerFact(entry, id, lookup, tenant);
  if (entry.type === "artifact.removed") return [artifactRemovedEvent(entry, tenant)];
  return [];
}

function splitAtFirst(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const numberOf = (value: unknown): number => (typeof value === "number" ? value : 0);

async function eventsOfRunFact(entry: LoggedFact, runId: string, lookup: EventLookup, tenant: string): Promise<StreamEvent[]> {
  const run = await lookup.run(runId);
  if (run === null) return [];
  const { addEvent, events } = createEventCollector(entry, {
    tenant,
    runId,
    ...(run.client !== "" && { clientSessionId: run.client }),
  });
  const status = runStatusByFact[entry.type];
  if (status !== undefined) {
    addEvent("run.status", { runId, status, ...runStatusFields(entry) });
    // A snapshot at the birth and at the end: whoever follows in between needs none, and one a change would cost the square.
    if (entry.type === "run.created" || isRunEnd(entry.type)) {
      const snapshot = await lookup.runSnapshot(runId);
      if (snapshot !== null) addEvent("run.snapshot", snapshot);
    }
    return events;
  }
  const task = textOf(entry.data["task"]);
  const node = task === undefined ? null : run.node(task);
  if (task !== undefined && node !== null) await addNodeEvents({ entry, runId, task, node, addEvent, lookup });
  return events;
}

const isRunEnd = (type: string): boolean => type === "run.succeeded" || type === "run.failed" || type === "run.cancelled";

function runStatusFields({ type, at, data }: LoggedFact): Partial<EventData<"run.status">> {
  const reason = textOf((data["error"] as FactData | undefined)?.["message"]) ?? textOf(data["reason"]);
  return {
    ...(type === "run.started" && { startedAt: isoTime(at) }),
    ...(isRunEnd(type) && { finishedAt: isoTime(at) }),
    ...(reason !== undefined && { reason }),
  };
}

type AddEvent = <K extends EventType>(type: K, data: Omit<EventData<K>, "kind">, node?: NodeName) => void;

/** Collects the events of one fact. */
function createEventCollector(entry: LoggedFact, scope: ServerEvent["scope"]): { addEvent: AddEvent; events: StreamEvent[] } {
  const events: StreamEvent[] = [];
  const addEvent: AddEvent = (type, data, node) => {
    const stored = { kind: type, ...data } as unknown as EventData;
    events.push({ type, occurredAt: isoTime(entry.at), scope, node: node ?? null, data: stored });
  };
  return { addEvent, events };
}

interface NodeFact {
  readonly entry: LoggedFact;
  readonly runId: string;
  readonly task: string;
  readonly node: NodeName;
  readonly addEvent: AddEvent;
  readonly lookup: EventLookup;
}

async function addNodeEvents(fact: NodeFact): Promise<void> {
  const { entry, runId, task, node, addEvent, lookup } = fact;
  const { data } = entry;
  const names = nodeFields(runId, task, node);
  const turn = taskStateChangeOf(entry);
  if (turn !== null && turn.status !== null) {
    const { phase, status } = turn;
    const worker = textOf(data["worker"]);
    const holder = worker === undefined ? undefined : await lookup.workerName(worker);
    const attempt = typeof data["attempt"] === "number" ? data["attempt"] : undefined;
    const error = data["error"] as EventData<"node.error">["error"] | undefined;
    const dispatch = { ...omitUndefined({ workerName: holder }), ...sequenceField(data, status), ...ackField(entry.type) };
    addEvent("node.status", { ...names, status, ...dispatch }, node);
    // Its ack says that it runs; what it calls its stage it may have said before.
    if (entry.type === "task.running") return;
    const ended = taskEndTypes.has(entry.type) ? await lookup.endedTask(task) : null;
    const state = {
      stage: defaultStageOfPhase(phase),
      ...ended?.lastReport,
      lastUpdatedAt: isoTime(entry.at),
      ...omitUndefined({ worker: holder, attempt }),
      ...chainFields(node),
    };
    addEvent("node.state", { ...names, state: error === undefined ? state : { ...state, message: error.message, error } }, node);
    if (error !== undefined && entry.type === "task.failed") addEvent("node.error", { ...names, error }, node);
    if (entry.type === "task.succeeded" || entry.type === "task.skipped") addResultEvent(fact, ended);
  }
  if (entry.type === "task.feedback") await addFeedbackEvents(fact);
  if (entry.type === "task.warning") addEvent("node.warning", { ...names, warning: warningFields(data) }, node);
  if (entry.type === "task.artifact") addEvent("artifact.ready", { ...artifactFields(data), runId, nodeId: node.nodeId }, node);
}

const warningFields = ({ code, message, field }: FactData): EventData<"node.warning">["warning"] => ({
  code: textOf(code) ?? "",
  message: textOf(message) ?? "",
  field: textOf(field) ?? "",
});

const nodeFields = (runId: string, taskId: string, { middlewares: _, ...names }: NodeName) => ({ runId, taskId, ...names });

const taskEndTypes: ReadonlySet<string> = new Set(["task.succeeded", "task.failed", "task.cancelled", "task.skipped"]);

/** Which dispatch of the node it is about, as results are numbered; what waits for a dispatch has none. */
const sequenceField = ({ fence, worker }: FactData, status: string): { seq?: number } =>
  typeof fence === "number" && typeof worker === "string" && status !== "queued" ? { seq: fence } : {};

const ackField = (type: string): { ackPending?: boolean } =>
  type === "task.granted" ? { ackPending: true } : type === "task.running" ? { ackPending: false } : {};

/** Spelt as in the state of a run's nodes: hosts name their chain, middlewares their host. */
function chainFields({ hostNodeId, chainIndex, middlewares }: NodeName): FactData {
  if (middlewares !== undefined) return { middlewares, host_node_id: null, chain_index: null };
  return hostNodeId === undefined ? {} : { host_node_id: hostNodeId, chain_index: chainIndex };
}

function addResultEvent({ entry, runId, task, node, addEvent }: NodeFact, ended: EndedTaskResult | null): void {
  const result = ended?.result ?? null;
  if (result === null) return;
  const snapshot = { revision: numberOf(entry.data["fence"]), format: "json", ...result, complete: true } as const;
  addEvent("node.result.snapshot", { ...nodeFields(runId, task, node), ...snapshot }, node);
}

/** The node's state, then what it printed, then what changed in its results, then its numbers. */
async function addFeedbackEvents({ entry, runId, task, node, addEvent, lookup }: NodeFact): Promise<void> {
  const { data } = entry;
  const names = nodeFields(runId, task, node);
  const reported = pickFields(data, ["stage", "progress", "message"]);
  const state = { stage: defaultStageOfPhase("leased"), ...reported, lastUpdatedAt: isoTime(entry.at), ...chainFields(node) };
  // What a result has overtaken changes nothing of what the node is.
  if (Object.keys(reported).length > 0 && data["isLate"] !== true) addEvent("node.state", { ...names, state }, node);
  const revision = numberOf(data["fence"]);
  // One number for everything a fact says: positions grow, and so do the places within one.
  let sequence = entry.position * 1_000;
  const printed = data["chunks"] as { first: number; count: number } | undefined;
  if (printed !== undefined)
    for (const chunk of await lookup.printedChunks(task, revision, printed.first, printed.count))
      addEvent("node.result.delta", { ...names, revision, sequence: sequence++, ...chunkFields(chunk) }, node);
  const patch = data["results"] as FactData | undefined;
  if (patch !== undefined)
    for (const { op, path, value } of listPatchChanges(patch)) {
      const payload = op === "replace" ? { payload: { value } as JsonObject } : {};
      const change = { operation: op, path, ...payload, terminal: false };
      addEvent("node.result.delta", { ...names, revision, sequence: sequence++, ...change }, node);
    }
  for (const [metric, value] of Object.entries((data["metrics"] as FactData | undefined) ?? {}))
    if (typeof value === "number")
      addEvent("run.metrics", { runId, metric, value, tags: { nodeId: node.nodeId, taskId: task } }, node);
}

function chunkFields(chunk: PrintedChunk): Pick<EventData<"node.result.delta">, "operation" | "path" | "payload" | "terminal"> {
  const payload = pickFields(chunk as unknown as FactData, ["text", "data", "mimeType"]);
  const { metadata } = chunk;
  return {
    operation: "append",
    path: `/channels/${chunk.channel.replaceAll("~", "~0").replaceAll("/", "~1")}`,
    payload,
    chunkMeta: { channel: chunk.channel, ...(metadata !== undefined && { metadata }) },
    terminal: metadata?.["terminal"] === true,
  } as Pick<EventData<"node.result.delta">, "operation" | "path" | "payload" | "terminal">;
}

const pickFields = (data: FactData, names: readonly string[]): Record<string, never> =>
  Object.fromEntries(names.flatMap((name) => (data[name] === undefined ? [] : [[name, data[name]]]))) as Record<string, never>;

function artifactFields(data: FactData): { artifactId: string; expiresAt?: string; sizeBytes?: number } {
  return {
    artifactId: String(data["resource"] ?? ""),
    ...(typeof data["expiresAt"] === "number" && { expiresAt: isoTime(data["expiresAt"]) }),
    ...(typeof data["sizeBytes"] === "number" && { sizeBytes: data["sizeBytes"] }),
  };
}

function artifactRemovedEvent(entry: LoggedFact, tenant: string): StreamEvent {
  const run = textOf(entry.data["run"]) ?? "";
  const scope = { tenant, ...(run !== "" && { runId: run }) };
  const reason = omitUndefined({ reason: textOf(entry.data["reason"]) });
  const data = { kind: "artifact.removed" as const, runId: run, ...artifactFields(entry.data), ...reason };
  return { type: "artifact.removed", occurredAt: isoTime(entry.at), scope, node: null, data };
}

async function eventsOfWorkerFact(entry: LoggedFact, worker: string, lookup: EventLookup, tenant: string) {
  const workerName = await lookup.workerName(worker);
  const { addEvent, events } = createEventCollector(entry, { tenant, workerName });
  const { data } = entry;
  if (entry.type === "worker.package")
    addEvent("worker.package", { workerName, ...packageFields(data), ...omitUndefined({ message: textOf(data["message"]) }) });
  else if (entry.type === "command.acked")
    addEvent("command.ack", { commandId: String(data["id"]), workerName, receivedAt: isoTime(entry.at) });
  else if (entry.type === "command.failed")
    addEvent("command.error", { commandId: String(data["id"]), workerName, error: commandError(data) });
  else if (entry.type.startsWith("worker.")) {
    for (const one of (data["changed"] as readonly FactData[] | undefined) ?? [])
      addEvent("worker.package", { workerName, ...packageFields(one) });
    const heartbeat = await lookup.workerHeartbeat(worker);
    // As it was when this happened: by the time it is told the worker may have come back, or gone.
    if (heartbeat !== null) addEvent("worker.heartbeat", { ...heartbeat, ...presenceAfterFact[entry.type] });
  }
  return events;
}

const packageFields = ({ name, version, status }: FactData) => ({
  package: String(name),
  version: String(version),
  status: String(status),
});

/** What a fact says of a worker's being here; of the others the row says it. */
const presenceAfterFact: Readonly<Record<string, Partial<EventData<"worker.heartbeat">>>> = {
  "worker.joined": { connected: true, registered: true },
  "worker.left": { connected: false },
  "worker.kicked": { connected: false },
  "worker.lost": { connected: false, registered: false },
  "worker.gone": { connected: false, registered: false },
};

/** Facts from before failures had a code of their own were about packages alone. */
function commandError(data: FactData): EventData<"command.error">["error"] {
  const error = data["error"] as EventData<"command.error">["error"] | undefined;
  return error ?? { code: "E.PKG.INVALID", message: "the worker could not carry out the command" };
}
