// Stored workflows: one document each, with the draft, its last changes, its owner and its newest version.

import { type DocPut, type DocRow, type IdempotencyKey, type StoreReader, searchWords } from "@astraflow/engine";
import type { WorkflowEdit } from "@astraflow/graph";
import { type Fault, fault, type Workflow } from "@astraflow/protocol";
import type { CatalogueCache } from "../catalogue/catalogue.ts";
import { isUuid, searchTermFor, sortKeyOf } from "../documents/derived-names.ts";
import { listDocuments } from "../documents/document-list.ts";
import { readDocument, retryOnConflict, writeDocuments } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { actorOf, type Caller, isAdmin, isOwnerOrAdmin } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";

export interface WorkflowStoreOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  readonly environment: ServiceEnvironment;
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

export interface FoundWorkflow {
  readonly document: WorkflowDocument;
  readonly rev: number;
  readonly asOf: number;
}

/** What a change writes. */
export interface WorkflowWrite {
  readonly document: WorkflowDocument;
  /** Written together with the workflow or not at all. */
  readonly puts?: readonly DocPut[];
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface WorkflowUpdate {
  readonly action: string;
  readonly ask: WorkflowIdempotencyKey | null;
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
  termsMax: 96,
  /** How often a write is tried when others change the workflow meanwhile. */
  attemptsMax: 8,
} as const;

const workflowCollection = "workflow";
export const defaultNamespace = "default";

/** The same message for every id that the caller may not see. */
const workflowNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no workflow ${id.slice(0, 100)}`);

export const staleRevisionFault = ({ id, revision }: WorkflowDocument): Fault =>
  fault("E.ETAG.STALE", `workflow ${id} is at revision ${revision} by now; read it again`, { revision });

/** Display name of a user; a token only has its own name. */
export const displayNameOf = ({ person, user }: CallerIdentity): string => person?.displayName ?? user;
const ownsWorkflow = (identity: CallerIdentity, { owner }: WorkflowDocument): boolean => isOwnerOrAdmin(identity, owner);

const parseWorkflowDocument = (doc: DocRow): WorkflowDocument => JSON.parse(doc.body) as WorkflowDocument;

export type WorkflowStore = ReturnType<typeof createWorkflowStore>;

export function createWorkflowStore({ engineClient, reader, environment }: WorkflowStoreOptions) {
  /** Whoever owns it, deleted or not. */
  const readAny = async (
    tenant: string,
    id: string,
  ): Promise<{ document: WorkflowDocument | null; rev: number; asOf: number }> => {
    if (!isUuid(id)) return { document: null, rev: 0, asOf: 0 };
    const { doc, head: asOf } = await readDocument(reader, tenant, workflowCollection, id);
    return { document: doc === null ? null : parseWorkflowDocument(doc), rev: doc?.rev ?? 0, asOf };
  };

  const find = async (identity: CallerIdentity, id: string): Promise<FoundWorkflow> => {
    const { document, rev, asOf } = await readAny(identity.tenant, id);
    if (document === null || document.deletedAt !== null || !ownsWorkflow(identity, document)) throw workflowNotFound(id);
    return { document, rev, asOf };
  };

  /** Writes a workflow and what belongs to it. Rejects with E.CONFLICT if the document is not at this revision. */
  const write = (
    caller: Caller,
    rev: number,
    { document, puts = [], data }: WorkflowWrite,
    { action, ask }: { readonly action: string; readonly ask: WorkflowIdempotencyKey | null },
  ): Promise<{ readonly repeated: boolean }> =>
    writeDocuments(engineClient, actorOf(caller), {
      puts: [workflowPut(document, rev), ...puts],
      audit: { action, targetType: "workflow", target: document.id, data: { revision: document.revision, ...data } },
      ask: ask === null ? null : { key: ask.key, digest: ask.digest },
    });

  /** Reads, decides and writes, from the start again if another writer was faster. */
  const update = (
    caller: Caller,
    id: string,
    change: WorkflowUpdate,
  ): Promise<{ document: WorkflowDocument; repeated: boolean }> =>
    retryOnConflict(workflowLimits.attemptsMax, async () => {
      const { document, rev } = await find(caller.identity, id);
      const step = change.decide(document);
      const { repeated } = await write(caller, rev, step, change);
      return { document: step.document, repeated };
    });

  const list = (identity: CallerIdentity, page: { limit: number; cursor: string | undefined; search: string }) => {
    const own = isAdmin(identity) ? "" : `${ownerSearchTerm(identity.user)} `;
    const query = {
      tenant: identity.tenant,
      collection: workflowCollection,
      order: "desc",
      search: `${own}${page.search}`,
    } as const;
    return listDocuments(reader, query, {
      ...page,
      view(doc) {
        const document = parseWorkflowDocument(doc);
        return document.deletedAt === null && ownsWorkflow(identity, document) ? document : null;
      },
      // Deleted workflows sort behind all others.
      isEnd: (doc) => doc.sort === "",
    });
  };

  return { readAny, find, write, update, list, now: () => environment.clock.now() };
}

const ownerSearchTerm = (owner: string): string => searchTermFor("owner", owner);

function workflowPut(document: WorkflowDocument, rev: number): DocPut {
  const { name, description = "", tags = [] } = document.workflow.metadata;
  const texts = [name, ...tags, ...(document.workflow.tags ?? []), document.owner, document.ownerName, document.id, description];
  const words = new Set([ownerSearchTerm(document.owner), ...texts.flatMap(searchWords)]);
  const isActive = document.deletedAt === null;
  return {
    collection: workflowCollection,
    name: document.id,
    rev,
    body: JSON.stringify(document),
    sort: isActive ? sortKeyOf(document.updatedAt) : "",
    terms: isActive ? [...words].slice(0, workflowLimits.termsMax).join(" ") : "",
  };
}

/** The revision that an earlier request with this key made, if that change is still stored. */
export function revisionMadeBy(document: WorkflowDocument | null, idempotencyKey: WorkflowIdempotencyKey | null): number | null {
  const made = idempotencyKey === null ? undefined : document?.recent.find((change) => change.ask === idempotencyKey.searchTerm);
  return made?.revision ?? null;
}

/** A new workflow. */
export function newWorkflowDocument(
  caller: Caller,
  now: number,
  workflow: Workflow,
  idempotencyKey: WorkflowIdempotencyKey | null,
): WorkflowDocument {
  const { user } = caller.identity;
  return {
    id: workflow.id,
    owner: user,
    ownerName: displayNameOf(caller.identity),
    createdAt: now,
    createdBy: user,
    updatedAt: now,
    updatedBy: user,
    deletedAt: null,
    revision: 1,
    version: 0,
    publishedRevision: 0,
    preview: workflow.previewImage ?? null,
    recent: [{ revision: 1, by: user, at: now, edits: null, ...(idempotencyKey !== null && { ask: idempotencyKey.searchTerm }) }],
    workflow: withoutServerFields(workflow),
  };
}

/** The next revision of a draft. */
export function nextWorkflowRevision(
  document: WorkflowDocument,
  caller: Caller,
  now: number,
  next: {
    readonly workflow: Workflow;
    readonly edits: readonly WorkflowEdit[] | null;
    readonly ask: WorkflowIdempotencyKey | null;
  },
): WorkflowDocument {
  const { user: by } = caller.identity;
  const { workflow, ask: idempotencyKey } = next;
  const revision = document.revision + 1;
  const change: DraftRevision = {
    revision,
    by,
    at: now,
    edits: next.edits,
    ...(idempotencyKey !== null && { ask: idempotencyKey.searchTerm }),
  };
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
