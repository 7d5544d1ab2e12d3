// From a decided board to units: what one root changes in this turn, and all roots that one command changed together. The grain of failure.

import type { Reliance, Unit } from "../../port.ts";
import {
  type ChunkRow,
  type Fact,
  type Key,
  keyOf,
  type Mail,
  type Row,
  type RunId,
  type TaskId,
  type Tenant,
} from "../../rows.ts";
import { type Root, spellRoot } from "./root.ts";

/** A row this turn writes, in its last image. */
interface Written {
  readonly row: Row | null;
  readonly root: Root;
  readonly isBorn: boolean;
}

/** A fact with whom it is about; it goes to the log as it is. */
export interface Told extends Fact {
  readonly tenant: Tenant;
  readonly subject: Root;
}

/** Mail, and what must be written for it to be true. */
export interface Posted {
  readonly root: Root;
  readonly mail: Mail;
}

/** Who a unit grants to. */
export interface Relied extends Reliance {
  readonly root: Root;
}

/** A row that is no more. */
export interface Dropped {
  readonly root: Root;
  readonly key: Key;
}

/** What a task printed. */
export interface Printed {
  readonly root: Root;
  readonly chunks: ChunkRow;
}

/** What a turn says besides the rows it writes. */
interface Said {
  readonly facts: readonly Told[];
  readonly mail: readonly Posted[];
  readonly relied: readonly Relied[];
  readonly dropped: readonly Dropped[];
  readonly chunks: readonly Printed[];
}

/** `groupOf` names one root for all that must commit or fail together. Written rows come in the order they were first written. */
export function unitsOf(
  written: readonly Written[],
  said: Said,
  groupOf: (root: Root) => Root,
  tenantOf: (run: RunId) => Tenant,
): { units: Unit[]; roots: Key[] } {
  const byRoot = new Map<Root, MutableUnit>();
  let last: Root | null = null;
  let lastUnit: MutableUnit | null = null;
  const unit = (root: Root): MutableUnit => {
    if (root === last && lastUnit !== null) return lastUnit;
    const group = groupOf(root);
    let one = byRoot.get(group);
    if (one === undefined)
      byRoot.set(
        group,
        (one = {
          roots: [],
          puts: [],
          born: new Set(),
          drops: [],
          ready: [],
          happenings: [],
          mail: [],
          relies: [],
          chunks: [],
        }),
      );
    if (!one.roots.includes(root)) one.roots.push(root);
    last = root;
    lastUnit = one;
    return one;
  };
  const gone = new Set(said.dropped.map(({ key }) => key));
  for (const { row, root, isBorn } of written) {
    if (row === null || (gone.size > 0 && gone.has(keyOf(row)))) continue;
    const into = unit(root);
    into.puts.push(row);
    if (isBorn) into.born.add(keyOf(row));
    if (row.kind === "task" && row.line !== null && row.rank === null)
      into.ready.push({ task: row.id, tenant: tenantOf(row.run), cost: 1 });
  }
  const told = new Map<Root, { tenant: Tenant; subject: Key; facts: Fact[] }>();
  for (const fact of said.facts) {
    let happening = told.get(fact.subject);
    if (happening === undefined) {
      happening = { tenant: fact.tenant, subject: spellRoot(fact.subject), facts: [] };
      told.set(fact.subject, happening);
      unit(fact.subject).happenings.push(happening);
    }
    happening.facts.push(fact);
  }
  for (const { root, mail } of said.mail) unit(root).mail.push(mail);
  for (const { root, key } of said.dropped) unit(root).drops.push(key);
  for (const { root, chunks } of said.chunks) unit(root).chunks.push(chunks);
  for (const { root, worker, epoch } of said.relied) {
    const { relies } = unit(root);
    if (!relies.some((one) => one.worker === worker)) relies.push({ worker, epoch });
  }
  return {
    units: [...byRoot.values()].map((one) => ({ ...one, roots: one.roots.map(spellRoot) })),
    roots: [...byRoot.keys()].map(spellRoot),
  };
}

interface MutableUnit {
  roots: Root[];
  puts: Row[];
  born: Set<Key>;
  drops: Key[];
  ready: { task: TaskId; tenant: Tenant; cost: number }[];
  happenings: { tenant: Tenant; subject: Key; facts: Fact[] }[];
  mail: Mail[];
  relies: Reliance[];
  chunks: ChunkRow[];
}
