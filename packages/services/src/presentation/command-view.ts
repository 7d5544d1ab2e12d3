// Commands to workers as they are kept and shown. Pure.

import { redactCommand, type WorkerCommandRecord } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import type { CommandDetail, CommandRef, JsonObject } from "@astraflow/protocol";
import { isoTime } from "./fields.ts";
import { instanceIdOf } from "./worker-view.ts";

type CommandOrder = WorkerCommandRecord["order"];

export const isSameCommand = (order: CommandOrder, other: CommandOrder): boolean => canonicalJson(order) === canonicalJson(other);

export const presentCommandRef = (
  id: string,
  { workerName, sentAt }: Pick<WorkerCommandRecord, "workerName" | "sentAt">,
): CommandRef => ({
  commandId: id,
  workerName,
  acceptedAt: isoTime(sentAt),
});

export function presentCommand(id: string, body: WorkerCommandRecord, head: number): CommandDetail {
  const { worker, order, status, endedAt, details, error } = body;
  return {
    ...presentCommandRef(id, body),
    workerId: instanceIdOf(worker),
    type: order.type,
    status,
    ...(endedAt !== null && { finishedAt: isoTime(endedAt) }),
    request: redactCommand(order) as unknown as JsonObject,
    ...(details !== undefined && { result: details as JsonObject }),
    ...(error !== undefined && { error }),
    asOf: head,
  };
}
