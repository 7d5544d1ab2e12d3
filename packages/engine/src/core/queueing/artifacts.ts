// Artifacts that workers keep after a result: one document each, by its resource id, with its worker and its expiry.

import type { ReportedArtifact } from "../../interface/command.ts";
import {
  type DocRow,
  docId,
  docKey,
  type LeasedTask,
  type Millis,
  type RunId,
  type RunRow,
  type TaskId,
  type WorkerId,
} from "../../storage/rows.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Body of an artifact's document. */
export interface ArtifactBody {
  readonly run: RunId;
  readonly task: TaskId;
  readonly node: string;
  readonly worker: WorkerId;
  readonly workerName: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** How long it lives after its last use. */
  readonly ttlMs: number;
  /** Why its worker no longer has it. The document stays for a while, so that tasks that refer to it fail with the reason. */
  readonly removed?: string;
}

export const artifactTtlMs = 3_600_000;
/** Artifacts of one result; the door checks this limit too. */
const artifactsMax = 1_000;

export const readArtifact = (doc: DocRow): ArtifactBody => JSON.parse(doc.body) as ArtifactBody;

/** The document of a resource; one whose time is over counts as gone, although it is not deleted yet. */
export function findArtifact(work: UnitOfWork, tenant: string, resource: string): DocRow | null {
  const doc = work.doc(docId(tenant, "artifact", resource));
  return doc === null || (doc.due !== null && doc.due <= work.now) ? null : doc;
}

/** Records what stays with the worker after a result. Inline artifacts are in the result itself and pin no task, so they are not stored. */
export function recordArtifacts(work: UnitOfWork, run: RunRow, task: LeasedTask, artifacts: readonly ReportedArtifact[]): void {
  const { worker } = task;
  if (artifacts.length === 0) return;
  const kept = artifacts.slice(0, artifactsMax);
  work.requireRows(kept.filter((one) => one.inline !== true).map((one) => docKey(run.tenant, "artifact", one.resource)));
  const node = work.nodeOf(run, task);
  const name = work.fleet.workers.get(worker)?.name ?? worker.slice(run.tenant.length + 1);
  for (const artifact of kept) {
    const due =
      artifact.inline === true
        ? null
        : storeArtifact(work, run, artifact, { task: task.id, node: node.id, worker, workerName: name });
    const { resource, type, sizeBytes, inline } = artifact;
    const more = { ...(sizeBytes !== undefined && { sizeBytes }), ...(inline !== undefined && { inline }) };
    const expiry = due !== null && { expiresAt: due };
    work.recordRunFact(run, "task.artifact", { task: task.id, resource, type, worker, ...more, ...expiry });
  }
}

type ArtifactSource = Pick<ArtifactBody, "task" | "node" | "worker" | "workerName">;

/** If two reports name one resource, the later one counts: the worker knows what it has. */
function storeArtifact(work: UnitOfWork, run: RunRow, artifact: ReportedArtifact, keeper: ArtifactSource): Millis {
  const due = artifact.expiresAt ?? work.now + artifactTtlMs;
  const body: ArtifactBody = {
    run: run.id,
    ...keeper,
    type: artifact.type,
    ...(artifact.sizeBytes === undefined ? {} : { sizeBytes: artifact.sizeBytes }),
    ...(artifact.metadata === undefined ? {} : { metadata: artifact.metadata }),
    ttlMs: Math.max(1, due - work.now),
  };
  const before = work.doc(docId(run.tenant, "artifact", artifact.resource));
  const terms = `${artifact.type} ${keeper.workerName}`.toLowerCase();
  const fields = { due, sort: keeper.task, terms, body: JSON.stringify(body) };
  work.put(nextRevision(work, [run.tenant, "artifact", artifact.resource], before, fields));
  return due;
}

/** Used: it lives on for its time. One that has more than half of it left is not written again. */
export function renewArtifact(work: UnitOfWork, doc: DocRow): Millis | null {
  const { ttlMs } = readArtifact(doc);
  const due = work.now + ttlMs;
  if (doc.due === null || doc.due >= due - ttlMs / 2) return doc.due;
  work.put({ ...doc, rev: doc.rev + 1, due });
  return due;
}
