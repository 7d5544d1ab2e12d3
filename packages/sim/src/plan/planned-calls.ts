// The API calls of a simulated run, generated beforehand: runs to start, cancel, skip, retry and rebind, workers to drain. callers/ makes them.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec, TrueTime } from "../observation/observation.ts";
import { generateNestedWorkflow } from "./nested-workflow-generator.ts";
import { generateWorkflow } from "./workflow-generator.ts";

export type PlannedCall =
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
      readonly command: PlannedWorkerCommand;
      /** Sent a second time at once, under the same key. */
      readonly isDoubled: boolean;
    };

/** What is asked of one worker. */
export type PlannedWorkerCommand =
  | { readonly of: "kick" }
  | { readonly of: "pkg.install" | "pkg.uninstall"; readonly name: string }
  /** Leaves what follows of its runs to another machine; null: to one that nobody knows, which is refused. */
  | { readonly of: "rebind"; readonly successor: string | null };

export interface PlannedCallOptions {
  readonly tenants: readonly string[];
  readonly workers: readonly SimulatedWorkerSpec[];
  readonly faultPhaseMs: TrueTime;
  readonly scale: number;
  readonly maxDeliveries: number;
  readonly mayKillProcess: boolean;
  /** Handlers say more on the way. */
  readonly hasMuchFeedback: boolean;
  /** Workflows have chains and containers, and runs are steered. */
  readonly isNested?: boolean;
  /** Nobody interferes: no cancelling, no steering, no draining. */
  readonly isUndisturbed?: boolean;
}

export function generateCalls(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  return options.isNested === true
    ? generateCallsForNestedWorkflows(random, options)
    : generateCallsForFlatWorkflows(random, options);
}

function generateCallsForFlatWorkflows(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  const { tenants, workers, faultPhaseMs, scale, maxDeliveries, mayKillProcess, hasMuchFeedback } = options;
  const calls: PlannedCall[] = [];
  const count = Math.round(random.logUniform(hasMuchFeedback ? 5 : 1, 24));
  for (let n = 1; n <= count; n++) {
    const tenant = random.pick(tenants);
    const at = Math.round(random.random() * faultPhaseMs * 0.9);
    const pools = workers.some((worker) => worker.tenant === tenant && worker.pool === "gpu") ? ["gpu"] : [];
    const { workflow, nodes, workMs } = generateWorkflow(random, {
      pools,
      maxDeliveries,
      mayKillProcess,
      hasMuchFeedback,
      scale,
    });
    const name = `order-${n}`;
    const body = JSON.stringify({
      workflow,
      clientId: name,
      priority: random.integerBelow(10),
      ...(random.chance(0.1) && { timeoutMs: Math.round(random.integerBetween(4_000, 30_000) * scale) }),
    });
    const hasKey = random.chance(0.8);
    calls.push({ at, what: "start", tenant, name, hasKey, isDoubled: hasKey && random.chance(0.2), body, nodes, workMs });
    if (random.chance(0.15)) calls.push({ at: at + Math.round(random.logUniform(1, 10_000) * scale), what: "cancel", name });
  }
  for (let n = random.integerBelow(3); n > 0; n--) {
    const { worker } = random.pick(workers);
    const at = Math.round(random.random() * faultPhaseMs);
    calls.push({ at, what: "drain", worker });
    if (random.chance(0.6)) calls.push({ at: at + Math.round(random.logUniform(10, 8_000) * scale), what: "undrain", worker });
  }
  return calls.sort((a, b) => a.at - b.at);
}

/** Fewer runs, each of many tasks; operators have a hand in half of them. */
function generateCallsForNestedWorkflows(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  const { tenants, workers, faultPhaseMs, scale, isUndisturbed = false } = options;
  const calls: PlannedCall[] = [];
  const count = Math.round(random.logUniform(1, 7));
  for (let n = 1; n <= count; n++) {
    const tenant = random.pick(tenants);
    const at = Math.round(random.random() * faultPhaseMs * 0.8);
    const { workflow, nodes, workMs, ids, pins } = generateNestedWorkflow(random.fork(`workflow ${n}`), {
      ...options,
      isTimeIndependent: isUndisturbed,
    });
    const name = `order-${n}`;
    const timeoutMs = !isUndisturbed && random.chance(0.1) ? Math.round(random.integerBetween(6_000, 40_000) * scale) : null;
    const body = JSON.stringify({
      workflow,
      clientId: name,
      priority: random.integerBelow(10),
      ...(pins !== null && { pins }),
      ...(timeoutMs !== null && { timeoutMs }),
    });
    const hasKey = random.chance(0.8);
    calls.push({ at, what: "start", tenant, name, hasKey, isDoubled: hasKey && random.chance(0.2), body, nodes, workMs });
    if (isUndisturbed) continue;
    const later = (): number => at + Math.round(random.logUniform(20, 8_000) * scale);
    if (random.chance(0.12)) calls.push({ at: later(), what: "cancel", name });
    if (random.chance(0.5)) continue;
    for (let left = random.integerBetween(1, 3); left > 0; left--) {
      const what = random.pickWeighted({ skip: 2, retry: 3, rebind: 3 });
      const node = random.pick(ids);
      if (what !== "rebind") calls.push({ at: later(), what, name, node });
      else {
        const worker = random.chance(0.6) ? random.pick(workers).worker : null;
        const mode = random.pick(["switch", "drain"] as const);
        calls.push({ at: later(), what, name, node: random.chance(0.5) ? node : null, worker, mode });
      }
    }
  }
  for (let n = isUndisturbed ? 0 : random.integerBelow(2); n > 0; n--) {
    const { worker } = random.pick(workers);
    const at = Math.round(random.random() * faultPhaseMs);
    calls.push(
      { at, what: "drain", worker },
      { at: at + Math.round(random.logUniform(10, 8_000) * scale), what: "undrain", worker },
    );
  }
  return calls.sort((a, b) => a.at - b.at);
}
