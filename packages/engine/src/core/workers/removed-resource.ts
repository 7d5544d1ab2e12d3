// A worker reports that it no longer has a resource: its document is marked, and tasks that wait for it fail at once.

import type { Fault } from "@astraflow/protocol";
import type { ReportResourceRemovedCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { docId, keyOf, type TaskId, type WorkerRow } from "../../storage/rows.ts";
import { findReportingWorker, unknownSession } from "../delivery/find-worker.ts";
import { queueName } from "../fleet/route.ts";
import { recheckResource } from "../placement/pins.ts";
import { type ArtifactBody, artifactTtlMs, readArtifact } from "../queueing/artifacts.ts";
import { readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Tasks checked for one resource; those further back in the queue are checked later, like every pinned task. */
const waitingMax = 100;

export function handleResourceRemoved(work: UnitOfWork, report: ReportResourceRemovedCommand): AnswerBody | Fault {
  const row = findReportingWorker(work, report);
  if (row === null) return unknownSession(report.worker);
  const { resource, reason } = report;
  const doc = work.doc(docId(report.tenant, "artifact", resource));
  const body = doc === null ? null : readArtifact(doc);
  const isMeant = report.seenAt === undefined || doc?.at === report.seenAt;
  if (doc === null || body === null || body.worker !== report.worker || body.removed !== undefined || !isMeant)
    return { of: "word", applied: false };
  work.put({ ...doc, rev: doc.rev + 1, due: work.now + artifactTtlMs, body: JSON.stringify({ ...body, removed: reason }) });
  const run = work.run(body.run);
  const data = { task: body.task, resource, reason, worker: report.worker };
  if (run !== null && run.tenant === report.tenant) {
    markArtifactRemoved(work, body, resource, reason);
    work.recordRunFact(run, "artifact.removed", data);
  } else work.recordFact(report.tenant, keyOf(doc), "artifact.removed", data);
  for (const id of tasksPinnedTo(work, row, waitingMax)) recheckResource(work, id, resource);
  return { of: "word", applied: true };
}

/** Marks the artifact of the task, for readers of the run. */
function markArtifactRemoved(work: UnitOfWork, { task: id }: ArtifactBody, resource: string, removed: string): void {
  const task = work.task(id);
  const artifacts = task === null ? undefined : readTaskState(task).artifacts;
  if (task === null || artifacts === undefined) return;
  work.put(withTaskState(task, { artifacts: artifacts.map((one) => (one.resource === resource ? { ...one, removed } : one)) }));
}

/** Tasks that are queued for this worker alone. */
export function tasksPinnedTo(work: UnitOfWork, worker: WorkerRow, limit: number): TaskId[] {
  const queues: string[] = [];
  for (const [route, requirements] of work.fleet.routes)
    if (requirements.tenant === worker.tenant) queues.push(queueName(route, worker.id));
  return work.tasksQueuedIn(queues, limit);
}
