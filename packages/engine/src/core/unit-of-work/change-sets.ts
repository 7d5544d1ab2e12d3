// From rows and records of a turn to change sets: all roots that one command changed together, which commit or fail as a whole.

import { errorMessage } from "@astraflow/protocol";
import type { ChangeSet, WorkerPrecondition } from "../../storage/port.ts";
import {
  type ChunkRow,
  type Fact,
  keyOf,
  type Mail,
  type Row,
  type RowKey,
  type RunId,
  type TaskId,
  type Tenant,
} from "../../storage/rows.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { checkRoot, tenantNamedBy } from "./invariants.ts";
import { type RootRef, rootKey } from "./root.ts";

/** A row this turn writes, in its last image. */
interface WrittenRow {
  readonly row: Row | null;
  readonly root: RootRef;
  readonly isInserted: boolean;
}

export interface RecordedFact extends Fact {
  readonly tenant: Tenant;
  readonly subject: RootRef;
}

/** Something, and the root whose change makes it true. */
type UnderRoot<T> = T & { readonly root: RootRef };
export type DeletedRow = UnderRoot<{ readonly key: RowKey }>;

/** What a turn produces besides the rows it writes. */
export class TurnRecords {
  readonly facts: RecordedFact[] = [];
  readonly mail: UnderRoot<{ readonly mail: Mail }>[] = [];
  /** Workers that the change set of a root grants to. */
  readonly preconditions: UnderRoot<WorkerPrecondition>[] = [];
  readonly chunks: UnderRoot<{ readonly chunks: ChunkRow }>[] = [];
}

/** A change set that breaks a rule: nothing of its turn may be stored as it is. */
export class BrokenChangeSet extends Error {
  readonly root: RowKey;
  constructor(root: RowKey, cause: unknown) {
    super(errorMessage(cause), { cause });
    this.root = root;
  }
}

/** `groupOf` names one root for all that must commit or fail together. Written rows come in the order they were first written. */
export function buildChangeSets(
  written: readonly WrittenRow[],
  deletedRows: readonly DeletedRow[],
  records: TurnRecords,
  groupOf: (root: RootRef) => RootRef,
  tenantOf: (run: RunId) => Tenant,
): { units: ChangeSet[]; roots: RowKey[] } {
  const builder = new ChangeSetBuilder(groupOf, tenantOf);
  const deletedKeys = new Set(deletedRows.map(({ key }) => key));
  try {
    for (const one of written)
      if (one.row !== null && (deletedKeys.size === 0 || !deletedKeys.has(keyOf(one.row))))
        builder.put(one.row, one.root, one.isInserted);
    for (const fact of records.facts) builder.addFact(fact);
  } catch (problem) {
    throw new BrokenChangeSet(rootKey(groupOf(builder.lastRoot)), problem);
  }
  for (const { root, mail } of records.mail) builder.changeSetFor(root).mail.push(mail);
  for (const { root, key } of deletedRows) builder.changeSetFor(root).deletes.push(key);
  for (const { root, chunks } of records.chunks) builder.changeSetFor(root).chunks.push(chunks);
  for (const precondition of records.preconditions) builder.addPrecondition(precondition);
  return builder.build();
}

interface MutableChangeSet {
  tenant: Tenant | null;
  readonly roots: RootRef[];
  readonly puts: Row[];
  readonly inserted: Set<RowKey>;
  readonly deletes: RowKey[];
  readonly enqueued: { task: TaskId; tenant: Tenant; cost: number }[];
  readonly logEntries: { tenant: Tenant; subject: RowKey; facts: Fact[] }[];
  readonly mail: Mail[];
  readonly workerPreconditions: WorkerPrecondition[];
  readonly chunks: ChunkRow[];
}

class ChangeSetBuilder {
  readonly #groupOf: (root: RootRef) => RootRef;
  readonly #tenantOf: (run: RunId) => Tenant;
  readonly #byGroup = new Map<RootRef, MutableChangeSet>();
  readonly #logEntries = new Map<RootRef, MutableChangeSet["logEntries"][number]>();
  /** The root of the last call: most often the next one is the same. */
  lastRoot: RootRef = "";
  #lastChangeSet: MutableChangeSet | null = null;

  constructor(groupOf: (root: RootRef) => RootRef, tenantOf: (run: RunId) => Tenant) {
    this.#groupOf = groupOf;
    this.#tenantOf = tenantOf;
  }

  changeSetFor(root: RootRef): MutableChangeSet {
    if (root === this.lastRoot && this.#lastChangeSet !== null) return this.#lastChangeSet;
    const group = this.#groupOf(root);
    let changeSet = this.#byGroup.get(group);
    if (changeSet === undefined) this.#byGroup.set(group, (changeSet = newChangeSet()));
    if (!changeSet.roots.includes(root)) changeSet.roots.push(root);
    this.lastRoot = root;
    this.#lastChangeSet = changeSet;
    return changeSet;
  }

  put(row: Row, root: RootRef, isInserted: boolean): void {
    const changeSet = this.changeSetFor(root);
    checkRoot(row, root);
    changeSet.puts.push(row);
    if (isInserted) changeSet.inserted.add(keyOf(row));
    const isEnqueued = row.kind === "task" && row.line !== null && row.rank === null;
    const tenant = isEnqueued ? this.#tenantOf(row.run) : tenantNamedBy(row);
    if (tenant === null) return;
    setTenant(changeSet, tenant, root);
    if (isEnqueued) changeSet.enqueued.push({ task: row.id, tenant, cost: 1 });
  }

  addFact(fact: RecordedFact): void {
    let entry = this.#logEntries.get(fact.subject);
    if (entry === undefined) {
      entry = { tenant: fact.tenant, subject: rootKey(fact.subject), facts: [] };
      this.#logEntries.set(fact.subject, entry);
      const changeSet = this.changeSetFor(fact.subject);
      setTenant(changeSet, fact.tenant, fact.subject);
      changeSet.logEntries.push(entry);
    }
    entry.facts.push(fact);
  }

  addPrecondition({ root, worker, epoch }: UnderRoot<WorkerPrecondition>): void {
    const { workerPreconditions } = this.changeSetFor(root);
    if (!workerPreconditions.some((one) => one.worker === worker)) workerPreconditions.push({ worker, epoch });
  }

  build(): { units: ChangeSet[]; roots: RowKey[] } {
    return {
      units: [...this.#byGroup.values()].map(({ tenant: _, ...changeSet }) => ({
        ...changeSet,
        roots: changeSet.roots.map(rootKey),
      })),
      roots: [...this.#byGroup.keys()].map(rootKey),
    };
  }
}

function setTenant(changeSet: MutableChangeSet, tenant: Tenant, root: RootRef): void {
  if (changeSet.tenant === null) changeSet.tenant = tenant;
  else if (changeSet.tenant !== tenant)
    throw new InvariantBroken("one tenant", `${root} of tenant ${tenant} is in a change set of tenant ${changeSet.tenant}`);
}

const newChangeSet = (): MutableChangeSet => ({
  tenant: null,
  roots: [],
  puts: [],
  inserted: new Set(),
  deletes: [],
  enqueued: [],
  logEntries: [],
  mail: [],
  workerPreconditions: [],
  chunks: [],
});
