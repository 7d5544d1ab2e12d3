// Dead letters: tasks that failed for good, until somebody requeues or dismisses them.

import type { AuditEntry, DeadLetterRecord, DocRow, IdempotencyKey } from "@astraflow/engine";
import { type DeadLetter, fault, omitUndefined } from "@astraflow/protocol";
import {
  auditRefusal,
  readDocument,
  registerIdempotencyKey,
  documentNameOf as taskIdOf,
  writeDocuments,
} from "../documents/documents.ts";
import { decodeDocumentCursor, encodeCursor, type OptionalTexts } from "../documents/page-cursors.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import { readWorkerNames } from "../workers/worker-reader.ts";
import { type RunControl, topLevelNodeOf } from "./run-control.ts";
import type { RunStarter } from "./run-starter.ts";

const collection = "letter";
const pagesMax = 10;

/** The body of a dead letter, as the engine writes it, and what became of it since. */
type DeadLetterDocument = Omit<DeadLetterRecord, "status"> & { readonly status: DeadLetter["status"]; readonly newRun?: string };

export type DeadLetterQuery = OptionalTexts<"cursor" | "q" | "runId" | "status"> & { readonly limit: number };

export class DeadLetters {
  readonly #context: ServiceContext;
  readonly #starter: RunStarter;
  readonly #control: RunControl;

  constructor(context: ServiceContext, starter: RunStarter, control: RunControl) {
    this.#context = context;
    this.#starter = starter;
    this.#control = control;
  }

  /** Newest first. Letters of another status are skipped; a page that finds nothing else is short and has a cursor. */
  async list(tenant: string, { limit, cursor, q, runId, status = "open" }: DeadLetterQuery) {
    const { reader } = this.#context;
    const items: DeadLetter[] = [];
    const names = await readWorkerNames(reader, tenant);
    let after = decodeDocumentCursor(cursor);
    let asOf = 0;
    for (let pages = 0; pages < pagesMax; pages++) {
      const page = await reader.page({
        page: "docs",
        tenant,
        collection,
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
  async requeue(caller: Caller, task: string, reason: string | undefined, ask: IdempotencyKey | null) {
    const { engineClient, digest } = this.#context;
    const { tenant } = caller.identity;
    const { doc, body } = await this.#find(tenant, task);
    let isRepeated = false;
    const run = await auditRefusal(engineClient, caller, deadLetterAudit("requeue", doc, reason), async () => {
      if (body.status === "dismissed")
        throw fault("E.CONFLICT", `the dead letter of task ${task} is dismissed; replay its run from node ${body.node} instead`);
      isRepeated = await registerIdempotencyKey(engineClient, caller, ask);
      const before = body.newRun === undefined ? null : await this.#readRunRef(tenant, body.newRun);
      if (before !== null) return before;
      const detail = await this.#starter.readRunDetail(tenant, body.run);
      const from = topLevelNodeOf(detail, taskIdOf(doc)) ?? body.node;
      // Its own key, so that a repeated request, or one after a crash, gets the same run. No caller's key contains a blank.
      return this.#control.startAgain(caller, detail, { request: { from }, key: `letter ${digest(taskIdOf(doc))}` });
    });
    if (body.status === "open") await this.#write(caller, doc, { ...body, status: "requeued", newRun: run.run }, reason);
    return { run, isRepeated };
  }

  async dismiss(caller: Caller, task: string, reason: string | undefined, ask: IdempotencyKey | null) {
    const { engineClient, reader } = this.#context;
    const { tenant } = caller.identity;
    const { doc, body } = await this.#find(tenant, task);
    const isRepeated = await auditRefusal(engineClient, caller, deadLetterAudit("dismiss", doc, reason), () => {
      if (body.status === "requeued")
        throw fault("E.CONFLICT", `the dead letter of task ${task} was already requeued as run ${body.newRun ?? ""}`);
      return registerIdempotencyKey(engineClient, caller, ask);
    });
    const after = { ...body, status: "dismissed" } as const;
    if (body.status === "open") await this.#write(caller, doc, after, reason);
    const names = await readWorkerNames(reader, tenant);
    return { deadLetter: presentDeadLetter({ ...doc, body: JSON.stringify(after) }, names), isRepeated };
  }

  /** Dismisses the open dead letters of a run; returns how many there were. */
  async dismissAllOf(caller: Caller, run: string, reason: string | undefined): Promise<number> {
    const query = { page: "docs", tenant: caller.identity.tenant, collection, prefix: `${run}.`, limit: 200 } as const;
    let dismissed = 0;
    for (const doc of (await this.#context.reader.page(query)).items) {
      const body = JSON.parse(doc.body) as DeadLetterDocument;
      if (body.status !== "open") continue;
      await this.#write(caller, doc, { ...body, status: "dismissed" }, reason);
      dismissed += 1;
    }
    return dismissed;
  }

  async #find(tenant: string, task: string) {
    const { doc } = await readDocument(this.#context.reader, tenant, collection, task);
    if (doc === null) throw fault("E.NOT_FOUND", `there is no dead letter of task ${task.slice(0, 200)}`);
    return { doc, body: JSON.parse(doc.body) as DeadLetterDocument };
  }

  /** The run that a dead letter was requeued as, as its start was answered; null if it was deleted. */
  async #readRunRef(tenant: string, id: string) {
    const { detail } = await this.#context.reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
    return detail === null ? null : { ...detail.run, run: detail.run.id };
  }

  async #write(caller: Caller, doc: DocRow, body: DeadLetterDocument, reason: string | undefined): Promise<void> {
    const { rev, sort, terms } = doc;
    await writeDocuments(this.#context.engineClient, actorOf(caller), {
      puts: [{ collection, name: taskIdOf(doc), rev, body: JSON.stringify(body), sort, terms }],
      audit: deadLetterAudit(body.status === "requeued" ? "requeue" : "dismiss", doc, reason),
    });
  }
}

/** The audit entry of a change; it is stored in the log of the dead letter's run. */
const deadLetterAudit = (verb: "requeue" | "dismiss", doc: DocRow, reason: string | undefined): AuditEntry => ({
  action: `letter.${verb}`,
  targetType: "task",
  target: taskIdOf(doc),
  ...(reason !== undefined && { data: { reason } }),
});

function presentDeadLetter(doc: DocRow, names: ReadonlyMap<string, string>): DeadLetter {
  const { run: runId, node: nodeId, at, worker, status, newRun, ...body } = JSON.parse(doc.body) as DeadLetterDocument;
  const { label, code, message, attempts, failures } = body;
  const workerName = worker === null ? undefined : (names.get(worker) ?? instanceIdOf(worker));
  const failure = { label, code, message, attempts, failures, at: isoTime(at), ...omitUndefined({ workerName }) };
  return { taskId: taskIdOf(doc), runId, nodeId, ...failure, status, ...omitUndefined({ newRun }) };
}
