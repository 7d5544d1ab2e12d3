// Frames as checkers read them: each text is parsed once, and the fields that checkers need are extracted. The protocol's own parser is not used:
// sharing it would hide its bugs.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { FrameObservation, ObservationStamp } from "../observation/observation.ts";

export type JsonPayload = Readonly<Record<string, unknown>>;

/** What the text of a frame says. */
interface ParsedFrame {
  /** `<tenant>/<instance>`, as the log names its worker. */
  readonly workerKey: string;
  readonly type: string;
  readonly id: string;
  /** Its number in its direction of its session; null where it has none. */
  readonly seq: number | null;
  /** The session whose numbers it carries or acknowledges, over all its sockets; before there is one, its connection. */
  readonly sessionKey: string;
  readonly payload: JsonPayload;
  readonly dispatches: readonly ObservedDispatch[];
  readonly reports: readonly ObservedTaskReport[];
  /** The attempts that a register or a heartbeat lists as held; null for other frames. */
  readonly heldAttempts: readonly ObservedAttempt[] | null;
  /** What an ack covers; null for other frames. */
  readonly ack: ObservedAck | null;
}

export interface ObservedFrame extends ParsedFrame, FrameObservation, ObservationStamp {}

export interface ObservedAttempt {
  readonly task: string;
  readonly fence: number;
  /** `<task>#<fence>` */
  readonly attempt: string;
}

export interface ObservedDispatch extends ObservedAttempt {
  readonly run: string;
}

/** A worker's report about an attempt. */
export interface ObservedTaskReport extends ObservedAttempt {
  readonly of: "result" | "error" | "feedback";
  /** The status of a result, the code of an error. */
  readonly outcome: string;
  readonly result: unknown;
}

/** Everything up to a number, and these beyond it. */
interface ObservedAck {
  readonly upTo: number;
  readonly beyond: readonly number[];
}

const emptyRecord: JsonPayload = {};
const asObject = (value: unknown): JsonPayload =>
  typeof value === "object" && value !== null ? (value as JsonPayload) : emptyRecord;
const asList = (value: unknown): readonly JsonPayload[] => (Array.isArray(value) ? value.map(asObject) : []);

/** The sessions of one socket, as the worker numbers what it sends, and as the scheduler does. The worker knows of an accept when it has arrived. */
interface SocketSessionKeys {
  fromWorker: string;
  fromScheduler: string;
}

/**
 * Parses each text once, however often its frame is observed, and finds its session. A session outlives its sockets, so its numbers are
 * followed over all of them: a socket belongs to the session that its worker asked to resume, or that the scheduler accepted on it.
 */
export class FrameReader {
  readonly #isFirstGeneration: (worker: string) => boolean;
  readonly #parsedFrames = new Map<number, ParsedFrame>();
  readonly #sessionKeys = new Map<string, SocketSessionKeys>();

  /** Workers of the first generation number by `session_seq` alone; what has none is no numbered frame to them. */
  constructor(isFirstGeneration: (worker: string) => boolean = () => false) {
    this.#isFirstGeneration = isFirstGeneration;
  }

  read(observation: FrameObservation & ObservationStamp): ObservedFrame {
    const { connection, frame, event } = observation;
    const keys = getOrCreate(this.#sessionKeys, connection, () => ({ fromWorker: connection, fromScheduler: connection }));
    const parsed = getOrCreate(this.#parsedFrames, frame, () => {
      const { tenant, instance } = observation;
      return parseFrame(observation, keys, this.#isFirstGeneration(`${tenant}/${instance}`));
    });
    if (event === "delivered" && parsed.type === "control.session.accept") keys.fromWorker = String(parsed.payload["session_id"]);
    return { ...observation, ...parsed };
  }
}

function parseFrame(
  { text, tenant, instance, toward }: FrameObservation,
  keys: SocketSessionKeys,
  isFirstGeneration: boolean,
): ParsedFrame {
  const envelope = asObject(JSON.parse(text));
  const id = String(envelope["id"]);
  const written = String(envelope["type"]);
  const type = v1FrameTypes[written] ?? written;
  const payload = asObject(envelope["payload"]);
  return {
    workerKey: `${tenant}/${instance}`,
    type,
    id,
    seq: sequenceNumberOf(written, envelope, isFirstGeneration),
    sessionKey: sessionKeyOf(toward, type, payload, keys),
    payload,
    dispatches: dispatchesIn(type, payload, id),
    reports: taskReportsIn(type, payload, envelope["corr"]),
    heldAttempts: heldAttemptsIn(type, payload),
    ack: readAck(type, payload),
  };
}

/** The session of a frame that is being sent. */
function sessionKeyOf(toward: string, type: string, payload: JsonPayload, keys: SocketSessionKeys): string {
  if (toward === "scheduler") {
    if (type === "control.resume") keys.fromWorker = keys.fromScheduler = String(payload["session_id"]);
    return keys.fromWorker;
  }
  if (type === "control.session.accept") keys.fromScheduler = String(payload["session_id"]);
  return keys.fromScheduler;
}

/** Frame types that have other names in the oldest dialect. */
const v1FrameTypes: Readonly<Record<string, string>> = {
  handshake: "control.handshake",
  register: "control.register",
  ack: "control.ack",
  heartbeat: "control.heartbeat",
  "cmd.drain": "control.drain",
  "cmd.dispatch": "biz.exec.dispatch",
  feedback: "biz.exec.feedback",
  result: "biz.exec.result",
  error: "biz.exec.error",
  "command.error": "biz.exec.error",
};

/** The oldest dialect has no transport numbers; the first generation keeps `seq` for runs and numbers its frames under another name. */
function sequenceNumberOf(type: string, envelope: JsonPayload, isFirstGeneration: boolean): number | null {
  const { session_seq: first, seq } = envelope;
  if (typeof first === "number") return first;
  return typeof seq === "number" && /^(biz|ext)\./.test(type) && !isFirstGeneration ? seq : null;
}

/** `dispatch`: the id of a dispatch. It holds the fence where a dialect has no fences, and the answers to it name that id. */
function toAttempt(item: JsonPayload, dispatch?: unknown): ObservedAttempt {
  const task = String(item["task_id"]);
  const fence = Number(item["fence"] ?? (typeof dispatch === "string" ? dispatch.split("#")[1] : undefined));
  return { task, fence, attempt: `${task}#${fence}` };
}

function dispatchesIn(type: string, payload: JsonPayload, id: string): ObservedDispatch[] {
  if (type === "biz.exec.dispatch") return [{ run: String(payload["run_id"]), ...toAttempt(payload, id) }];
  return type === "biz.exec.dispatch.batch"
    ? asList(payload["items"]).flatMap((item) => dispatchesIn("biz.exec.dispatch", item, id))
    : [];
}

function taskReportsIn(type: string, payload: JsonPayload, corr: unknown): ObservedTaskReport[] {
  const { result } = payload;
  switch (type) {
    case "biz.exec.result":
      return [{ of: "result", ...toAttempt(payload, corr), outcome: String(payload["status"]), result }];
    case "biz.exec.result.batch":
      return asList(payload["items"]).flatMap((item) => taskReportsIn("biz.exec.result", item, null));
    case "biz.exec.error": {
      const details = asObject(asObject(payload["context"])["details"]);
      const task = payload["task_id"] ?? details["task_id"];
      if (typeof task !== "string") return [];
      return [{ of: "error", ...toAttempt({ ...payload, task_id: task }, corr), outcome: String(payload["code"]), result }];
    }
    case "biz.exec.feedback":
      return [{ of: "feedback", ...toAttempt(payload, corr), outcome: "feedback", result }];
    default:
      return [];
  }
}

function heldAttemptsIn(type: string, payload: JsonPayload): ObservedAttempt[] | null {
  const list = type === "control.register" ? payload["running"] : type === "control.heartbeat" ? payload["held"] : undefined;
  return Array.isArray(list) ? asList(list).map((item) => toAttempt(item)) : null;
}

function readAck(type: string, { ack_seq: upTo, ack_bitmap: map }: JsonPayload): ObservedAck | null {
  if (type !== "control.ack" || typeof upTo !== "number") return null;
  if ((typeof map !== "number" && typeof map !== "string") || map === 0) return { upTo, beyond: [] };
  const beyond: number[] = [];
  let bits = typeof map === "string" ? BigInt(`0x${map}`) : BigInt(map);
  for (let seq = upTo + 1; bits > 0n; seq++, bits >>= 1n) if ((bits & 1n) === 1n) beyond.push(seq);
  return { upTo, beyond };
}

/** Whether an ack covers a number: by its contiguous part or by its bitmap. */
export const ackCovers = ({ ack }: ObservedFrame, seq: number): boolean =>
  ack !== null && (seq <= ack.upTo || ack.beyond.includes(seq));

/** The type of a frame whose items were all withdrawn. */
const emptiedFrameType = "ext.vendor.astraflow.void";

/** A text for each item of a numbered frame, equal for every repeat of it. */
export function describeItems({ type, id, payload, dispatches, reports }: ObservedFrame): string[] {
  if (type === emptiedFrameType) return [];
  if (dispatches.length > 0) return dispatches.map(({ attempt }) => `dispatch ${attempt}`);
  // Feedback has no name of its own: its text is what it is.
  if (reports.some(({ of }) => of === "feedback")) return [`feedback ${JSON.stringify(payload)}`];
  if (reports.length > 0) return reports.map(({ of, outcome, attempt }) => `${of} ${outcome} ${attempt}`);
  if (type === "biz.exec.cancel") return [`cancel ${String(payload["task_id"])}#${String(payload["fence"])}`];
  return [`${type} ${id}`];
}
