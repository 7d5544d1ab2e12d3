// What operators want besides, drawn on dice of its own so that older seeds keep the rest of their worlds: workers that are kicked, told of
// packages or asked to leave what follows to another, and runs of a package that nobody brings.

import type { Dice } from "./dice.ts";
import type { TrueTime, WorkerShape } from "./observation.ts";
import type { Order } from "./orders.ts";

/** What is asked of one worker. */
export type Errand =
  | { readonly of: "kick" }
  | { readonly of: "pkg.install" | "pkg.uninstall"; readonly name: string }
  /** Leaves what follows of its runs to another machine; null: to one that nobody knows, which is refused. */
  | { readonly of: "rebind"; readonly heir: string | null };

export interface ErrandOptions {
  readonly tenants: readonly string[];
  readonly workers: readonly WorkerShape[];
  readonly stormMs: TrueTime;
}

/** Runs of a package that nobody brings are known by their names, and are cancelled when the storm is over. */
export const strandedName = "stranded";
const missingPackage = { name: "missing", version: "1.0.0" } as const;

export function drawErrands(dice: Dice, { tenants, workers, stormMs }: ErrandOptions): Order[] {
  const orders: Order[] = [];
  const sometime = (): TrueTime => Math.round(dice.roll() * stormMs * 0.9);
  // Workers of older dialects never say what became of a package; they are told of it elsewhere.
  const able = workers.filter(({ dialect }) => dialect === undefined);
  for (let n = able.length === 0 ? 0 : dice.below(4); n > 0; n--) {
    const { worker, tenant } = dice.pick(able);
    const of = dice.weigh({ kick: 2, "pkg.install": 2, "pkg.uninstall": 1, rebind: 2 });
    const others = workers.filter((one) => one.tenant === tenant && one.worker !== worker);
    const heir = others.length > 0 && dice.chance(0.7) ? dice.pick(others).worker : null;
    const errand: Errand = of === "kick" ? { of } : of === "rebind" ? { of, heir } : { of, name: `extra-${dice.below(2)}` };
    orders.push({ at: sometime(), what: "errand", name: `errand-${n}`, worker, errand, isDoubled: dice.chance(0.3) });
  }
  if (dice.chance(0.35)) orders.push(stranded(dice.pick(tenants), sometime(), dice.chance(0.5)));
  return orders;
}

function stranded(tenant: string, at: TrueTime, allowUnknown: boolean): Order {
  const name = `${strandedName}-1`;
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
