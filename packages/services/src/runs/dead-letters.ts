// Dead letters: tasks that failed for good, until somebody requeues or dismisses them.

import type { AuditEntry, DeadLetterRecord, DocRow, IdempotencyKey, StoreReader } from "@astraflow/engine";
import { type DeadLetter, type Fault, fault } from "@astraflow/protocol";
import { auditRefusal } from "../documents/audit.ts";
import { documentNameOf, readDocument, registerIdempotencyKey, writeDocuments } from "../documents/documents.ts";
import { decodeDocumentCursor, encodeCursor } from "../documents/page-cursors.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { isoTime, type presentRunRef } from "../presentation/run-view.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import { readWorkerNames } from "../workers/worker-finder.ts";
import { replayRun, topLevelNodeOf } from "./run-replay.ts";
import type { RunServices } from "./run-services.ts";

const deadLetterCollection = "letter";
const pagesMax = 10;

/** The body of a dead letter, as the engine writes it, and what became of it since. */
type DeadLetterDocument = Omit<DeadLetterRecord, "status"> & { readonly status: DeadLetter["status"]; readonly newRun?: string };

async function findDeadLetter(reader: StoreReader, tenant: string, task: string) {
  const { doc } = await readDocument(reader, tenant, deadLetterCollection, task);
  if (doc === null) throw deadLetterNotFound(task);
  return { doc, body: JSON.parse(doc.body) as DeadLetterDocument };
}

export interface DeadLetterQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly q?: string | undefined;
  readonly runId?: string | undefined;
  readonly status?: string | undefined;
}

/** Newest first. Letters of another status are skipped; a page that finds nothing else is short and has a cursor. */
export async function listDeadLetters(
  { reader }: Pick<RunServices, "reader">,
  tenant: string,
  { limit, cursor, q, runId, status = "open" }: DeadLetterQuery,
) {
  const items: DeadLetter[] = [];
  const names = await readWorkerNames(reader, tenant);
  let after = decodeDocumentCursor(cursor);
  let asOf = 0;
  for (let pages = 0; pages < pagesMax; pages++) {
    const page = await reader.page({
      page: "docs",
      tenant,
      collection: deadLetterCollection,
      order: "desc",
      limit: limit - items.length,
      ...(after !== undefined && { after }),
      ...(q !== undefined && q.trim() !== "" && { search: q }),
      ...(runId !== undefined && { prefix: `${runId}.` }),
    });
    asOf = page.head;
    items.push(...page.items.map((doc) => presentDeadLetter(doc, names)).filter((one) => one.status === status));
    after = page.next ?? undefined;
    if (after === undefined || items.length >= limit) break;
  }
  return { items, nextCursor: encodeCursor(after ?? null), asOf };
}

/** Starts the run of a dead letter again, from the failed node on. */
export async function requeueDeadLetter(
  { engineClient, reader, starter, digest }: RunServices,
  caller: Caller,
  task: string,
  reason: string | undefined,
  idempotencyKey: IdempotencyKey | null,
) {
  const { tenant } = caller.identity;
  const { doc, body } = await findDeadLetter(reader, tenant, task);
  let isRepeated = false;
  const run = await auditRefusal(engineClient, caller, deadLetterAudit("requeue", doc, reason), async () => {
    if (body.status === "dismissed")
      throw fault("E.CONFLICT", `the dead letter of task ${task} is dismissed; replay its run from node ${body.node} instead`);
    isRepeated = await registerIdempotencyKey(engineClient, caller, idempotencyKey);
    const before = body.newRun === undefined ? null : await readRunRef(reader, tenant, body.newRun);
    if (before !== null) return before;
    const detail = await starter.readRunDetail(tenant, body.run);
    const from = topLevelNodeOf(detail, taskIdOf(doc)) ?? body.node;
    // Its own key, so that a repeated request, or one after a crash, gets the same run. No caller's key contains a blank.
    return replayRun(starter, caller, detail, { request: { from }, key: `letter ${digest(taskIdOf(doc))}` });
  });
  if (body.status === "open")
    await writeDeadLetter(engineClient, caller, doc, { ...body, status: "requeued", newRun: run.run }, reason);
  return { run, isRepeated };
}

export async function dismissDeadLetter(
  { engineClient, reader }: RunServices,
  caller: Caller,
  task: string,
  reason: string | undefined,
  idempotencyKey: IdempotencyKey | null,
): Promise<{ readonly deadLetter: DeadLetter; readonly isRepeated: boolean }> {
  const { tenant } = caller.identity;
  const { doc, body } = await findDeadLetter(reader, tenant, task);
  const isRepeated = await auditRefusal(engineClient, caller, deadLetterAudit("dismiss", doc, reason), () => {
    if (body.status === "requeued")
      throw fault("E.CONFLICT", `the dead letter of task ${task} was already requeued as run ${body.newRun ?? ""}`);
    return registerIdempotencyKey(engineClient, caller, idempotencyKey);
  });
  const after = { ...body, status: "dismissed" } as const;
  if (body.status === "open") await writeDeadLetter(engineClient, caller, doc, after, reason);
  const names = await readWorkerNames(reader, tenant);
  return { deadLetter: presentDeadLetter({ ...doc, body: JSON.stringify(after) }, names), isRepeated };
}

/** Dismisses the open dead letters of a run; returns how many there were. */
export async function dismissDeadLetters(
  { engineClient, reader }: Pick<RunServices, "engineClient" | "reader">,
  caller: Caller,
  run: string,
  reason?: string,
): Promise<number> {
  const { tenant } = caller.identity;
  const { items } = await reader.page({ page: "docs", tenant, collection: deadLetterCollection, prefix: `${run}.`, limit: 200 });
  let dismissed = 0;
  for (const doc of items) {
    const body = JSON.parse(doc.body) as DeadLetterDocument;
    if (body.status !== "open") continue;
    await writeDeadLetter(engineClient, caller, doc, { ...body, status: "dismissed" }, reason);
    dismissed += 1;
  }
  return dismissed;
}

const taskIdOf = documentNameOf;

/** The run that a dead letter was requeued as, as its start was answered; null if it was deleted. */
async function readRunRef(reader: StoreReader, tenant: string, id: string): Promise<Parameters<typeof presentRunRef>[0] | null> {
  const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
  return detail === null ? null : { ...detail.run, run: detail.run.id };
}

const deadLetterNotFound = (task: string): Fault => fault("E.NOT_FOUND", `there is no dead letter of task ${task.slice(0, 200)}`);

async function writeDeadLetter(
  engineClient: EngineClient,
  caller: Caller,
  doc: DocRow,
  body: DeadLetterDocument,
  reason?: string,
): Promise<void> {
  const name = taskIdOf(doc);
  await writeDocuments(engineClient, actorOf(caller), {
    puts: [
      { collection: deadLetterCollection, name, rev: doc.rev, body: JSON.stringify(body), sort: doc.sort, terms: doc.terms },
    ],
    audit: deadLetterAudit(body.status === "requeued" ? "requeue" : "dismiss", doc, reason),
  });
}

/** The audit entry of a change; it is stored in the log of the dead letter's run. */
const deadLetterAudit = (verb: "requeue" | "dismiss", doc: DocRow, reason: string | undefined): AuditEntry => ({
  action: `letter.${verb}`,
  targetType: "task",
  target: taskIdOf(doc),
  ...(reason !== undefined && { data: { reason } }),
});

function presentDeadLetter(doc: DocRow, names: ReadonlyMap<string, string>): DeadLetter {
  const body = JSON.parse(doc.body) as DeadLetterDocument;
  return {
    taskId: taskIdOf(doc),
    runId: body.run,
    nodeId: body.node,
    label: body.label,
    code: body.code,
    message: body.message,
    attempts: body.attempts,
    failures: body.failures,
    at: isoTime(body.at),
    ...(body.worker !== null && { workerName: names.get(body.worker) ?? instanceIdOf(body.worker) }),
    status: body.status,
    ...(body.newRun !== undefined && { newRun: body.newRun }),
  };
}
