// Commands to workers as they are kept and shown. Pure.

import { type OrderBody, shownOrder } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import type { CommandDetail, CommandRef, JsonObject } from "@astraflow/protocol";
import { instant } from "../view.ts";
import { instanceIn } from "./view-workers.ts";

type Order = OrderBody["order"];

export const isSameOrder = (order: Order, other: Order): boolean => canonicalJson(order) === canonicalJson(other);

export const viewCommandRef = (id: string, { workerName, sentAt }: Pick<OrderBody, "workerName" | "sentAt">): CommandRef => ({
  commandId: id,
  workerName,
  acceptedAt: instant(sentAt),
});

export function viewCommand(id: string, body: OrderBody, head: number): CommandDetail {
  const { worker, order, status, endedAt, details, error } = body;
  return {
    ...viewCommandRef(id, body),
    workerId: instanceIn(worker),
    type: order.type,
    status,
    ...(endedAt !== null && { finishedAt: instant(endedAt) }),
    request: shownOrder(order) as unknown as JsonObject,
    ...(details !== undefined && { result: details as JsonObject }),
    ...(error !== undefined && { error }),
    asOf: head,
  };
}
