// Stored workflows: one document each, with the draft, its last changes, its owner and its newest version.

import type { DocPut, IdempotencyKey } from "@astraflow/engine";
import type { WorkflowEdit } from "@astraflow/graph";
import { type Fault, fault, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import type { CatalogueCache } from "../catalogue/catalogue.ts";
import { notFound, retryOnConflict } from "../documents/documents.ts";
import { displayNameOf, OwnedDocumentStore, ownerSearchTerm, owns } from "../documents/owned-documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { type Caller, type CallerIdentity, isAdmin } from "../identity/identity.ts";
import { isError, throwOnErrors } from "./workflow-checks.ts";

export interface WorkflowContext extends ServiceContext {
  readonly catalogues: CatalogueCache;
}

/** The body of a workflow's document. */
export interface WorkflowDocument {
  readonly id: string;
  readonly owner: string;
  /** Display name of the owner when it was saved. */
  readonly ownerName: string;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly updatedAt: number;
  readonly updatedBy: string;
  readonly deletedAt: number | null;
  /** Of the draft, from 1; raised by every change of it. */
  readonly revision: number;
  /** Number of the newest published version; 0 before the first. */
  readonly version: number;
  /** The revision that was published as that version; 0 if none. */
  readonly publishedRevision: number;
  readonly preview: string | null;
  /** The last changes of the draft, oldest first, without gaps. */
  readonly recent: readonly DraftRevision[];
  /** Without the fields above: owner, preview. */
  readonly workflow: Workflow;
}

export interface DraftRevision {
  readonly revision: number;
  readonly by: string;
  readonly at: number;
  /** Null: too many to store. */
  readonly edits: readonly WorkflowEdit[] | null;
  /** Search term of the idempotency key and request that made it. */
  readonly ask?: string;
}

/** A workflow that was written. Revision null: an equal request wrote it, and its revision is no longer stored. */
export interface WrittenWorkflow {
  readonly workflowId: string;
  readonly revision: number | null;
  readonly repeated: boolean;
  /** Warnings, where there are any. */
  readonly problems?: readonly WorkflowProblem[];
}

/** What a change writes. */
interface WorkflowWrite {
  readonly document: WorkflowDocument;
  /** Written together with the workflow or not at all. */
  readonly puts?: readonly DocPut[];
  readonly data?: Readonly<Record<string, unknown>>;
}

/** The name of a change, and the key that makes it once. */
interface WorkflowAction {
  readonly action: string;
  readonly ask: WorkflowIdempotencyKey | null;
}

interface WorkflowUpdate extends WorkflowAction {
  /** Called again with the newer document if another writer was faster; throws to refuse. */
  readonly decide: (document: WorkflowDocument) => WorkflowWrite;
}

/** An idempotency key with the digest of its request, and the search term that finds what it made. */
export interface WorkflowIdempotencyKey extends IdempotencyKey {
  readonly searchTerm: string;
}

export const workflowLimits = {
  changesMax: 200,
  changesCharsMax: 256 * 1024,
  /** How often a write is tried when others change the workflow meanwhile. */
  attemptsMax: 8,
} as const;

export const defaultNamespace = "default";

export const staleRevisionFault = ({ id, revision }: WorkflowDocument): Fault =>
  fault("E.ETAG.STALE", `workflow ${id} is at revision ${revision} by now; read it again`, { revision });

export class WorkflowStore extends OwnedDocumentStore<WorkflowDocument, WorkflowContext> {
  constructor(context: WorkflowContext) {
    super(context, "workflow");
  }

  async find(identity: CallerIdentity, id: string) {
    const { document, rev, asOf } = await this.readAny(identity.tenant, id);
    if (document === null || document.deletedAt !== null || !owns(identity, document)) throw notFound("workflow", id);
    return { document, rev, asOf };
  }

  list(identity: CallerIdentity, page: { limit: number; cursor: string | undefined; search: string }) {
    const own = isAdmin(identity) ? "" : `${ownerSearchTerm(identity.user)} `;
    const query = { ...page, search: `${own}${page.search}` };
    return this.listVisible(identity.tenant, query, (one) => one.deletedAt === null && owns(identity, one));
  }

  /** Writes a workflow and what belongs to it. Rejects with E.CONFLICT if the document is not at this revision. */
  write(caller: Caller, rev: number, { document, puts = [], data }: WorkflowWrite, { action, ask }: WorkflowAction) {
    const { id, owner, ownerName, workflow, revision } = document;
    const { name, description = "", tags = [] } = workflow.metadata;
    const texts = [name, ...tags, ...(workflow.tags ?? []), owner, ownerName, id, description];
    return this.writeAs(caller, ask, {
      puts: [this.putOf(document, rev, [], texts), ...puts],
      audit: { action, targetType: "workflow", target: id, data: { revision, ...data } },
    });
  }

  /** Writes a new workflow, unless it has errors. What was written before with this key had none by the catalogue of then. */
  async create(
    caller: Caller,
    write: WorkflowWrite,
    problems: readonly WorkflowProblem[],
    action: WorkflowAction,
  ): Promise<WrittenWorkflow> {
    const { id: workflowId, revision } = write.document;
    const existing = problems.some(isError) ? (await this.readAny(caller.identity.tenant, workflowId)).document : null;
    const before = revisionMadeBy(existing, action.ask);
    if (before !== null) return { workflowId, revision: before, repeated: true };
    throwOnErrors(problems);
    const { repeated } = await this.write(caller, 0, write, action);
    return { workflowId, revision, repeated };
  }

  /** Reads, decides and writes, from the start again if another writer was faster. */
  update(caller: Caller, id: string, change: WorkflowUpdate): Promise<{ document: WorkflowDocument; repeated: boolean }> {
    return retryOnConflict(workflowLimits.attemptsMax, async () => {
      const { document, rev } = await this.find(caller.identity, id);
      const step = change.decide(document);
      const { repeated } = await this.write(caller, rev, step, change);
      return { document: step.document, repeated };
    });
  }
}

/** The revision that an earlier request with this key made, if that change is still stored. */
export function revisionMadeBy(document: WorkflowDocument | null, idempotencyKey: WorkflowIdempotencyKey | null): number | null {
  const made = idempotencyKey === null ? undefined : document?.recent.find((change) => change.ask === idempotencyKey.searchTerm);
  return made?.revision ?? null;
}

/** A new workflow of the caller's. */
export function newWorkflowDocument(
  { identity }: Caller,
  now: number,
  workflow: Workflow,
  ask: WorkflowIdempotencyKey | null,
): WorkflowDocument {
  const { user } = identity;
  return {
    id: workflow.id,
    owner: user,
    ownerName: displayNameOf(identity),
    createdAt: now,
    createdBy: user,
    updatedAt: now,
    updatedBy: user,
    deletedAt: null,
    revision: 1,
    version: 0,
    publishedRevision: 0,
    preview: workflow.previewImage ?? null,
    recent: [{ revision: 1, by: user, at: now, edits: null, ...(ask !== null && { ask: ask.searchTerm }) }],
    workflow: withoutServerFields(workflow),
  };
}

interface DraftChangeRequest {
  readonly workflow: Workflow;
  readonly edits: readonly WorkflowEdit[] | null;
  readonly ask: WorkflowIdempotencyKey | null;
}

/** The next revision of a draft. */
export function nextWorkflowRevision(
  document: WorkflowDocument,
  { identity: { user: by } }: Caller,
  now: number,
  { workflow, edits, ask }: DraftChangeRequest,
): WorkflowDocument {
  const revision = document.revision + 1;
  const change: DraftRevision = { revision, by, at: now, edits, ...(ask !== null && { ask: ask.searchTerm }) };
  return {
    ...document,
    deletedAt: null,
    updatedAt: now,
    updatedBy: by,
    revision,
    preview: workflow.previewImage ?? document.preview,
    recent: trimRevisions([...document.recent, change]),
    workflow: withoutServerFields(workflow),
  };
}

/** As many of the newest as fit. A change that is too large by itself is stored without its edits. */
function trimRevisions(changes: readonly DraftRevision[]): DraftRevision[] {
  const kept: DraftRevision[] = [];
  let chars = 0;
  for (const change of changes.slice(-workflowLimits.changesMax).toReversed()) {
    chars += JSON.stringify(change).length;
    if (chars > workflowLimits.changesCharsMax && kept.length > 0) break;
    kept.push(chars > workflowLimits.changesCharsMax ? { ...change, edits: null } : change);
  }
  return kept.reverse();
}

/** Fields that the server fills in are not part of the draft: workflows that differ only there are equal. */
export function withoutServerFields(workflow: Workflow): Workflow {
  const { previewImage: _preview, metadata, ...rest } = workflow;
  const { ownerId: _owner, ownerName: _ownerName, createdBy: _createdBy, updatedBy: _updatedBy, ...authored } = metadata;
  const { namespace, originId, ...words } = authored;
  return {
    ...rest,
    metadata: {
      ...words,
      // Drop defaults that the API filled in when it showed the workflow.
      ...(namespace !== undefined && namespace !== defaultNamespace && { namespace }),
      ...(originId !== undefined && originId !== workflow.id && { originId }),
    },
  };
}
