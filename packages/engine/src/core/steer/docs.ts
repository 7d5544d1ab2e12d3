// Documents: written together or not at all, each by whoever knows its revision; and what the end of a document's time means. What their
// bodies say is for those who write them.

import { type Fault, fault } from "@astraflow/protocol";
import type { DocPut, WriteDocs } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type AskRow, type DocRow, docId, docKey, keyOf, type RunId, rootOf, runOf, splitKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { expireOrder } from "../crew/command-book.ts";
import { artifactRun, readArtifact } from "../place/artifacts.ts";
import type { Tools } from "../tools.ts";
import { audited, type Deed, type Subject, whole } from "./audit.ts";

/** Documents that one command may write or remove. */
export const docsPerWriteMax = 1_000;

/** An ask that made documents keeps their revisions where one that made a run names it. */
const revsWord = "docs ";

export function writeDocs(board: Board, _tools: Tools, order: WriteDocs): AnswerBody | Fault {
  const count = order.puts.length + (order.drops?.length ?? 0);
  if (count > docsPerWriteMax)
    return fault("E.REQUEST.TOO_LARGE", `${count} documents are more than one write takes; write at most ${docsPerWriteMax}`);
  const before = repeatOf(board, order);
  if (before !== null) return before;
  if (order.audit === undefined) return whole(board, () => writeAll(board, order));
  const deed: Deed = { ...order.audit, tenant: order.tenant, by: order.by, corr: order.corr };
  const isThere = subjectOf(board, order) !== null;
  let isWritten = false;
  const subject = (): Subject | null => (isThere || isWritten ? subjectOf(board, order, true) : null);
  return audited(board, deed, subject, () => {
    const said = writeAll(board, order);
    isWritten = "of" in said;
    return said;
  });
}

/** What an earlier command under this key was answered; null when there was none. */
function repeatOf(board: Board, order: WriteDocs): AnswerBody | Fault | null {
  const ask = order.ask ?? null;
  const asked = ask === null ? null : board.ask(`${order.tenant}/${ask.key}`);
  if (ask === null || asked === null) return null;
  if (asked.digest !== ask.digest || !asked.run.startsWith(revsWord))
    return fault("E.IDEMPOTENCY.MISMATCH", `Idempotency-Key "${ask.key}" was used for another request; use a new key`);
  return { of: "docs", revs: readRevs(asked), repeated: true };
}

const readRevs = ({ run }: AskRow): number[] => run.slice(revsWord.length).split(",").filter(Boolean).map(Number);

function writeAll(board: Board, order: WriteDocs): AnswerBody | Fault {
  const revs: number[] = [];
  for (const put of order.puts) {
    const now = board.doc(docId(order.tenant, put.collection, put.name));
    if (put.rev !== undefined && put.rev !== (now?.rev ?? 0)) return conflict(put, put.rev, now);
    const next = written(board, order, put, now);
    revs.push(next.rev);
    board.put(next);
  }
  for (const drop of order.drops ?? []) {
    const now = board.doc(docId(order.tenant, drop.collection, drop.name));
    if (now === null || drop.rev !== now.rev) return conflict(drop, drop.rev, now);
    board.drop(keyOf(now));
  }
  if (order.ask !== undefined && order.ask !== null)
    board.put({
      kind: "ask",
      id: `${order.tenant}/${order.ask.key}`,
      digest: order.ask.digest,
      run: `${revsWord}${revs.join(",")}`,
      at: board.now,
    });
  return { of: "docs", revs, repeated: false };
}

/** What a put does not mention stays as it was. */
function written(board: Board, order: WriteDocs, put: DocPut, now: DocRow | null): DocRow {
  return {
    kind: "doc",
    id: docId(order.tenant, put.collection, put.name),
    tenant: order.tenant,
    collection: put.collection,
    rev: (now?.rev ?? 0) + 1,
    at: board.now,
    due: put.keepMs !== undefined ? board.now + put.keepMs : put.due === undefined ? (now?.due ?? null) : put.due,
    sort: put.sort ?? now?.sort ?? "",
    terms: put.terms?.toLowerCase() ?? now?.terms ?? "",
    body: put.body,
  };
}

function conflict(doc: { readonly collection: string; readonly name: string }, expected: number, now: DocRow | null): Fault {
  const { collection, name } = doc;
  const state =
    now === null ? "does not exist" : expected === 0 ? `exists in revision ${now.rev}` : `is in revision ${now.rev} by now`;
  const wayOut = now === null || expected === 0 ? "look at what is there first" : "read it again and repeat the change";
  return fault("E.CONFLICT", `${collection} ${name} ${state}; ${wayOut}`, { collection, name, rev: now?.rev ?? 0, expected });
}

/**
 * Whom the entry is about: the first document of the write, the run that guards it, or, without documents, the run, worker or document
 * that the audit names. Null: there is no such thing of this tenant.
 */
function subjectOf(board: Board, order: WriteDocs, evenNew = false): Subject | null {
  const first = order.puts[0] ?? order.drops?.[0];
  if (first !== undefined) {
    const key = docKey(order.tenant, first.collection, first.name);
    if (board.doc(docId(order.tenant, first.collection, first.name)) === null && !evenNew) return null;
    const [kind, id] = splitKey(rootOf(key));
    return kind === "run" ? ownRun(board, order, id) : key;
  }
  const { targetType = "", target = "" } = order.audit ?? {};
  if (targetType === "run") return ownRun(board, order, target);
  if (targetType === "task") return ownRun(board, order, runOf(target));
  if (targetType === "worker") {
    const worker = board.worker(`${order.tenant}/${target}`);
    return worker === null ? null : keyOf(worker);
  }
  // Nothing is written to it; it is looked at so that the turn holds what the entry stands under.
  board.doc(docId(order.tenant, targetType, target));
  return docKey(order.tenant, targetType, target);
}

function ownRun(board: Board, order: WriteDocs, id: RunId): Subject | null {
  const run = board.run(id);
  return run !== null && run.tenant === order.tenant ? run : null;
}

/** A document's time is over: it is gone. For what a worker kept, its run is told; a command that waits for its worker has failed. */
export function expireDoc(board: Board, id: string): void {
  const doc = board.doc(id);
  if (doc === null || doc.due === null || doc.due > board.now) return;
  if (doc.collection === "command" && expireOrder(board, doc)) return;
  board.drop(keyOf(doc));
  // What its worker has removed was told then.
  if (doc.collection !== "artifact" || readArtifact(doc).removed !== undefined) return;
  const run = board.run(artifactRun(doc));
  const data = { resource: doc.id.slice(doc.tenant.length + "/artifact/".length), reason: "expired" };
  if (run !== null && run.tenant === doc.tenant) board.tell(run, "artifact.removed", data);
  else board.say(doc.tenant, keyOf(doc), "artifact.removed", data);
}
