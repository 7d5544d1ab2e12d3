// Frames as a checker reads them: the text parsed once, and the few words inside that checkers ask about.
// Read by hand and not with the protocol's readers: a judge that shares the reader of the judged shares its mistakes.

import type { FrameSeen, TrueTime } from "../observation.ts";
import { Streams } from "./streams.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface WireFrame {
  readonly seen: FrameSeen & { readonly at: TrueTime; readonly n: number };
  readonly type: string;
  readonly id: string;
  readonly corr: string | null;
  /** Its number in its direction of its session; null where it has none. */
  readonly seq: number | null;
  /** The session whose numbers it carries or acknowledges, over all its sockets; before there is one, its connection. */
  readonly stream: string;
  readonly payload: Json;
}

/** A word of a worker about an attempt. */
export interface Word {
  readonly of: "result" | "error" | "feedback";
  readonly task: string;
  readonly fence: number;
  /** The status of a result, the code of an error. */
  readonly says: string;
  readonly result: unknown;
}

export interface Sent {
  readonly run: string;
  readonly task: string;
  readonly fence: number;
}

const none: Json = {};
const asObject = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : none);
const asList = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.map(asObject) : []);

/** Parses each text once, however often its frame is seen, and says which session it is of. */
export class FrameReader {
  readonly #read = new Map<number, Omit<WireFrame, "seen">>();
  readonly #streams = new Streams();

  read(seen: WireFrame["seen"]): WireFrame {
    let read = this.#read.get(seen.frame);
    if (read === undefined) {
      const envelope = asObject(JSON.parse(seen.text));
      const { corr } = envelope;
      const written = String(envelope["type"]);
      const type = oldest[written] ?? written;
      const payload = asObject(envelope["payload"]);
      const stream = this.#streams.of(seen, type, payload);
      const seq = numberIn(written, envelope);
      read = { type, id: String(envelope["id"]), corr: typeof corr === "string" ? corr : null, seq, stream, payload };
      this.#read.set(seen.frame, read);
    }
    if (seen.event === "delivered") this.#streams.arrived(seen, read.type, read.payload);
    return { seen, ...read };
  }
}

/** What the oldest dialect calls otherwise. */
const oldest: Readonly<Record<string, string>> = {
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
function numberIn(type: string, envelope: Json): number | null {
  const { session_seq: first, seq } = envelope;
  if (typeof first === "number") return first;
  return typeof seq === "number" && /^(biz|ext)\./.test(type) && typeof first === "undefined" ? seq : null;
}

/** The dispatches a frame carries. */
export function dispatchesIn({ type, id, payload }: WireFrame): Sent[] {
  if (type !== "biz.exec.dispatch" && type !== "biz.exec.dispatch.batch") return [];
  const items = type === "biz.exec.dispatch" ? [payload] : asList(payload["items"]);
  return items.map((item) => ({
    run: String(item["run_id"]),
    task: String(item["task_id"]),
    fence: Number(item["fence"] ?? fenceIn(id)),
  }));
}

/** Where a dialect has no fences, the id of a dispatch holds its fence, and the answers to it name that id. */
const fenceIn = (dispatch: string | null): number => Number(dispatch?.split("#")[1]);

/** The words about attempts a frame carries. */
export function wordsIn({ type, payload, corr }: WireFrame): Word[] {
  switch (type) {
    case "biz.exec.result":
      return [wordOf("result", payload, corr)];
    case "biz.exec.result.batch":
      return asList(payload["items"]).map((item) => wordOf("result", item, null));
    case "biz.exec.error": {
      const details = asObject(asObject(payload["context"])["details"]);
      const task = payload["task_id"] ?? details["task_id"];
      return typeof task === "string" ? [wordOf("error", { ...payload, task_id: task }, corr)] : [];
    }
    case "biz.exec.feedback":
      return [wordOf("feedback", payload, corr)];
    default:
      return [];
  }
}

function wordOf(of: Word["of"], item: Json, corr: string | null): Word {
  return {
    of,
    task: String(item["task_id"]),
    fence: Number(item["fence"] ?? fenceIn(corr)),
    says: String(of === "result" ? item["status"] : of === "error" ? item["code"] : "feedback"),
    result: item["result"],
  };
}

/** What a register or a heartbeat says is held there; null for frames that say nothing about that. */
export function heldIn({ type, payload }: WireFrame): { readonly task: string; readonly fence: number }[] | null {
  const list = type === "control.register" ? payload["running"] : type === "control.heartbeat" ? payload["held"] : undefined;
  if (!Array.isArray(list)) return null;
  return asList(list).map((item) => ({ task: String(item["task_id"]), fence: Number(item["fence"]) }));
}

/** Whether an ack covers a number: by its contiguous part or by its bitmap. */
export function covers(frame: WireFrame, seq: number): boolean {
  const said = ackIn(frame);
  return said !== null && (seq <= said.upTo || said.beyond.includes(seq));
}

/** What an ack says was received: everything up to a number, and these beyond it. Null for frames that say nothing about numbers. */
export function ackIn({ type, payload }: WireFrame): { readonly upTo: number; readonly beyond: readonly number[] } | null {
  const { ack_seq: upTo, ack_bitmap: map } = payload;
  if (type !== "control.ack" || typeof upTo !== "number") return null;
  if ((typeof map !== "number" && typeof map !== "string") || map === 0) return { upTo, beyond: [] };
  const beyond: number[] = [];
  let bits = typeof map === "string" ? BigInt(`0x${map}`) : BigInt(map);
  for (let seq = upTo + 1; bits > 0n; seq++, bits >>= 1n) if ((bits & 1n) === 1n) beyond.push(seq);
  return { upTo, beyond };
}

/** The rest of what is left of a frame whose every item was taken back. */
const voidType = "ext.vendor.astraflow.void";

/** What a numbered frame is about, one word an item: equal for every repeat of it. */
export function itemsIn(frame: WireFrame): string[] {
  if (frame.type === voidType) return [];
  const dispatches = dispatchesIn(frame);
  if (dispatches.length > 0) return dispatches.map(({ task, fence }) => `dispatch ${task}#${fence}`);
  const words = wordsIn(frame);
  // Feedback has no name of its own: its text is what it is.
  if (words.some(({ of }) => of === "feedback")) return [`feedback ${JSON.stringify(frame.payload)}`];
  if (words.length > 0) return words.map(({ of, task, fence, says }) => `${of} ${says} ${task}#${fence}`);
  if (frame.type === "biz.exec.cancel") return [`cancel ${String(frame.payload["task_id"])}#${String(frame.payload["fence"])}`];
  return [`${frame.type} ${frame.id}`];
}
