// The API calls of a simulated run, generated beforehand: runs to start, cancel, skip, retry and rebind, workers to drain, kick and command. callers/
// makes them.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec, TrueTime } from "../observation/observation.ts";
import { generateNestedWorkflow } from "./nested-workflow-generator.ts";
import { generateWorkflow } from "./workflow-generator.ts";

export type PlannedCall = { readonly at: TrueTime } & (
  | {
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
  | { readonly what: "cancel"; readonly name: string }
  | { readonly what: "skip" | "retry"; readonly name: string; readonly node: string }
  | {
      readonly what: "rebind";
      readonly name: string;
      readonly node: string | null;
      /** Machine; null: anywhere but where it is. */
      readonly worker: string | null;
      readonly mode: "switch" | "drain";
    }
  | { readonly what: "drain" | "undrain"; readonly worker: string }
  | {
      readonly what: "errand";
      /** Unique per order, and its key. */
      readonly name: string;
      readonly worker: string;
      readonly command: PlannedWorkerCommand;
      /** Sent a second time at once, under the same key. */
      readonly isDoubled: boolean;
    }
);

type PlannedStart = Extract<PlannedCall, { what: "start" }>;

/** What is asked of one worker. */
type PlannedWorkerCommand =
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
  readonly isNested: boolean;
  /** Nobody interferes: no cancelling, no steering, no draining. */
  readonly isUndisturbed: boolean;
}

export function generateCalls(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  const calls = options.isNested
    ? generateCallsForNestedWorkflows(random, options)
    : generateCallsForFlatWorkflows(random, options);
  return calls.sort((a, b) => a.at - b.at);
}

function generateCallsForFlatWorkflows(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  const { tenants, workers, faultPhaseMs, scale } = options;
  const calls: PlannedCall[] = [];
  const count = Math.round(random.logUniform(options.hasMuchFeedback ? 5 : 1, 24));
  for (let n = 1; n <= count; n++) {
    const tenant = random.pick(tenants);
    const at = Math.round(random.random() * faultPhaseMs * 0.9);
    const pools = workers.some((worker) => worker.tenant === tenant && worker.pool === "gpu") ? ["gpu"] : [];
    const { workflow, nodes, workMs } = generateWorkflow(random, { ...options, pools });
    const name = `order-${n}`;
    const body = JSON.stringify({
      workflow,
      clientId: name,
      priority: random.integerBelow(10),
      ...(random.chance(0.1) && { timeoutMs: Math.round(random.integerBetween(4_000, 30_000) * scale) }),
    });
    calls.push(generateStart(random, { at, tenant, name, body, nodes, workMs }));
    if (random.chance(0.15)) calls.push({ at: at + Math.round(random.logUniform(1, 10_000) * scale), what: "cancel", name });
  }
  for (let n = random.integerBelow(3); n > 0; n--) {
    const [drain, undrain] = generateDrain(random, options);
    calls.push(drain, ...(random.chance(0.6) ? [undrain()] : []));
  }
  return calls;
}

function generateStart(random: SeededRandom, start: Omit<PlannedStart, "what" | "hasKey" | "isDoubled">): PlannedStart {
  const hasKey = random.chance(0.8);
  return { what: "start", hasKey, isDoubled: hasKey && random.chance(0.2), ...start };
}

/** A drain, and the undrain that may follow it. */
function generateDrain(
  random: SeededRandom,
  { workers, faultPhaseMs, scale }: PlannedCallOptions,
): [drain: PlannedCall, undrain: () => PlannedCall] {
  const { worker } = random.pick(workers);
  const at = Math.round(random.random() * faultPhaseMs);
  const undrainAt = (): number => at + Math.round(random.logUniform(10, 8_000) * scale);
  return [{ at, what: "drain", worker }, () => ({ at: undrainAt(), what: "undrain", worker })];
}

/** Fewer runs, each of many tasks; operators have a hand in half of them. */
function generateCallsForNestedWorkflows(random: SeededRandom, options: PlannedCallOptions): PlannedCall[] {
  const { tenants, workers, faultPhaseMs, scale, isUndisturbed } = options;
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
    calls.push(generateStart(random, { at, tenant, name, body, nodes, workMs }));
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
    const [drain, undrain] = generateDrain(random, options);
    calls.push(drain, undrain());
  }
  return calls;
}

/** Runs of a package that nobody brings are known by their names, and are cancelled when the fault phase is over. */
export const missingPackageRunPrefix = "stranded";
const missingPackage = { name: "missing", version: "1.0.0" } as const;

/** Workers that are kicked, get package commands or hand their runs over, and runs of a package that no worker has. */
export function generateWorkerCommands(
  random: SeededRandom,
  { tenants, workers, faultPhaseMs }: Pick<PlannedCallOptions, "tenants" | "workers" | "faultPhaseMs">,
): PlannedCall[] {
  const calls: PlannedCall[] = [];
  const sometime = (): TrueTime => Math.round(random.random() * faultPhaseMs * 0.9);
  // Workers of older dialects never say what became of a package; they are told of it elsewhere.
  const able = workers.filter(({ dialect }) => dialect === undefined);
  for (let n = able.length === 0 ? 0 : random.integerBelow(4); n > 0; n--) {
    const { worker, tenant } = random.pick(able);
    const of = random.pickWeighted({ kick: 2, "pkg.install": 2, "pkg.uninstall": 1, rebind: 2 });
    const others = workers.filter((one) => one.tenant === tenant && one.worker !== worker);
    const successor = others.length > 0 && random.chance(0.7) ? random.pick(others).worker : null;
    const command: PlannedWorkerCommand =
      of === "kick" ? { of } : of === "rebind" ? { of, successor } : { of, name: `extra-${random.integerBelow(2)}` };
    calls.push({ at: sometime(), what: "errand", name: `errand-${n}`, worker, command, isDoubled: random.chance(0.3) });
  }
  if (random.chance(0.35)) calls.push(startRunOfMissingPackage(random.pick(tenants), sometime(), random.chance(0.5)));
  return calls;
}

function startRunOfMissingPackage(tenant: string, at: TrueTime, allowUnknown: boolean): PlannedCall {
  const name = `${missingPackageRunPrefix}-1`;
  const id = "00000000-0000-4000-8000-000000000000";
  const node = { id, type: "missing.step", package: missingPackage, label: "nobody's", position: { x: 0, y: 0 } };
  const workflowId = "00000000-0000-4000-8000-000000000998";
  const workflow = { id: workflowId, schemaVersion: "2025-10", metadata: { name }, nodes: [node], edges: [] };
  const body = JSON.stringify({ workflow, clientId: name, ...(allowUnknown && { allowUnknown }) });
  return { at, what: "start", tenant, name, hasKey: true, isDoubled: false, body, nodes: 1, workMs: 0 };
}
