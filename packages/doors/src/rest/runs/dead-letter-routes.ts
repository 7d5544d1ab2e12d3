// The routes about dead letters: tasks that failed for good, until somebody has taken them up again or put them aside.

import type { AuditEntry, DeadLetterRecord as Buried, DocRow, StoreReader } from "@astraflow/engine";
import { type DeadLetter, type Fault, fault, readSteerRequest } from "@astraflow/protocol";
import {
  auditRefusal,
  type Caller,
  decodeDocumentCursor,
  type EngineClient,
  encodeCursor,
  instanceIdOf,
  isoTime,
  presentRunRef,
  registerIdempotencyKey,
} from "@astraflow/services";
import { idempotencyKeyOf, replayedHeader } from "../requests/idempotency.ts";
import { type RouteHandler, readOptionalRequest, readPageLimit } from "../requests/rest-call.ts";
import { replayRun, topLevelNodeOf } from "./run-replay.ts";
import type { RunStarter } from "./run-starter.ts";

export interface DeadLetterRoutesOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly starter: RunStarter;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
}

const deadLetterCollection = "letter";

/** The body of a letter, as the engine writes it, and what became of it since. */
type DeadLetterDocument = Omit<Buried, "status"> & { readonly status: DeadLetter["status"]; readonly newRun?: string };

type DeadLetterRoutes = "listDeadLetters" | "requeueDeadLetter" | "dismissDeadLetter";

export function deadLetterHandlers({
  engineClient,
  reader,
  starter,
  digest,
}: DeadLetterRoutesOptions): Record<DeadLetterRoutes, RouteHandler> {
  const find = async (tenant: string, task: string): Promise<{ doc: DocRow; body: DeadLetterDocument }> => {
    const { items } = await reader.page({ page: "doc", tenant, collection: deadLetterCollection, names: [task] });
    const doc = items[0] ?? null;
    if (doc === null) throw deadLetterNotFound(task);
    return { doc, body: JSON.parse(doc.body) as DeadLetterDocument };
  };

  return {
    async listDeadLetters(call) {
      const { tenant } = call.identity;
      const limit = readPageLimit(call.query);
      const { q, runId, status = "open" } = call.query;
      const items: DeadLetter[] = [];
      const names = await readWorkerNames(reader, tenant);
      let after = decodeDocumentCursor(call.query["cursor"]);
      let asOf = 0;
      // Those put aside are passed over; a page that holds nothing else is short and has a cursor.
      for (let pages = 0; pages < 10; pages++) {
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
        for (const doc of page.items) {
          const deadLetter = presentDeadLetter(doc, names);
          if (deadLetter.status === status) items.push(deadLetter);
        }
        after = page.next ?? undefined;
        if (after === undefined || items.length >= limit) break;
      }
      return { body: { items, nextCursor: encodeCursor(after ?? null), asOf } };
    },

    async requeueDeadLetter(call) {
      const request = readOptionalRequest(call, readSteerRequest);
      const idempotencyKey = idempotencyKeyOf(call, "letter.requeue", request, digest);
      const { reason } = request;
      const { tenant } = call.identity;
      const { doc, body } = await find(tenant, call.params["taskId"] ?? "");
      let isRepeated = false;
      const answer = await auditRefusal(engineClient, call, deadLetterAudit("requeue", doc, reason), async () => {
        if (body.status === "dismissed")
          throw fault(
            "E.CONFLICT",
            `the letter of task ${taskIdOf(doc)} is dismissed; replay its run from node ${body.node} instead`,
          );
        isRepeated = await registerIdempotencyKey(engineClient, call, idempotencyKey);
        const before = body.newRun === undefined ? null : await readRunRef(reader, tenant, body.newRun);
        if (before !== null) return before;
        const detail = await starter.detailOf(tenant, body.run);
        const from = topLevelNodeOf(detail, taskIdOf(doc)) ?? body.node;
        // Under a key of its own: whoever asks again, or comes back after a crash in between, gets the same run. No caller's key has a blank.
        return await replayRun(starter, call, detail, { from }, `letter ${digest(taskIdOf(doc))}`);
      });
      if (body.status === "open")
        await writeDeadLetter(engineClient, call, doc, { ...body, status: "requeued", newRun: answer.run }, reason);
      return { body: presentRunRef(answer), headers: replayedHeader(isRepeated) };
    },

    async dismissDeadLetter(call) {
      const request = readOptionalRequest(call, readSteerRequest);
      const idempotencyKey = idempotencyKeyOf(call, "letter.dismiss", request, digest);
      const { reason } = request;
      const { doc, body } = await find(call.identity.tenant, call.params["taskId"] ?? "");
      const isRepeated = await auditRefusal(engineClient, call, deadLetterAudit("dismiss", doc, reason), () => {
        if (body.status === "requeued")
          throw fault("E.CONFLICT", `the letter of task ${taskIdOf(doc)} was taken up again by run ${body.newRun ?? ""}`);
        return registerIdempotencyKey(engineClient, call, idempotencyKey);
      });
      const after = { ...body, status: "dismissed" } as const;
      if (body.status === "open") await writeDeadLetter(engineClient, call, doc, after, reason);
      const deadLetter = presentDeadLetter(
        { ...doc, body: JSON.stringify(after) },
        await readWorkerNames(reader, call.identity.tenant),
      );
      return { body: deadLetter, headers: replayedHeader(isRepeated) };
    },
  };
}

/** Puts aside what is open of a run; gives how many that were. */
export async function dismissDeadLetters(
  { engineClient, reader }: Pick<DeadLetterRoutesOptions, "engineClient" | "reader">,
  call: Caller,
  run: string,
  reason?: string,
): Promise<number> {
  const { tenant } = call.identity;
  const { items } = await reader.page({ page: "docs", tenant, collection: deadLetterCollection, prefix: `${run}.`, limit: 200 });
  let dismissed = 0;
  for (const doc of items) {
    const body = JSON.parse(doc.body) as DeadLetterDocument;
    if (body.status !== "open") continue;
    await writeDeadLetter(engineClient, call, doc, { ...body, status: "dismissed" }, reason);
    dismissed += 1;
  }
  return dismissed;
}

const taskIdOf = ({ id }: DocRow): string => id.split("/").slice(2).join("/");

/** The run that took a letter up, as its start was answered; null where it is no longer kept. */
async function readRunRef(reader: StoreReader, tenant: string, id: string): Promise<Parameters<typeof presentRunRef>[0] | null> {
  const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
  return detail === null ? null : { ...detail.run, run: detail.run.id };
}

const deadLetterNotFound = (task: string): Fault => fault("E.NOT_FOUND", `there is no dead letter of task ${task.slice(0, 200)}`);

async function writeDeadLetter(
  engineClient: EngineClient,
  call: Caller,
  doc: DocRow,
  body: DeadLetterDocument,
  reason?: string,
): Promise<void> {
  const { tenant, user } = call.identity;
  const name = taskIdOf(doc);
  await engineClient.request({
    type: "docs.write",
    tenant,
    by: user,
    corr: call.requestId,
    puts: [
      { collection: deadLetterCollection, name, rev: doc.rev, body: JSON.stringify(body), sort: doc.sort, terms: doc.terms },
    ],
    audit: deadLetterAudit(body.status === "requeued" ? "requeue" : "dismiss", doc, reason),
  });
}

/** An order about a letter, in the words of the audit; it stands in the log of the letter's run. */
const deadLetterAudit = (verb: "requeue" | "dismiss", doc: DocRow, reason: string | undefined): AuditEntry => ({
  action: `letter.${verb}`,
  targetType: "task",
  target: taskIdOf(doc),
  ...(reason !== undefined && { data: { reason } }),
});

/** Names of workers by their id. */
async function readWorkerNames(reader: StoreReader, tenant: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await reader.page({ page: "workers", tenant });
  return new Map(items.map((worker) => [worker.id, worker.name]));
}

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
