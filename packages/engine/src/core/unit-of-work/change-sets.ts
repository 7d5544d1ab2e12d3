// From a decided board to units: what one root changes in this turn, and all roots that one command changed together. The grain of failure.

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
import { type RootRef, rootKey } from "./root.ts";

/** A row this turn writes, in its last image. */
interface WrittenRow {
  readonly row: Row | null;
  readonly root: RootRef;
  readonly isInserted: boolean;
}

/** A fact with whom it is about; it goes to the log as it is. */
export interface RecordedFact extends Fact {
  readonly tenant: Tenant;
  readonly subject: RootRef;
}

/** Mail, and what must be written for it to be true. */
export interface OutgoingMail {
  readonly root: RootRef;
  readonly mail: Mail;
}

/** Who a unit grants to. */
export interface RootPrecondition extends WorkerPrecondition {
  readonly root: RootRef;
}

/** A row that is no more. */
export interface DeletedRow {
  readonly root: RootRef;
  readonly key: RowKey;
}

/** What a task printed. */
export interface PrintedChunks {
  readonly root: RootRef;
  readonly chunks: ChunkRow;
}

/** What a turn says besides the rows it writes. */
interface TurnRecords {
  readonly facts: readonly RecordedFact[];
  readonly mail: readonly OutgoingMail[];
  readonly preconditions: readonly RootPrecondition[];
  readonly deletedRows: readonly DeletedRow[];
  readonly chunks: readonly PrintedChunks[];
}

/** `groupOf` names one root for all that must commit or fail together. Written rows come in the order they were first written. */
export function buildChangeSets(
  written: readonly WrittenRow[],
  turnRecords: TurnRecords,
  groupOf: (root: RootRef) => RootRef,
  tenantOf: (run: RunId) => Tenant,
): { units: ChangeSet[]; roots: RowKey[] } {
  const byRoot = new Map<RootRef, MutableChangeSet>();
  let lastRoot: RootRef | null = null;
  let lastChangeSet: MutableChangeSet | null = null;
  const changeSetFor = (root: RootRef): MutableChangeSet => {
    if (root === lastRoot && lastChangeSet !== null) return lastChangeSet;
    const group = groupOf(root);
    let changeSet = byRoot.get(group);
    if (changeSet === undefined)
      byRoot.set(
        group,
        (changeSet = {
          roots: [],
          puts: [],
          inserted: new Set(),
          deletes: [],
          enqueued: [],
          logEntries: [],
          mail: [],
          workerPreconditions: [],
          chunks: [],
        }),
      );
    if (!changeSet.roots.includes(root)) changeSet.roots.push(root);
    lastRoot = root;
    lastChangeSet = changeSet;
    return changeSet;
  };
  const deletedKeys = new Set(turnRecords.deletedRows.map(({ key }) => key));
  for (const { row, root, isInserted: isBorn } of written) {
    if (row === null || (deletedKeys.size > 0 && deletedKeys.has(keyOf(row)))) continue;
    const into = changeSetFor(root);
    into.puts.push(row);
    if (isBorn) into.inserted.add(keyOf(row));
    if (row.kind === "task" && row.line !== null && row.rank === null)
      into.enqueued.push({ task: row.id, tenant: tenantOf(row.run), cost: 1 });
  }
  const entries = new Map<RootRef, { tenant: Tenant; subject: RowKey; facts: Fact[] }>();
  for (const fact of turnRecords.facts) {
    let entry = entries.get(fact.subject);
    if (entry === undefined) {
      entry = { tenant: fact.tenant, subject: rootKey(fact.subject), facts: [] };
      entries.set(fact.subject, entry);
      changeSetFor(fact.subject).logEntries.push(entry);
    }
    entry.facts.push(fact);
  }
  for (const { root, mail } of turnRecords.mail) changeSetFor(root).mail.push(mail);
  for (const { root, key } of turnRecords.deletedRows) changeSetFor(root).deletes.push(key);
  for (const { root, chunks } of turnRecords.chunks) changeSetFor(root).chunks.push(chunks);
  for (const { root, worker, epoch } of turnRecords.preconditions) {
    const { workerPreconditions: relies } = changeSetFor(root);
    if (!relies.some((one) => one.worker === worker)) relies.push({ worker, epoch });
  }
  return {
    units: [...byRoot.values()].map((changeSet) => ({ ...changeSet, roots: changeSet.roots.map(rootKey) })),
    roots: [...byRoot.keys()].map(rootKey),
  };
}

interface MutableChangeSet {
  roots: RootRef[];
  puts: Row[];
  inserted: Set<RowKey>;
  deletes: RowKey[];
  enqueued: { task: TaskId; tenant: Tenant; cost: number }[];
  logEntries: { tenant: Tenant; subject: RowKey; facts: Fact[] }[];
  mail: Mail[];
  workerPreconditions: WorkerPrecondition[];
  chunks: ChunkRow[];
}
