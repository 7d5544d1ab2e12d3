// Makes commands from work frames whose payload is invalid, so that no task waits for ever for a result that arrived and could not be read.

import type { Command, ReportErrorCommand } from "@astraflow/engine";
import { type Envelope, Fault, isRecord, type JsonValue, limits, readPayload } from "@astraflow/protocol";
import { type CommandOrigin, fenceFromCorr, findRunMismatch, senderOf, taskFromCorr, toResultCommand } from "./work-frames.ts";

export interface SalvagedFrame {
  /** Results from the valid parts of the frame, errors for the others. */
  readonly commands: readonly Command[];
  /** Which field is wrong, and how. */
  readonly reason: string;
}

const reasonCharsMax = 300;

export function salvageInvalidFrame(origin: CommandOrigin, type: string, envelope: Envelope, why: Fault): SalvagedFrame {
  const { payload, corr } = envelope;
  const reason = why.message.slice(0, reasonCharsMax);
  if (type === "biz.exec.result.batch") return salvageBatch(origin, payload["items"], corr, reason);
  // A report about another run says nothing about this attempt.
  if (why.code === "E.TASK.RUN_MISMATCH") return { commands: [], reason };
  const isOutcome = type === "biz.exec.result" || type === "biz.exec.error";
  return { commands: isOutcome ? unreadableOutcome(origin, payload, corr, reason) : [], reason };
}

/** One invalid item must not cost the others. A list that is too long is not read at all. */
function salvageBatch(
  origin: CommandOrigin,
  items: JsonValue | undefined,
  corr: string | undefined,
  reason: string,
): SalvagedFrame {
  if (!Array.isArray(items) || items.length > limits.batchItemsMax) return { commands: [], reason };
  const commands: Command[] = [];
  for (const item of items) {
    const result = readPayload(origin.dialect, "biz.exec.result", item);
    if (result instanceof Fault) commands.push(...unreadableOutcome(origin, item, corr, result.message.slice(0, reasonCharsMax)));
    else if (findRunMismatch(result.run_id, result.task_id) === null) commands.push(toResultCommand(origin, result, corr));
  }
  return { commands, reason };
}

/** Nothing where no task is named. */
function unreadableOutcome(
  origin: CommandOrigin,
  payload: JsonValue,
  corr: string | undefined,
  reason: string,
): ReportErrorCommand[] {
  const task =
    readIdField(payload, "task_id") ??
    readIdField(fieldOf(fieldOf(payload, "context"), "details"), "task_id") ??
    taskFromCorr(corr, origin.dialect);
  if (task === null || findRunMismatch(fieldOf(payload, "run_id"), task) !== null) return [];
  const fence = fieldOf(payload, "fence");
  const attempt = { task, fence: isFence(fence) ? fence : fenceFromCorr(corr, task) };
  const message = `invalid result frame: ${reason}`;
  return [{ type: "task.error", ...senderOf(origin), ...attempt, code: "E.FRAME.INVALID", message }];
}

const fieldOf = (value: unknown, key: string): unknown => (isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined);

function readIdField(value: unknown, key: string): string | null {
  const id = fieldOf(value, key);
  return typeof id === "string" && id !== "" && id.length <= limits.idCharsMax ? id : null;
}

const isFence = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
