// Which worker tasks go back to. Affinity keys: a document each, acquired with the first grant under the key, renewed by use, void once
// its worker is lost. Packages: bound to the worker that last ran them for the run; the only user of `RunRow.bindings`.

import type { PlanNode } from "@astraflow/graph";
import { type DocRow, docId, type LeasedTask, type Millis, type RunRow, type Tenant, type WorkerId } from "../../storage/rows.ts";
import { parsedColumn } from "../rows/parsed-column.ts";
import { isGone } from "../rows/worker.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type Affinity = NonNullable<PlanNode["policy"]["affinity"]>;

interface AffinityBody {
  readonly worker: WorkerId;
  readonly acquiredAt: Millis;
}

const affinityTtlMs = 3_600_000;
/** How long a task waits for the worker it would rather have. */
export const preferenceMs = 2_000;

const affinityTtlOf = ({ ttlSeconds }: Affinity): number => (ttlSeconds === undefined ? affinityTtlMs : ttlSeconds * 1_000);
const readOwner = (doc: DocRow): WorkerId => (JSON.parse(doc.body) as AffinityBody).worker;

/** The owner of a key; null when it has none, its time is over, or its worker is lost (`lostWorker`: in this very turn). */
export function affinityOwner(work: UnitOfWork, tenant: Tenant, key: string, lostWorker?: WorkerId): WorkerId | null {
  const doc = work.doc(docId(tenant, "affinity", key));
  if (doc === null || (doc.due !== null && doc.due <= work.now)) return null;
  const owner = readOwner(doc);
  if (owner === lostWorker) return null;
  const row = work.peekWorker(owner);
  return row === null || isGone(row) || row.phase === "enrolled" ? null : owner;
}

/** The key is this worker's until the instant that is answered. A document that has more than half of its time left is not written again. */
export function acquireAffinity(work: UnitOfWork, run: RunRow, affinity: Affinity, worker: WorkerId): Millis {
  const doc = work.doc(docId(run.tenant, "affinity", affinity.key));
  const isOwner = doc !== null && readOwner(doc) === worker;
  const due = work.now + affinityTtlOf(affinity);
  if (isOwner && doc.due !== null && doc.due >= due - affinityTtlOf(affinity) / 2) return doc.due;
  const acquiredAt = isOwner ? (JSON.parse(doc.body) as AffinityBody).acquiredAt : work.now;
  const body: AffinityBody = { worker, acquiredAt };
  const fields = { due, sort: affinity.key, terms: affinity.key.toLowerCase(), body: JSON.stringify(body) };
  work.put(nextRevision(work, [run.tenant, "affinity", affinity.key], doc, fields));
  return due;
}

/** Until when the key is this worker's; null where it is another's. */
export function acquireIfFree(work: UnitOfWork, run: RunRow, affinity: Affinity, worker: WorkerId): Millis | null {
  const owner = affinityOwner(work, run.tenant, affinity.key) ?? worker;
  return owner === worker ? acquireAffinity(work, run, affinity, worker) : null;
}

/** Which worker last ran a package for a run: a preference, because what it has loaded is warm. */
export interface PackageBinding {
  readonly worker: WorkerId;
  readonly at: Millis;
}

const bindingsColumn = parsedColumn<RunRow, Readonly<Record<string, PackageBinding>>>((run) => run.bindings, {});

export const readBindings = bindingsColumn.read;

export function boundWorker(run: RunRow, packageName: string): WorkerId | null {
  const bindings = readBindings(run);
  return Object.hasOwn(bindings, packageName) ? (bindings[packageName]?.worker ?? null) : null;
}

/** A task ended well at its worker: the package is bound there, and the task's affinity key lives on. */
export function recordSuccess(work: UnitOfWork, run: RunRow, task: LeasedTask): void {
  const node = work.nodeOf(run, task);
  recordBinding(work, work.run(run.id) ?? run, node, task);
  const { affinity } = node.policy;
  if (affinity !== undefined) acquireIfFree(work, run, affinity, task.worker);
}

/** Written at the first success of a package and when it changes place, so a run is not written for each. */
function recordBinding(work: UnitOfWork, run: RunRow, node: PlanNode, task: LeasedTask): void {
  if (boundWorker(run, node.packageName) === task.worker) return;
  const bindings = { ...readBindings(run), [node.packageName]: { worker: task.worker, at: work.now } };
  const bound = { ...run, bindings: JSON.stringify(bindings) };
  bindingsColumn.remember(bound, bindings);
  work.put(bound);
}
