// Frames of work whose payload does not fit their type: what can still be told to the engine, so that no task waits for ever for a word
// that was said and not understood. Pure. That such a frame is refused, and when, is inbound.ts.

import type { Command, ErrorTask } from "@astraflow/engine";
import { type Envelope, Fault, type JsonValue, limits, readPayload } from "@astraflow/protocol";
import { fenceIn, resultCommand, type Speaker, taskIn } from "./words.ts";

export interface Misfit {
  /** What the good parts of the frame say, and that the others could not be read. Whether this worker holds those tasks, the engine knows. */
  readonly commands: readonly Command[];
  /** Which field is wrong, and how. */
  readonly reason: string;
}

/** Of one sentence in an ack or an error. */
const reasonCharsMax = 300;

export function readMisfit(who: Speaker, type: string, envelope: Envelope, why: Fault): Misfit {
  const { payload, corr } = envelope;
  const reason = why.message.slice(0, reasonCharsMax);
  if (type === "biz.exec.result.batch") return readItems(who, payload["items"], corr, reason);
  const isOutcome = type === "biz.exec.result" || type === "biz.exec.error";
  return { commands: isOutcome ? unreadable(who, payload, corr, reason) : [], reason };
}

/** One bad item must not take the others with it. A list that is longer than it may be is not looked into. */
function readItems(who: Speaker, items: JsonValue | undefined, corr: string | undefined, reason: string): Misfit {
  if (!Array.isArray(items) || items.length > limits.batchItemsMax) return { commands: [], reason };
  const commands: Command[] = [];
  for (const item of items) {
    const result = readPayload(who.dialect, "biz.exec.result", item);
    if (result instanceof Fault) commands.push(...unreadable(who, item, corr, result.message.slice(0, reasonCharsMax)));
    else commands.push(resultCommand(who, result, corr));
  }
  return { commands, reason };
}

/** Nothing where no task is named. */
function unreadable(who: Speaker, payload: JsonValue, corr: string | undefined, reason: string): ErrorTask[] {
  const task =
    idIn(payload, "task_id") ?? idIn(fieldOf(fieldOf(payload, "context"), "details"), "task_id") ?? taskIn(corr, who.dialect);
  if (task === null) return [];
  const fence = fieldOf(payload, "fence");
  const message = `the outcome of this task could not be read: ${reason}`;
  return [
    {
      type: "task.error",
      tenant: who.tenant,
      worker: who.worker,
      session: who.session,
      task,
      fence: isFence(fence) ? fence : fenceIn(corr, task),
      code: "E.FRAME.INVALID",
      message,
    },
  ];
}

function fieldOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

function idIn(value: JsonValue | undefined, key: string): string | null {
  const id = fieldOf(value, key);
  return typeof id === "string" && id !== "" && id.length <= limits.idCharsMax ? id : null;
}

const isFence = (value: JsonValue | undefined): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
