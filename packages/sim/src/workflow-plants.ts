// Known bugs of the workflow engine that can be switched on: each sits between the engine and its store or its doors and makes it look as if the
// engine had that bug. A judge that does not find them is too weak.

import type { Effect, Row, Store, Tx, Unit } from "@astraflow/engine";

export const workflowPlants = {
  /** A frame is born with one node too few in its count, and ends while one inside is still open. */
  "frame-forgets-a-node": "workflow",
  /** Whoever asks for the next of its chain is answered twice. */
  "next-answered-twice": "workflow",
} as const;
export type WorkflowPlant = keyof typeof workflowPlants;

export function plantedStore(store: Store, plant: WorkflowPlant | null): Store {
  if (plant !== "frame-forgets-a-node") return store;
  return {
    open: (me) => store.open(me),
    begin: async (want) => forgetful(await store.begin(want)),
    settle: (turn) => store.settle(turn),
    events: (query) => store.events(query),
    page: (query) => store.page(query),
    onHint: (hear) => store.onHint(hear),
    close: () => store.close(),
  };
}

function forgetful(tx: Tx): Tx {
  return {
    now: tx.now,
    nextDue: tx.nextDue,
    claimed: tx.claimed,
    due: tx.due,
    mail: tx.mail,
    row: (kind, id) => tx.row(kind, id),
    tasks: (list) => tx.tasks(list),
    address: (worker) => tx.address(worker),
    more: (rows, lists, addresses) => tx.more(rows, lists, addresses),
    commit: (turn, units) => tx.commit(turn, units.map(miscounted)),
    abort: () => tx.abort(),
  };
}

function miscounted(unit: Unit): Unit {
  const isBorn = (row: Row): boolean => unit.born?.has(`task/${row.id}`) === true;
  const isFrame = (row: Row): boolean => row.kind === "task" && /\*\d+$/.test(row.id) && row.needs > 1;
  if (!unit.puts.some((row) => isFrame(row) && isBorn(row))) return unit;
  const puts = unit.puts.map((row) =>
    row.kind === "task" && isFrame(row) && isBorn(row) ? { ...row, needs: row.needs - 1 } : row,
  );
  return { ...unit, puts };
}

export function plantedEffects(effects: readonly Effect[], plant: WorkflowPlant | null): readonly Effect[] {
  if (plant !== "next-answered-twice") return effects;
  return effects.flatMap((effect): readonly Effect[] => (effect.type === "next" ? [effect, effect] : [effect]));
}
