// Frames as checkers read them: each text is parsed once, and the fields that checkers need are extracted. The protocol's own parser is not used:
// sharing it would hide its bugs.

import type { FrameObservation, TrueTime } from "../observation/observation.ts";
import { FrameSessionKeys } from "./frame-session-keys.ts";

export type JsonPayload = Readonly<Record<string, unknown>>;

export interface ObservedFrame {
  readonly observation: FrameObservation & { readonly at: TrueTime; readonly n: number };
  /** `<tenant>/<instance>`, as the log names its worker. */
  readonly workerKey: string;
  readonly type: string;
  readonly id: string;
  readonly corr: string | null;
  /** Its number in its direction of its session; null where it has none. */
  readonly seq: number | null;
  /** The session whose numbers it carries or acknowledges, over all its sockets; before there is one, its connection. */
  readonly sessionKey: string;
  readonly payload: JsonPayload;
}

/** A worker's report about an attempt. */
export interface ObservedTaskReport {
  readonly of: "result" | "error" | "feedback";
  readonly task: string;
  readonly fence: number;
  /** The status of a result, the code of an error. */
  readonly outcome: string;
  readonly result: unknown;
}

export interface ObservedDispatch {
  readonly run: string;
  readonly task: string;
  readonly fence: number;
}

const emptyRecord: JsonPayload = {};
const asObject = (value: unknown): JsonPayload =>
  typeof value === "object" && value !== null ? (value as JsonPayload) : emptyRecord;
const asList = (value: unknown): readonly JsonPayload[] => (Array.isArray(value) ? value.map(asObject) : []);

/** Parses each text once, however often its frame is observed, and finds its session. */
export class FrameReader {
  readonly #parsedFrames = new Map<number, Omit<ObservedFrame, "observation">>();
  readonly #sessionKeys = new FrameSessionKeys();

  read(observation: ObservedFrame["observation"]): ObservedFrame {
    let read = this.#parsedFrames.get(observation.frame);
    if (read === undefined) {
      const envelope = asObject(JSON.parse(observation.text));
      const { corr } = envelope;
      const written = String(envelope["type"]);
      const type = v1FrameTypes[written] ?? written;
      const payload = asObject(envelope["payload"]);
      const sessionKey = this.#sessionKeys.sessionKeyOf(observation, type, payload);
      const seq = sequenceNumberOf(written, envelope);
      const workerKey = `${observation.tenant}/${observation.instance}`;
      read = {
        workerKey,
        type,
        id: String(envelope["id"]),
        corr: typeof corr === "string" ? corr : null,
        seq,
        sessionKey,
        payload,
      };
      this.#parsedFrames.set(observation.frame, read);
    }
    if (observation.event === "delivered") this.#sessionKeys.recordArrival(observation, read.type, read.payload);
    return { observation, ...read };
  }
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
function sequenceNumberOf(type: string, envelope: JsonPayload): number | null {
  const { session_seq: first, seq } = envelope;
  if (typeof first === "number") return first;
  return typeof seq === "number" && /^(biz|ext)\./.test(type) && typeof first === "undefined" ? seq : null;
}

/** The dispatches a frame carries. */
export function dispatchesIn({ type, id, payload }: ObservedFrame): ObservedDispatch[] {
  if (type !== "biz.exec.dispatch" && type !== "biz.exec.dispatch.batch") return [];
  const items = type === "biz.exec.dispatch" ? [payload] : asList(payload["items"]);
  return items.map((item) => ({
    run: String(item["run_id"]),
    task: String(item["task_id"]),
    fence: Number(item["fence"] ?? fenceInDispatchId(id)),
  }));
}

/** Where a dialect has no fences, the id of a dispatch holds its fence, and the answers to it name that id. */
const fenceInDispatchId = (dispatch: string | null): number => Number(dispatch?.split("#")[1]);

/** The reports about attempts that a frame carries. */
export function taskReportsIn({ type, payload, corr }: ObservedFrame): ObservedTaskReport[] {
  switch (type) {
    case "biz.exec.result":
      return [toTaskReport("result", payload, corr)];
    case "biz.exec.result.batch":
      return asList(payload["items"]).map((item) => toTaskReport("result", item, null));
    case "biz.exec.error": {
      const details = asObject(asObject(payload["context"])["details"]);
      const task = payload["task_id"] ?? details["task_id"];
      return typeof task === "string" ? [toTaskReport("error", { ...payload, task_id: task }, corr)] : [];
    }
    case "biz.exec.feedback":
      return [toTaskReport("feedback", payload, corr)];
    default:
      return [];
  }
}

function toTaskReport(of: ObservedTaskReport["of"], item: JsonPayload, corr: string | null): ObservedTaskReport {
  return {
    of,
    task: String(item["task_id"]),
    fence: Number(item["fence"] ?? fenceInDispatchId(corr)),
    outcome: String(of === "result" ? item["status"] : of === "error" ? item["code"] : "feedback"),
    result: item["result"],
  };
}

/** The attempts that a register or a heartbeat lists as held; null for other frames. */
export function heldAttemptsIn({ type, payload }: ObservedFrame): { readonly task: string; readonly fence: number }[] | null {
  const list = type === "control.register" ? payload["running"] : type === "control.heartbeat" ? payload["held"] : undefined;
  if (!Array.isArray(list)) return null;
  return asList(list).map((item) => ({ task: String(item["task_id"]), fence: Number(item["fence"]) }));
}

/** Whether an ack covers a number: by its contiguous part or by its bitmap. */
export function ackCovers(frame: ObservedFrame, seq: number): boolean {
  const said = readAck(frame);
  return said !== null && (seq <= said.upTo || said.beyond.includes(seq));
}

/** What an ack covers: everything up to a number, and these beyond it. Null for other frames. */
export function readAck({ type, payload }: ObservedFrame): { readonly upTo: number; readonly beyond: readonly number[] } | null {
  const { ack_seq: upTo, ack_bitmap: map } = payload;
  if (type !== "control.ack" || typeof upTo !== "number") return null;
  if ((typeof map !== "number" && typeof map !== "string") || map === 0) return { upTo, beyond: [] };
  const beyond: number[] = [];
  let bits = typeof map === "string" ? BigInt(`0x${map}`) : BigInt(map);
  for (let seq = upTo + 1; bits > 0n; seq++, bits >>= 1n) if ((bits & 1n) === 1n) beyond.push(seq);
  return { upTo, beyond };
}

/** The type of a frame whose items were all withdrawn. */
const emptiedFrameType = "ext.vendor.astraflow.void";

/** A text for each item of a numbered frame, equal for every repeat of it. */
export function describeItems(frame: ObservedFrame): string[] {
  if (frame.type === emptiedFrameType) return [];
  const dispatches = dispatchesIn(frame);
  if (dispatches.length > 0) return dispatches.map(({ task, fence }) => `dispatch ${task}#${fence}`);
  const reports = taskReportsIn(frame);
  // Feedback has no name of its own: its text is what it is.
  if (reports.some(({ of }) => of === "feedback")) return [`feedback ${JSON.stringify(frame.payload)}`];
  if (reports.length > 0) return reports.map(({ of, task, fence, outcome }) => `${of} ${outcome} ${task}#${fence}`);
  if (frame.type === "biz.exec.cancel") return [`cancel ${String(frame.payload["task_id"])}#${String(frame.payload["fence"])}`];
  return [`${frame.type} ${frame.id}`];
}
