// What callers will want, drawn up front: runs to start, to cancel and to steer, workers to drain. How they go about it is callers.ts.

import type { Dice } from "./dice.ts";
import type { Errand } from "./errands.ts";
import { drawNested } from "./nested-draw.ts";
import type { TrueTime, WorkerShape } from "./observation.ts";
import { drawWorkflow } from "./workflow-draw.ts";

export type Order =
  | {
      readonly at: TrueTime;
      readonly what: "start";
      readonly tenant: string;
      /** Unique per order: also sent as client id, so that runs of one order can be told from outside. */
      readonly name: string;
      /** With a key the caller tries until it has an answer; without one it asks once. */
      readonly hasKey: boolean;
      /** Sends the same order a second time at once, as an impatient proxy does. */
      readonly isDoubled: boolean;
      readonly body: string;
      readonly nodes: number;
      readonly workMs: number;
    }
  | { readonly at: TrueTime; readonly what: "cancel"; readonly name: string }
  | { readonly at: TrueTime; readonly what: "skip" | "retry"; readonly name: string; readonly node: string }
  | {
      readonly at: TrueTime;
      readonly what: "rebind";
      readonly name: string;
      readonly node: string | null;
      /** Machine; null: anywhere but where it is. */
      readonly worker: string | null;
      readonly mode: "switch" | "drain";
    }
  | { readonly at: TrueTime; readonly what: "drain" | "undrain"; readonly worker: string }
  | {
      readonly at: TrueTime;
      readonly what: "errand";
      /** Unique per order, and its key. */
      readonly name: string;
      readonly worker: string;
      readonly errand: Errand;
      /** Sent a second time at once, under the same key. */
      readonly isDoubled: boolean;
    };

export interface OrderOptions {
  readonly tenants: readonly string[];
  readonly workers: readonly WorkerShape[];
  readonly stormMs: TrueTime;
  readonly scale: number;
  readonly maxDeliveries: number;
  readonly mayKill: boolean;
  /** Handlers say more on the way. */
  readonly isTalkative: boolean;
  /** Workflows have chains and containers, and runs are steered. */
  readonly isNested?: boolean;
  /** Nobody interferes: no cancelling, no steering, no draining. */
  readonly isLeftAlone?: boolean;
}

export function drawOrders(dice: Dice, options: OrderOptions): Order[] {
  return options.isNested === true ? drawNestedOrders(dice, options) : drawFlatOrders(dice, options);
}

function drawFlatOrders(dice: Dice, options: OrderOptions): Order[] {
  const { tenants, workers, stormMs, scale, maxDeliveries, mayKill, isTalkative } = options;
  const orders: Order[] = [];
  const count = Math.round(dice.scale(isTalkative ? 5 : 1, 24));
  for (let n = 1; n <= count; n++) {
    const tenant = dice.pick(tenants);
    const at = Math.round(dice.roll() * stormMs * 0.9);
    const pools = workers.some((worker) => worker.tenant === tenant && worker.pool === "gpu") ? ["gpu"] : [];
    const { workflow, nodes, workMs } = drawWorkflow(dice, { pools, maxDeliveries, mayKill, isTalkative, scale });
    const name = `order-${n}`;
    const body = JSON.stringify({
      workflow,
      clientId: name,
      priority: dice.below(10),
      ...(dice.chance(0.1) && { timeoutMs: Math.round(dice.between(4_000, 30_000) * scale) }),
    });
    const hasKey = dice.chance(0.8);
    orders.push({ at, what: "start", tenant, name, hasKey, isDoubled: hasKey && dice.chance(0.2), body, nodes, workMs });
    if (dice.chance(0.15)) orders.push({ at: at + Math.round(dice.scale(1, 10_000) * scale), what: "cancel", name });
  }
  for (let n = dice.below(3); n > 0; n--) {
    const { worker } = dice.pick(workers);
    const at = Math.round(dice.roll() * stormMs);
    orders.push({ at, what: "drain", worker });
    if (dice.chance(0.6)) orders.push({ at: at + Math.round(dice.scale(10, 8_000) * scale), what: "undrain", worker });
  }
  return orders.sort((a, b) => a.at - b.at);
}

/** Fewer runs, each of many tasks; operators have a hand in half of them. */
function drawNestedOrders(dice: Dice, options: OrderOptions): Order[] {
  const { tenants, workers, stormMs, scale, isLeftAlone = false } = options;
  const orders: Order[] = [];
  const count = Math.round(dice.scale(1, 7));
  for (let n = 1; n <= count; n++) {
    const tenant = dice.pick(tenants);
    const at = Math.round(dice.roll() * stormMs * 0.8);
    const { workflow, nodes, workMs, ids, pins } = drawNested(dice.fork(`workflow ${n}`), { ...options, isQuiet: isLeftAlone });
    const name = `order-${n}`;
    const timeoutMs = !isLeftAlone && dice.chance(0.1) ? Math.round(dice.between(6_000, 40_000) * scale) : null;
    const body = JSON.stringify({
      workflow,
      clientId: name,
      priority: dice.below(10),
      ...(pins !== null && { pins }),
      ...(timeoutMs !== null && { timeoutMs }),
    });
    const hasKey = dice.chance(0.8);
    orders.push({ at, what: "start", tenant, name, hasKey, isDoubled: hasKey && dice.chance(0.2), body, nodes, workMs });
    if (isLeftAlone) continue;
    const later = (): number => at + Math.round(dice.scale(20, 8_000) * scale);
    if (dice.chance(0.12)) orders.push({ at: later(), what: "cancel", name });
    if (dice.chance(0.5)) continue;
    for (let left = dice.between(1, 3); left > 0; left--) {
      const what = dice.weigh({ skip: 2, retry: 3, rebind: 3 });
      const node = dice.pick(ids);
      if (what !== "rebind") orders.push({ at: later(), what, name, node });
      else {
        const worker = dice.chance(0.6) ? dice.pick(workers).worker : null;
        const mode = dice.pick(["switch", "drain"] as const);
        orders.push({ at: later(), what, name, node: dice.chance(0.5) ? node : null, worker, mode });
      }
    }
  }
  for (let n = isLeftAlone ? 0 : dice.below(2); n > 0; n--) {
    const { worker } = dice.pick(workers);
    const at = Math.round(dice.roll() * stormMs);
    orders.push({ at, what: "drain", worker }, { at: at + Math.round(dice.scale(10, 8_000) * scale), what: "undrain", worker });
  }
  return orders.sort((a, b) => a.at - b.at);
}
