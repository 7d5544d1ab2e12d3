// Frames as a checker reads them: the text parsed once, and the few words inside that checkers ask about.
// Read by hand and not with the protocol's readers: a judge that shares the reader of the judged shares its mistakes.

import type { FrameSeen, TrueTime } from "../observation.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface WireFrame {
  readonly seen: FrameSeen & { readonly at: TrueTime; readonly n: number };
  readonly type: string;
  readonly seq: number | null;
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

/** Parses each text once, however often its frame is seen. */
export class FrameReader {
  readonly #read = new Map<number, Omit<WireFrame, "seen">>();

  read(seen: WireFrame["seen"]): WireFrame {
    let read = this.#read.get(seen.frame);
    if (read === undefined) {
      const envelope = asObject(JSON.parse(seen.text));
      const { seq } = envelope;
      read = {
        type: String(envelope["type"]),
        seq: typeof seq === "number" ? seq : null,
        payload: asObject(envelope["payload"]),
      };
      this.#read.set(seen.frame, read);
    }
    return { seen, ...read };
  }
}

/** The dispatches a frame carries. */
export function dispatchesIn({ type, payload }: WireFrame): Sent[] {
  if (type !== "biz.exec.dispatch" && type !== "biz.exec.dispatch.batch") return [];
  const items = type === "biz.exec.dispatch" ? [payload] : asList(payload["items"]);
  return items.map((item) => ({
    run: String(item["run_id"]),
    task: String(item["task_id"]),
    fence: Number(item["fence"]),
  }));
}

/** The words about attempts a frame carries. */
export function wordsIn({ type, payload }: WireFrame): Word[] {
  switch (type) {
    case "biz.exec.result":
      return [wordOf("result", payload)];
    case "biz.exec.result.batch":
      return asList(payload["items"]).map((item) => wordOf("result", item));
    case "biz.exec.error":
      return typeof payload["task_id"] === "string" ? [wordOf("error", payload)] : [];
    case "biz.exec.feedback":
      return [wordOf("feedback", payload)];
    default:
      return [];
  }
}

function wordOf(of: Word["of"], item: Json): Word {
  return {
    of,
    task: String(item["task_id"]),
    fence: Number(item["fence"]),
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
export function covers({ payload }: WireFrame, seq: number): boolean {
  const { ack_seq: base, ack_bitmap: map } = payload;
  if (typeof base !== "number") return false;
  if (seq <= base) return true;
  if (typeof map !== "number" && typeof map !== "string") return false;
  const bits = typeof map === "string" ? BigInt(`0x${map}`) : BigInt(map);
  return ((bits >> BigInt(seq - base - 1)) & 1n) === 1n;
}
