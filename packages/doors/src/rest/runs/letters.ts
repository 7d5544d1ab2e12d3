// The routes about dead letters: tasks that failed for good, until somebody has taken them up again or put them aside.

import type { AuditWords, DeadLetter as Buried, DocRow, Reader } from "@astraflow/engine";
import { type DeadLetter, type Fault, fault, readSteerRequest } from "@astraflow/protocol";
import type { EngineClient } from "../../link.ts";
import { type Asker, type Handler, readLimit, readWords } from "../call.ts";
import { askOf, hasCome, replayed } from "../keys.ts";
import { readDocsCursor, spellCursor } from "../people/user-cursor.ts";
import { keepRefusal } from "../refusals.ts";
import { instant, viewRunRef } from "../view.ts";
import { instanceIn } from "../workers/view-workers.ts";
import { replayRun, topNodeOf } from "./run-again.ts";
import type { Starter } from "./run-start.ts";

export interface LettersOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly starter: Starter;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
}

const letterCollection = "letter";

/** The body of a letter, as the engine writes it, and what became of it since. */
type LetterBody = Omit<Buried, "status"> & { readonly status: DeadLetter["status"]; readonly newRun?: string };

type LetterRoutes = "listDeadLetters" | "requeueDeadLetter" | "dismissDeadLetter";

export function letterHandlers({ engineClient, reader, starter, digest }: LettersOptions): Record<LetterRoutes, Handler> {
  const find = async (tenant: string, task: string): Promise<{ doc: DocRow; body: LetterBody }> => {
    const { items } = await reader.page({ page: "doc", tenant, collection: letterCollection, names: [task] });
    const doc = items[0] ?? null;
    if (doc === null) throw missingLetter(task);
    return { doc, body: JSON.parse(doc.body) as LetterBody };
  };

  return {
    async listDeadLetters(call) {
      const { tenant } = call.identity;
      const limit = readLimit(call.query);
      const { q, runId, status = "open" } = call.query;
      const items: DeadLetter[] = [];
      const names = await namesOf(reader, tenant);
      let after = readDocsCursor(call.query["cursor"]);
      let asOf = 0;
      // Those put aside are passed over; a page that holds nothing else is short and has a cursor.
      for (let pages = 0; pages < 10; pages++) {
        const page = await reader.page({
          page: "docs",
          tenant,
          collection: letterCollection,
          order: "desc",
          limit: limit - items.length,
          ...(after !== undefined && { after }),
          ...(q !== undefined && q.trim() !== "" && { search: q }),
          ...(runId !== undefined && { prefix: `${runId}.` }),
        });
        asOf = page.head;
        for (const doc of page.items) {
          const letter = viewLetter(doc, names);
          if (letter.status === status) items.push(letter);
        }
        after = page.next ?? undefined;
        if (after === undefined || items.length >= limit) break;
      }
      return { body: { items, nextCursor: spellCursor(after ?? null), asOf } };
    },

    async requeueDeadLetter(call) {
      const request = readWords(call, readSteerRequest);
      const ask = askOf(call, "letter.requeue", request, digest);
      const { reason } = request;
      const { tenant } = call.identity;
      const { doc, body } = await find(tenant, call.params["taskId"] ?? "");
      let isRepeated = false;
      const answer = await keepRefusal(engineClient, call, aboutLetter("requeue", doc, reason), async () => {
        if (body.status === "dismissed")
          throw fault(
            "E.CONFLICT",
            `the letter of task ${nameOf(doc)} is dismissed; replay its run from node ${body.node} instead`,
          );
        isRepeated = await hasCome(engineClient, call, ask);
        const before = body.newRun === undefined ? null : await runOf(reader, tenant, body.newRun);
        if (before !== null) return before;
        const detail = await starter.detailOf(tenant, body.run);
        const from = topNodeOf(detail, nameOf(doc)) ?? body.node;
        // Under a key of its own: whoever asks again, or comes back after a crash in between, gets the same run. No caller's key has a blank.
        return await replayRun(starter, call, detail, { from }, `letter ${digest(nameOf(doc))}`);
      });
      if (body.status === "open")
        await writeLetter(engineClient, call, doc, { ...body, status: "requeued", newRun: answer.run }, reason);
      return { body: viewRunRef(answer), headers: replayed(isRepeated) };
    },

    async dismissDeadLetter(call) {
      const request = readWords(call, readSteerRequest);
      const ask = askOf(call, "letter.dismiss", request, digest);
      const { reason } = request;
      const { doc, body } = await find(call.identity.tenant, call.params["taskId"] ?? "");
      const isRepeated = await keepRefusal(engineClient, call, aboutLetter("dismiss", doc, reason), () => {
        if (body.status === "requeued")
          throw fault("E.CONFLICT", `the letter of task ${nameOf(doc)} was taken up again by run ${body.newRun ?? ""}`);
        return hasCome(engineClient, call, ask);
      });
      const after = { ...body, status: "dismissed" } as const;
      if (body.status === "open") await writeLetter(engineClient, call, doc, after, reason);
      const letter = viewLetter({ ...doc, body: JSON.stringify(after) }, await namesOf(reader, call.identity.tenant));
      return { body: letter, headers: replayed(isRepeated) };
    },
  };
}

/** Puts aside what is open of a run; gives how many that were. */
export async function dismissLetters(
  { engineClient, reader }: Pick<LettersOptions, "engineClient" | "reader">,
  call: Asker,
  run: string,
  reason?: string,
): Promise<number> {
  const { tenant } = call.identity;
  const { items } = await reader.page({ page: "docs", tenant, collection: letterCollection, prefix: `${run}.`, limit: 200 });
  let dismissed = 0;
  for (const doc of items) {
    const body = JSON.parse(doc.body) as LetterBody;
    if (body.status !== "open") continue;
    await writeLetter(engineClient, call, doc, { ...body, status: "dismissed" }, reason);
    dismissed += 1;
  }
  return dismissed;
}

const nameOf = ({ id }: DocRow): string => id.split("/").slice(2).join("/");

/** The run that took a letter up, as its start was answered; null where it is no longer kept. */
async function runOf(reader: Reader, tenant: string, id: string): Promise<Parameters<typeof viewRunRef>[0] | null> {
  const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
  return detail === null ? null : { ...detail.run, run: detail.run.id };
}

const missingLetter = (task: string): Fault => fault("E.NOT_FOUND", `there is no dead letter of task ${task.slice(0, 200)}`);

async function writeLetter(
  engineClient: EngineClient,
  call: Asker,
  doc: DocRow,
  body: LetterBody,
  reason?: string,
): Promise<void> {
  const { tenant, user } = call.identity;
  const name = nameOf(doc);
  await engineClient.request({
    type: "docs.write",
    tenant,
    by: user,
    corr: call.requestId,
    puts: [{ collection: letterCollection, name, rev: doc.rev, body: JSON.stringify(body), sort: doc.sort, terms: doc.terms }],
    audit: aboutLetter(body.status === "requeued" ? "requeue" : "dismiss", doc, reason),
  });
}

/** An order about a letter, in the words of the audit; it stands in the log of the letter's run. */
const aboutLetter = (verb: "requeue" | "dismiss", doc: DocRow, reason: string | undefined): AuditWords => ({
  action: `letter.${verb}`,
  targetType: "task",
  target: nameOf(doc),
  ...(reason !== undefined && { data: { reason } }),
});

/** Names of workers by their id. */
async function namesOf(reader: Reader, tenant: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await reader.page({ page: "workers", tenant });
  return new Map(items.map((worker) => [worker.id, worker.name]));
}

function viewLetter(doc: DocRow, names: ReadonlyMap<string, string>): DeadLetter {
  const body = JSON.parse(doc.body) as LetterBody;
  return {
    taskId: nameOf(doc),
    runId: body.run,
    nodeId: body.node,
    label: body.label,
    code: body.code,
    message: body.message,
    attempts: body.attempts,
    failures: body.failures,
    at: instant(body.at),
    ...(body.worker !== null && { workerName: names.get(body.worker) ?? instanceIn(body.worker) }),
    status: body.status,
    ...(body.newRun !== undefined && { newRun: body.newRun }),
  };
}
