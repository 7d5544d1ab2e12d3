// Changes of drafts: saved as a whole, replaced, edited, rolled back to a version, deleted; and comparisons between them.

import { diffWorkflows } from "@astraflow/graph";
import { type Fault, fault, type JsonValue, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { uuidFromText } from "../documents/derived-names.ts";
import { retryOnConflict } from "../documents/documents.ts";
import { type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import { editsBetween, parseEdits, rebaseEdits } from "./draft-edits.ts";
import {
  checkPreviewSize,
  findProblems,
  findProblemsIn,
  parseWorkflow,
  readAllowUnknown,
  throwOnErrors,
} from "./workflow-checks.ts";
import type { WorkflowServices } from "./workflow-services.ts";
import {
  type DraftRevision,
  newWorkflowDocument,
  nextWorkflowRevision,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  withoutServerFields,
  workflowLimits,
} from "./workflow-store.ts";

/** A workflow that was written. Revision null: an equal request wrote it, and its revision is no longer stored. */
export interface WrittenWorkflow {
  readonly workflowId: string;
  readonly revision: number | null;
  readonly repeated: boolean;
}

/** Refuses by throwing if the draft is not at the revision that the caller has seen. */
export type RevisionCheck = (document: WorkflowDocument) => void;

/** Problems are reported and never refused: a draft may be unfinished. */
export const draftProblems = (
  { catalogues }: WorkflowServices,
  tenant: string,
  { workflow }: WorkflowDocument,
): Promise<WorkflowProblem[]> => findProblems(catalogues, tenant, (catalogue) => findProblemsIn(workflow, catalogue));

/** Creates or replaces a workflow, or restores a deleted one; its owner stays the same. */
export async function saveWorkflow(
  { store, catalogues, environment }: WorkflowServices,
  caller: Caller,
  body: JsonValue,
  ask: WorkflowIdempotencyKey | null,
): Promise<WrittenWorkflow> {
  const { tenant, user } = caller.identity;
  const newId = uuidFromText(`workflow ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
  const workflow = checkPreviewSize(parseWorkflow(body, newId));
  const options = { allowUnknown: readAllowUnknown(body) };
  const problems = await findProblems(catalogues, tenant, (catalogue) => findProblemsIn(workflow, catalogue, options));
  return retryOnConflict(workflowLimits.attemptsMax, async () => {
    const { document, rev } = await store.readAny(tenant, workflow.id);
    if (document !== null && !isOwnerOrAdmin(caller.identity, document.owner)) throw workflowOwnedByOther(workflow.id);
    const before = revisionMadeBy(document, ask);
    if (before !== null) return { workflowId: workflow.id, revision: before, repeated: true };
    throwOnErrors(problems);
    const now = store.now();
    const next =
      document === null ? newWorkflowDocument(caller, now, workflow, ask) : replaceDraft(document, caller, now, workflow, ask);
    const action = document === null ? "workflow.create" : "workflow.update";
    const { repeated } = await store.write(caller, rev, { document: next }, { action, ask });
    const written = repeated ? (await store.readAny(tenant, workflow.id)).document : null;
    return { workflowId: workflow.id, revision: repeated ? revisionMadeBy(written, ask) : next.revision, repeated };
  });
}

export async function replaceWorkflow(
  { store, catalogues }: WorkflowServices,
  caller: Caller,
  id: string,
  body: JsonValue,
  checkRevision: RevisionCheck,
): Promise<WorkflowDocument> {
  checkRevision((await store.find(caller.identity, id)).document);
  const workflow = checkPreviewSize(parseWorkflow(body, id));
  if (workflow.id !== id)
    throw fault("E.REQUEST.INVALID", `workflow.id must be ${id}, as in the address`, { path: "workflow.id" });
  const options = { allowUnknown: readAllowUnknown(body) };
  throwOnErrors(
    await findProblems(catalogues, caller.identity.tenant, (catalogue) => findProblemsIn(workflow, catalogue, options)),
  );
  const { document } = await store.update(caller, id, {
    action: "workflow.update",
    ask: null,
    decide(now) {
      checkRevision(now);
      return { document: replaceDraft(now, caller, store.now(), workflow, null) };
    },
  });
  return document;
}

export async function deleteWorkflow(
  { store }: WorkflowServices,
  caller: Caller,
  id: string,
  checkRevision: RevisionCheck,
): Promise<void> {
  await store.update(caller, id, {
    action: "workflow.delete",
    ask: null,
    decide(now) {
      checkRevision(now);
      return { document: { ...now, deletedAt: store.now() } };
    },
  });
}

export async function setPreview({ store }: WorkflowServices, caller: Caller, id: string, preview: string | null): Promise<void> {
  const decide = (now: WorkflowDocument) => ({ document: { ...now, preview } });
  await store.update(caller, id, { action: "workflow.preview", ask: null, decide });
}

/** Applies edits that were made on revision `base`, on top of what others saved since. */
export async function editDraft(
  { store }: WorkflowServices,
  caller: Caller,
  id: string,
  request: { readonly base: number; readonly edits: readonly JsonValue[] },
): Promise<{ readonly document: WorkflowDocument; readonly between: readonly DraftRevision[] }> {
  const edits = parseEdits(request.edits);
  let between: readonly DraftRevision[] = [];
  const { document } = await store.update(caller, id, {
    action: "workflow.update",
    ask: null,
    decide(now) {
      const rebased = rebaseEdits(now, request.base, edits);
      between = rebased.between;
      const next = { workflow: rebased.workflow, edits, ask: null };
      return { document: nextWorkflowRevision(now, caller, store.now(), next), data: { edits: edits.length } };
    },
  });
  return { document, between };
}

/** Compares two of: the draft, and versions by number. By default the newest version with the draft. */
export async function diffDrafts(
  { store, versions }: WorkflowServices,
  caller: Caller,
  id: string,
  sides: { readonly from?: string | undefined; readonly to?: string | undefined },
) {
  const { document, asOf } = await store.find(caller.identity, id);
  const readSide = async (name: "from" | "to", fallback: string): Promise<{ name: string; workflow: Workflow }> => {
    const version = sides[name] ?? fallback;
    if (version === "draft") return { name: version, workflow: document.workflow };
    if (!/^[1-9][0-9]{0,8}$/.test(version))
      throw fault("E.REQUEST.INVALID", `query.${name} must be a version's number or draft`, { path: `query.${name}` });
    const found = await versions.get(caller.identity.tenant, document.id, Number(version));
    return { name: version, workflow: found.version.workflow };
  };
  const newest = document.version === 0 ? "draft" : String(document.version);
  const [from, to] = await Promise.all([readSide("from", newest), readSide("to", "draft")]);
  const { edits, summary } = diffWorkflows(from.workflow, to.workflow);
  return { workflowId: document.id, from: from.name, to: to.name, edits, summary, asOf };
}

/** Makes the draft equal to a version again. */
export async function rollbackWorkflow(
  { store, versions }: WorkflowServices,
  caller: Caller,
  id: string,
  number: number,
  ask: WorkflowIdempotencyKey | null,
): Promise<WrittenWorkflow> {
  const { document: found } = await store.find(caller.identity, id);
  const before = revisionMadeBy(found, ask);
  if (before !== null) return { workflowId: id, revision: before, repeated: true };
  const { workflow } = (await versions.get(caller.identity.tenant, id, number)).version;
  const { document, repeated } = await store.update(caller, id, {
    action: "workflow.rollback",
    ask,
    decide(now) {
      const edits = editsBetween(now.workflow, workflow);
      const next = nextWorkflowRevision(now, caller, store.now(), { workflow, edits, ask });
      const rolledBack = number === next.version ? { ...next, publishedRevision: next.revision } : next;
      return { document: rolledBack, data: { version: number } };
    },
  });
  if (!repeated) return { workflowId: id, revision: document.revision, repeated };
  return { workflowId: id, revision: revisionMadeBy((await store.find(caller.identity, id)).document, ask), repeated };
}

/** Saving the same again makes no new revision: an editor that saves on leaving must not outdate the ETags of others. */
function replaceDraft(
  document: WorkflowDocument,
  caller: Caller,
  now: number,
  workflow: Workflow,
  ask: WorkflowIdempotencyKey | null,
): WorkflowDocument {
  const edits = editsBetween(document.workflow, withoutServerFields(workflow));
  const isSamePreview = (workflow.previewImage ?? document.preview) === document.preview;
  const isSame = edits?.length === 0 && isSamePreview && document.deletedAt === null && ask === null;
  return isSame ? document : nextWorkflowRevision(document, caller, now, { workflow, edits, ask });
}

const workflowOwnedByOther = (id: string): Fault =>
  fault("E.AUTH.FORBIDDEN", `workflow ${id} belongs to another user; save yours under a new id`);
