// Documents: written all together or not at all, by writers that know their revisions; and what happens when one expires.

import { Fault, fault } from "@astraflow/protocol";
import type { DocPut, WriteDocsCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type DocRow, docId, docKey, keyOf, rootOf, runOf, splitKey, type Tenant } from "../../storage/rows.ts";
import { readArtifact } from "../queueing/artifacts.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { expireCommand } from "../workers/command-records.ts";
import { type AuditedAction, type AuditSubject, allOrNothing, findOwnRun, withAudit } from "./audit.ts";
import { recallAnswer, rememberAnswer } from "./idempotency.ts";

/** Documents that one command may write or remove. */
const docsPerWriteMax = 1_000;

export function writeDocs(work: UnitOfWork, command: WriteDocsCommand): AnswerBody | Fault {
  const count = command.puts.length + (command.drops?.length ?? 0);
  if (count > docsPerWriteMax)
    return fault("E.REQUEST.TOO_LARGE", `${count} documents are more than one write takes; write at most ${docsPerWriteMax}`);
  const earlier = recallAnswer(work, command, "docs");
  if (earlier !== null) return earlier instanceof Fault ? earlier : { of: "docs", revs: earlier.revs, repeated: true };
  if (command.audit === undefined) return allOrNothing(work, () => writeAll(work, command));
  const auditedAction: AuditedAction = { ...command.audit, tenant: command.tenant, by: command.by, corr: command.corr };
  const isThere = writeSubjectOf(work, command) !== null;
  let isWritten = false;
  const subject = (): AuditSubject | null => (isThere || isWritten ? writeSubjectOf(work, command, true) : null);
  return withAudit(work, auditedAction, subject, () => {
    const answer = writeAll(work, command);
    isWritten = "of" in answer;
    return answer;
  });
}

function writeAll(work: UnitOfWork, command: WriteDocsCommand): AnswerBody | Fault {
  const revs: number[] = [];
  for (const put of command.puts) {
    const now = work.doc(docId(command.tenant, put.collection, put.name));
    if (put.rev !== undefined && put.rev !== (now?.rev ?? 0)) return conflict(put, put.rev, now);
    const next = changedDocument(work, command.tenant, put, now);
    revs.push(next.rev);
    work.put(next);
  }
  for (const drop of command.drops ?? []) {
    const now = work.doc(docId(command.tenant, drop.collection, drop.name));
    if (now === null || drop.rev !== now.rev) return conflict(drop, drop.rev, now);
    work.delete(keyOf(now));
  }
  rememberAnswer(work, command, { of: "docs", revs });
  return { of: "docs", revs, repeated: false };
}

/** What a put does not mention stays as it was. */
function changedDocument(work: UnitOfWork, tenant: Tenant, put: DocPut, now: DocRow | null): DocRow {
  return nextRevision(work, [tenant, put.collection, put.name], now, {
    due: put.keepMs !== undefined ? work.now + put.keepMs : put.due === undefined ? (now?.due ?? null) : put.due,
    sort: put.sort ?? now?.sort ?? "",
    terms: put.terms?.toLowerCase() ?? now?.terms ?? "",
    body: put.body,
  });
}

function conflict(doc: { readonly collection: string; readonly name: string }, expected: number, now: DocRow | null): Fault {
  const { collection, name } = doc;
  const state =
    now === null
      ? "does not exist"
      : expected === 0
        ? `already exists (revision ${now.rev})`
        : `is in revision ${now.rev} by now`;
  const wayOut = now === null || expected === 0 ? "read it before you write" : "read it again and repeat the change";
  return fault("E.CONFLICT", `${collection} ${name} ${state}; ${wayOut}`, { collection, name, rev: now?.rev ?? 0, expected });
}

/** The first document of the write or the run that guards it, otherwise what the audit names. Null: this tenant has no such thing. */
function writeSubjectOf(work: UnitOfWork, command: WriteDocsCommand, evenNew = false): AuditSubject | null {
  const first = command.puts[0] ?? command.drops?.[0];
  if (first !== undefined) {
    const key = docKey(command.tenant, first.collection, first.name);
    if (work.doc(docId(command.tenant, first.collection, first.name)) === null && !evenNew) return null;
    const [kind, id] = splitKey(rootOf(key));
    return kind === "run" ? findOwnRun(work, command, id) : key;
  }
  const { targetType = "", target = "" } = command.audit ?? {};
  if (targetType === "run") return findOwnRun(work, command, target);
  if (targetType === "task") return findOwnRun(work, command, runOf(target));
  if (targetType === "worker") {
    const worker = work.worker(`${command.tenant}/${target}`);
    return worker === null ? null : keyOf(worker);
  }
  // Nothing is written to it; it is read so that the turn holds the lock for the entry.
  work.doc(docId(command.tenant, targetType, target));
  return docKey(command.tenant, targetType, target);
}

/** Removes a document that has expired. For an artifact this is recorded in its run; a command that waits for its worker has failed. */
export function expireDocument(work: UnitOfWork, id: string): void {
  const doc = work.doc(id);
  if (doc === null || doc.due === null || doc.due > work.now) return;
  if (doc.collection === "command" && expireCommand(work, doc)) return;
  work.delete(keyOf(doc));
  // If its worker has removed it, that was recorded then.
  if (doc.collection !== "artifact" || readArtifact(doc).removed !== undefined) return;
  const run = work.run(readArtifact(doc).run);
  const data = { resource: doc.id.slice(doc.tenant.length + "/artifact/".length), reason: "expired" };
  if (run !== null && run.tenant === doc.tenant) work.recordRunFact(run, "artifact.removed", data);
  else work.recordFact(doc.tenant, keyOf(doc), "artifact.removed", data);
}
