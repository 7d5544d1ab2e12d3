// More operator calls, generated from a random stream of their own so that older seeds keep the rest of their plans: workers that are kicked, get package
// commands or hand their runs over to another worker, and runs of a package that no worker has.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec, TrueTime } from "../observation/observation.ts";
import type { PlannedCall, PlannedWorkerCommand } from "./planned-calls.ts";

export interface PlannedWorkerCommandOptions {
  readonly tenants: readonly string[];
  readonly workers: readonly SimulatedWorkerSpec[];
  readonly faultPhaseMs: TrueTime;
}

/** Runs of a package that nobody brings are known by their names, and are cancelled when the fault phase is over. */
export const missingPackageRunPrefix = "stranded";
const missingPackage = { name: "missing", version: "1.0.0" } as const;

export function generateWorkerCommands(
  random: SeededRandom,
  { tenants, workers, faultPhaseMs }: PlannedWorkerCommandOptions,
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
  const workflow = {
    id: "00000000-0000-4000-8000-000000000998",
    schemaVersion: "2025-10",
    metadata: { name },
    nodes: [node],
    edges: [],
  };
  const body = JSON.stringify({ workflow, clientId: name, ...(allowUnknown && { allowUnknown }) });
  return { at, what: "start", tenant, name, hasKey: true, isDoubled: false, body, nodes: 1, workMs: 0 };
}
