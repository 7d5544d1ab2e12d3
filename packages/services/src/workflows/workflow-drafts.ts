// Changes of drafts: saved as a whole, replaced, edited on top of the edits of others, rolled back to a version, deleted; and comparisons.

import { applyEdits, diffWorkflows, findEditConflicts, readEdits, type WorkflowEdit } from "@astraflow/graph";
import { Fault, fault, type JsonValue, readWorkflow, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { uuidFromText } from "../documents/derived-names.ts";
import { retryOnConflict } from "../documents/documents.ts";
import { owns } from "../documents/owned-documents.ts";
import type { Caller } from "../identity/identity.ts";
import {
  checkPreviewSize,
  findProblems,
  parseWorkflow,
  readAllowUnknown,
  throwOnErrors,
  warningsField,
} from "./workflow-checks.ts";
import {
  type DraftRevision,
  newWorkflowDocument,
  nextWorkflowRevision,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WrittenWorkflow,
  withoutServerFields,
  workflowLimits,
} from "./workflow-store.ts";
import type { WorkflowVersions } from "./workflow-versions.ts";
import { presentDraftChange } from "./workflow-view.ts";

/** Refuses by throwing if the draft is not at the revision that the caller has seen. */
export type RevisionCheck = (document: WorkflowDocument) => void;

export class WorkflowDrafts {
  readonly #store: WorkflowStore;
  readonly #versions: WorkflowVersions;

  constructor(store: WorkflowStore, versions: WorkflowVersions) {
    this.#store = store;
    this.#versions = versions;
  }

  /** Problems are reported and never refused: a draft may be unfinished. */
  findProblems(tenant: string, { workflow }: WorkflowDocument): Promise<readonly WorkflowProblem[]> {
    return findProblems(this.#store.context.catalogues, tenant, workflow);
  }

  /** Creates or replaces a workflow, or restores a deleted one; its owner stays the same. */
  async save(caller: Caller, body: JsonValue, ask: WorkflowIdempotencyKey | null): Promise<WrittenWorkflow> {
    const { catalogues, environment } = this.#store.context;
    const { tenant, user } = caller.identity;
    const newId = uuidFromText(`workflow ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
    const workflow = checkPreviewSize(parseWorkflow(body, newId));
    const { id: workflowId } = workflow;
    const problems = await findProblems(catalogues, tenant, workflow, { allowUnknown: readAllowUnknown(body) });
    return retryOnConflict(workflowLimits.attemptsMax, async () => {
      const { document, rev } = await this.#store.readAny(tenant, workflowId);
      if (document !== null && !owns(caller.identity, document)) throw workflowOwnedByOther(workflowId);
      const before = revisionMadeBy(document, ask);
      if (before !== null) return { workflowId, revision: before, repeated: true };
      throwOnErrors(problems);
      const now = this.#store.now();
      const next =
        document === null ? newWorkflowDocument(caller, now, workflow, ask) : replaceDraft(document, caller, now, workflow, ask);
      const action = document === null ? "workflow.create" : "workflow.update";
      const { repeated } = await this.#store.write(caller, rev, { document: next }, { action, ask });
      const written = repeated ? (await this.#store.readAny(tenant, workflowId)).document : null;
      const revision = repeated ? revisionMadeBy(written, ask) : next.revision;
      // With a key the answer must be the same when it is repeated, though the catalogue may be another by then.
      return { workflowId, revision, repeated, ...(ask === null && warningsField(problems)) };
    });
  }

  async replace(
    caller: Caller,
    id: string,
    body: JsonValue,
    checkRevision: RevisionCheck,
  ): Promise<{ readonly document: WorkflowDocument } & ReturnType<typeof warningsField>> {
    checkRevision((await this.#store.find(caller.identity, id)).document);
    const workflow = checkPreviewSize(parseWorkflow(body, id));
    if (workflow.id !== id)
      throw fault("E.REQUEST.INVALID", `workflow.id must be ${id}, as in the address`, { path: "workflow.id" });
    const options = { allowUnknown: readAllowUnknown(body) };
    const problems = await findProblems(this.#store.context.catalogues, caller.identity.tenant, workflow, options);
    throwOnErrors(problems);
    const { document } = await this.#store.update(caller, id, {
      action: "workflow.update",
      ask: null,
      decide: (now) => {
        checkRevision(now);
        return { document: replaceDraft(now, caller, this.#store.now(), workflow, null) };
      },
    });
    return { document, ...warningsField(problems) };
  }

  async delete(caller: Caller, id: string, checkRevision: RevisionCheck): Promise<void> {
    await this.#store.update(caller, id, {
      action: "workflow.delete",
      ask: null,
      decide: (now) => {
        checkRevision(now);
        return { document: { ...now, deletedAt: this.#store.now() } };
      },
    });
  }

  async setPreview(caller: Caller, id: string, preview: string | null): Promise<void> {
    const decide = (now: WorkflowDocument) => ({ document: { ...now, preview } });
    await this.#store.update(caller, id, { action: "workflow.preview", ask: null, decide });
  }

  /** Applies edits that were made on revision `base`, on top of what others saved since. */
  async edit(caller: Caller, id: string, request: { readonly base: number; readonly edits: readonly JsonValue[] }) {
    const edits = parseEdits(request.edits);
    let between: readonly DraftRevision[] = [];
    const { document } = await this.#store.update(caller, id, {
      action: "workflow.update",
      ask: null,
      decide: (now) => {
        const rebased = rebaseEdits(now, request.base, edits);
        between = rebased.between;
        const next = { workflow: rebased.workflow, edits, ask: null };
        return { document: nextWorkflowRevision(now, caller, this.#store.now(), next), data: { edits: edits.length } };
      },
    });
    return { document, between };
  }

  /** Compares two of: the draft, and versions by number. By default the newest version with the draft. */
  async diff(caller: Caller, id: string, sides: { readonly from?: string | undefined; readonly to?: string | undefined }) {
    const { document, asOf } = await this.#store.find(caller.identity, id);
    const readSide = async (name: "from" | "to", fallback: string): Promise<{ name: string; workflow: Workflow }> => {
      const version = sides[name] ?? fallback;
      if (version === "draft") return { name: version, workflow: document.workflow };
      if (!/^[1-9][0-9]{0,8}$/.test(version))
        throw fault("E.REQUEST.INVALID", `query.${name} must be a version's number or draft`, { path: `query.${name}` });
      const found = await this.#versions.get(caller.identity.tenant, document.id, Number(version));
      return { name: version, workflow: found.version.workflow };
    };
    const newest = document.version === 0 ? "draft" : String(document.version);
    const [from, to] = await Promise.all([readSide("from", newest), readSide("to", "draft")]);
    const { edits, summary } = diffWorkflows(from.workflow, to.workflow);
    return { workflowId: document.id, from: from.name, to: to.name, edits, summary, asOf };
  }

  /** Makes the draft equal to a version again. */
  async rollBack(caller: Caller, id: string, number: number, ask: WorkflowIdempotencyKey | null): Promise<WrittenWorkflow> {
    const { document: found } = await this.#store.find(caller.identity, id);
    const before = revisionMadeBy(found, ask);
    if (before !== null) return { workflowId: id, revision: before, repeated: true };
    const { workflow } = (await this.#versions.get(caller.identity.tenant, id, number)).version;
    const { document, repeated } = await this.#store.update(caller, id, {
      action: "workflow.rollback",
      ask,
      decide: (now) => {
        const edits = editsBetween(now.workflow, workflow);
        const next = nextWorkflowRevision(now, caller, this.#store.now(), { workflow, edits, ask });
        const rolledBack = number === next.version ? { ...next, publishedRevision: next.revision } : next;
        return { document: rolledBack, data: { version: number } };
      },
    });
    if (!repeated) return { workflowId: id, revision: document.revision, repeated };
    const written = (await this.#store.find(caller.identity, id)).document;
    return { workflowId: id, revision: revisionMadeBy(written, ask), repeated };
  }
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

/** More than this is not worth keeping as edits; whoever was working on the draft meanwhile reads it again. */
const editsKeptMax = 2_000;

function parseEdits(value: readonly JsonValue[]): readonly WorkflowEdit[] {
  const edits = readEdits(value);
  if (typeof edits === "string") throw fault("E.REQUEST.INVALID", `body.${edits}`, { path: "body.edits" });
  return edits;
}

/** What leads from one workflow to another; null where it is too much to be kept. */
function editsBetween(from: Workflow, to: Workflow): readonly WorkflowEdit[] | null {
  const { edits } = diffWorkflows(from, to);
  return edits.length <= editsKeptMax ? edits : null;
}

/** The draft after edits that were made on an older revision of it, with what others saved since; throws where they do not go together. */
function rebaseEdits(document: WorkflowDocument, base: number, mine: readonly WorkflowEdit[]) {
  const between = changesSince(document, base, mine);
  const edited = applyEdits(document.workflow, mine);
  if (typeof edited === "string") {
    if (between.length > 0) throw draftConflict(document, base, between, [], `, and ${edited}`);
    throw fault("E.REQUEST.INVALID", `body.edits cannot be made: ${edited}`, { path: "body.edits" });
  }
  const workflow = readWorkflow({ ...edited, id: document.id });
  if (workflow instanceof Fault) throw workflow;
  return { workflow: checkPreviewSize(workflow), between };
}

function changesSince(document: WorkflowDocument, base: number, mine: readonly WorkflowEdit[]): readonly DraftRevision[] {
  const { id, revision: head, recent } = document;
  if (base > head) {
    const why = `workflow ${id} has no revision ${base} yet: it is at revision ${head}`;
    throw fault("E.NOT_FOUND", why, { path: "body.base", head });
  }
  const between = recent.filter((change) => change.revision > base);
  const isKnown = between.length === head - base && between.every((change) => change.edits !== null);
  if (!isKnown) {
    const why = ", and what changed since is too much to be compared; read the draft again";
    const all = mine.map((_, edit) => ({ edit }));
    throw draftConflict(document, base, between, all, why);
  }
  // Each of theirs with the revision it came by, in one list.
  const theirs = between.flatMap(({ revision, edits }) => (edits ?? []).map((edit, index) => ({ revision, index, edit })));
  const theirEdits = theirs.map(({ edit }) => edit);
  const clashes = findEditConflicts(mine, theirEdits);
  if (clashes.length === 0) return between;
  const named = clashes.map(({ mine: edit, theirs: other, field }) => {
    const { revision, index } = theirs[other] ?? {};
    return { edit, field, with: { revision, edit: index } };
  });
  throw draftConflict(document, base, between, named, `, and ${clashes[0]?.field} was changed by others since`);
}

function draftConflict(
  document: WorkflowDocument,
  base: number,
  between: readonly DraftRevision[],
  conflicts: readonly object[],
  why: string,
): Fault {
  const details = { head: document.revision, base, edits: between.map(presentDraftChange), conflicts };
  return fault("E.DRAFT.CONFLICT", `workflow ${document.id} is at revision ${document.revision}, not ${base}${why}`, details);
}
