// The condition of a worker beyond its lease: one JSON text in its row, written with joins and heartbeats. It shows operators the last
// heartbeat, and holds what the next join is compared with: the session and the former boots. This is the only reader and writer.

import { isRecord } from "@astraflow/protocol";
import type { ControlCommand, PackageCommand } from "../../interface/command.ts";
import type { Millis } from "../../storage/rows.ts";

/** A command that the worker has not answered yet. */
export interface OpenCommand {
  readonly id: string;
  readonly order: PackageCommand | Extract<ControlCommand, { type: "drain" | "undrain" }>;
}

export interface WorkerCondition {
  /** As it last reported. */
  readonly healthy: boolean;
  /** What it has too little of (`memory`, `disk`, `memory disk`), so that it gets nothing new; null when nothing. */
  readonly strain: string | null;
  /** Since when it has had no free slot, once that was recorded; null while it has one. */
  readonly saturatedAt: Millis | null;
  /** The numbers of its last heartbeat, as it sent them. */
  readonly vitals: Readonly<Record<string, unknown>> | null;
  readonly beatAt: Millis | null;
  /** The session of its last join; null after a kick, so that it cannot be resumed. */
  readonly session: string | null;
  /** Boots before the present one, the last ones first. */
  readonly formerBoots: readonly string[];
  /** Former boots that joined again while the present one was live, and were recorded as clones. */
  readonly clones: readonly string[];
  /** Slots that cancelled attempts take because it cannot stop them, as of its last heartbeat; absent when there is none. */
  readonly unstopped?: number;
  /** It has closed its last session as a worker does that has finished, and held nothing; absent otherwise. */
  readonly hasLeft?: true;
  /** Commands it was sent and has not answered, oldest first; absent when there is none. */
  readonly orders?: readonly OpenCommand[];
  /** Package commands that ended without an answer, oldest first: what it announces later shows what became of them. Absent when there is none. */
  readonly unanswered?: readonly OpenCommand[];
}

const emptyCondition: WorkerCondition = {
  healthy: true,
  strain: null,
  saturatedAt: null,
  vitals: null,
  beatAt: null,
  session: null,
  formerBoots: [],
  clones: [],
};

/** A row must not grow with what a worker reports. */
export const conditionBytesMax = 8 * 1024;
const formerBootsMax = 4;

/** Rows of older versions contain `{}`; text that cannot be parsed counts as empty. */
export function readCondition(text: string): WorkerCondition {
  if (text === "{}") return emptyCondition;
  const parsed = parseObject(text);
  if (parsed === null) return emptyCondition;
  return {
    healthy: parsed.healthy !== false,
    strain: stringOrNull(parsed.strain),
    saturatedAt: numberOrNull(parsed.saturatedAt),
    vitals: isRecord(parsed.vitals) ? parsed.vitals : null,
    beatAt: numberOrNull(parsed.beatAt),
    session: stringOrNull(parsed.session),
    formerBoots: stringsOf(parsed.formerBoots),
    clones: stringsOf(parsed.clones),
    ...(typeof parsed.unstopped === "number" && { unstopped: parsed.unstopped }),
    ...(parsed.hasLeft === true && { hasLeft: true as const }),
    ...(Array.isArray(parsed.orders) && parsed.orders.length > 0 ? { orders: parsed.orders as OpenCommand[] } : {}),
    ...(Array.isArray(parsed.unanswered) && parsed.unanswered.length > 0
      ? { unanswered: parsed.unanswered as OpenCommand[] }
      : {}),
  };
}

/** As text within its limit. If it is too long, the vitals and the unanswered commands are dropped first, then the oldest boots, then the oldest commands; the session stays. */
export function writeCondition(whole: WorkerCondition): string {
  let text = JSON.stringify(whole);
  if (Buffer.byteLength(text) <= conditionBytesMax) return text;
  const { unanswered: _, ...condition } = whole;
  // Keep the recorded clones as long as possible: each would be recorded again with every attempt to join.
  text = JSON.stringify({ ...condition, vitals: null });
  if (Buffer.byteLength(text) <= conditionBytesMax) return text;
  for (let boots = condition.formerBoots.length; boots >= 0; boots--) {
    const formerBoots = condition.formerBoots.slice(0, boots);
    text = JSON.stringify({ ...condition, vitals: null, formerBoots, clones: [] });
    if (Buffer.byteLength(text) <= conditionBytesMax) return text;
  }
  const { orders = [], ...rest } = condition;
  for (let open = orders.length - 1; open >= 0; open--) {
    text = JSON.stringify({
      ...rest,
      vitals: null,
      formerBoots: [],
      clones: [],
      orders: open === 0 ? undefined : orders.slice(-open),
    });
    if (Buffer.byteLength(text) <= conditionBytesMax) break;
  }
  return text;
}

/** A heartbeat's numbers; null unless the text is an object. */
export const readVitals = (text: string): WorkerCondition["vitals"] => parseObject(text);

/** The last boots before `boot`. One that joins again is the present one and no longer former. */
export function formerBootsAtJoin(condition: WorkerCondition, former: string | null, boot: string): string[] {
  const boots = former === null ? condition.formerBoots : [former, ...condition.formerBoots];
  return [...new Set(boots)].filter((one) => one !== boot).slice(0, formerBootsMax);
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : null;
  } catch (problem) {
    if (problem instanceof SyntaxError) return null;
    throw problem;
  }
}

const stringOrNull = (value: unknown): string | null => (typeof value === "string" ? value : null);
const numberOrNull = (value: unknown): number | null => (typeof value === "number" ? value : null);
const stringsOf = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one) => typeof one === "string") : []);
