// Changes of drafts: saved as a whole, replaced, edited, rolled back to a version, deleted; and comparisons between them.

import { diffWorkflows } from "@astraflow/graph";
import { type Fault, fault, type JsonValue, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { uuidFromText } from "../documents/derived-names.ts";
import { retryOnConflict } from "../documents/documents.ts";
import { owns } from "../documents/owned-documents.ts";
import type { Caller } from "../identity/caller.ts";
import { editsBetween, parseEdits, rebaseEdits } from "./draft-edits.ts";
import { checkPreviewSize, findProblems, parseWorkflow, readAllowUnknown, throwOnErrors } from "./workflow-checks.ts";
import {
  type DraftRevision,
  newWorkflowDocument,
  nextWorkflowRevision,
  revisionMadeBy,
  type WorkflowContext,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WrittenWorkflow,
  withoutServerFields,
  workflowLimits,
} from "./workflow-store.ts";
import type { WorkflowVersions } from "./workflow-versions.ts";

/** Refuses by throwing if the draft is not at the revision that the caller has seen. */
export type RevisionCheck = (document: WorkflowDocument) => void;

export class WorkflowDrafts {
  readonly #context: WorkflowContext;
  readonly #store: WorkflowStore;
  readonly #versions: WorkflowVersions;

  constructor(context: WorkflowContext, store: WorkflowStore, versions: WorkflowVersions) {
    this.#context = context;
    this.#store = store;
    this.#versions = versions;
  }

  /** Problems are reported and never refused: a draft may be unfinished. */
  findProblems(tenant: string, { workflow }: WorkflowDocument): Promise<readonly WorkflowProblem[]> {
    return findProblems(this.#context.catalogues, tenant, workflow);
  }

  /** Creates or replaces a workflow, or restores a deleted one; its owner stays the same. */
  async save(caller: Caller, body: JsonValue, ask: WorkflowIdempotencyKey | null): Promise<WrittenWorkflow> {
    const { catalogues, environment } = this.#context;
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
      return { workflowId, revision: repeated ? revisionMadeBy(written, ask) : next.revision, repeated };
    });
  }

  async replace(caller: Caller, id: string, body: JsonValue, checkRevision: RevisionCheck): Promise<WorkflowDocument> {
    checkRevision((await this.#store.find(caller.identity, id)).document);
    const workflow = checkPreviewSize(parseWorkflow(body, id));
    if (workflow.id !== id)
      throw fault("E.REQUEST.INVALID", `workflow.id must be ${id}, as in the address`, { path: "workflow.id" });
    const options = { allowUnknown: readAllowUnknown(body) };
    throwOnErrors(await findProblems(this.#context.catalogues, caller.identity.tenant, workflow, options));
    const { document } = await this.#store.update(caller, id, {
      action: "workflow.update",
      ask: null,
      decide: (now) => {
        checkRevision(now);
        return { document: replaceDraft(now, caller, this.#store.now(), workflow, null) };
      },
    });
    return document;
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
