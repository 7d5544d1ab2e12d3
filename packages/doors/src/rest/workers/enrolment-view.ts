// Commands to workers as they are kept and shown. Pure.

import type { WorkerOrder } from "@astraflow/engine";
import { canonicalText } from "@astraflow/graph";
import type { CommandDetail, CommandRef, JsonObject, WorkerCommand } from "@astraflow/protocol";
import { instant } from "../view.ts";
import { instanceIn } from "./view-workers.ts";

/** What is told to a worker, or done for it here. */
export type CommandWords = WorkerOrder | Extract<WorkerCommand, { type: "drain" | "rebind" }>;

/** Body of a command's document, as the engine writes it for those that a worker answers. */
export interface CommandBody {
  readonly worker: string;
  readonly workerName: string;
  readonly order: CommandWords;
  readonly by: string;
  readonly corr?: string;
  readonly status: "sent" | "acked" | "failed";
  readonly sentAt: number;
  readonly endedAt: number | null;
  readonly details?: Readonly<Record<string, unknown>>;
}

export const isSameCommand = ({ worker, order }: CommandBody, toWorker: string, command: CommandWords): boolean =>
  worker === toWorker && canonicalText(order) === canonicalText(command);

export const viewCommandRef = (id: string, { workerName, sentAt }: Pick<CommandBody, "workerName" | "sentAt">): CommandRef => ({
  commandId: id,
  workerName,
  acceptedAt: instant(sentAt),
});

export function viewCommand(id: string, body: CommandBody, head: number): CommandDetail {
  const { worker, order, status, endedAt, details } = body;
  return {
    ...viewCommandRef(id, body),
    workerId: instanceIn(worker),
    type: order.type,
    status,
    ...(endedAt !== null && { finishedAt: instant(endedAt) }),
    request: order as unknown as JsonObject,
    ...(details !== undefined && { result: details as JsonObject }),
    asOf: head,
  };
}
