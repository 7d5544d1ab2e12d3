// Workflows as they are kept: one document each, with the draft, its last changes and what is known besides. Found, changed and listed
// here; what a route answers is in the files of the routes.

import { type DocPut, type DocRow, type IdempotencyKey, type StoreReader, searchWords } from "@astraflow/engine";
import { canonicalJson, type WorkflowEdit } from "@astraflow/graph";
import { Fault, fault, type Workflow } from "@astraflow/protocol";
import {
  type CallerIdentity,
  type CatalogueCache,
  type DocumentPage,
  type EngineClient,
  isUuid,
  listDocuments,
  searchTermFor,
  sortKeyOf,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { type RestCall, readIdempotencyKey } from "../requests/rest-call.ts";

export interface WorkflowStoreOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  readonly environment: DoorEnvironment;
  readonly catalogues: CatalogueCache;
}

/** The body of a workflow's document. */
export interface WorkflowDocument {
  readonly id: string;
  readonly owner: string;
  /** What people call the owner, as it was then. */
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
  /** The revision that is that version, word for word; 0 where none is. */
  readonly publishedRevision: number;
  readonly preview: string | null;
  /** The last changes of the draft, oldest first, without gaps. */
  readonly recent: readonly DraftRevision[];
  /** Without what is written above: owner, picture. */
  readonly workflow: Workflow;
}

export interface DraftRevision {
  readonly revision: number;
  readonly by: string;
  readonly at: number;
  /** Null: too many to be kept. */
  readonly edits: readonly WorkflowEdit[] | null;
  /** Word of the key and request that made it. */
  readonly ask?: string;
}

export interface FoundWorkflow {
  readonly head: WorkflowDocument;
  readonly rev: number;
  readonly asOf: number;
}

/** What a change makes of a head. */
export interface WorkflowWrite {
  readonly head: WorkflowDocument;
  /** Written together with the head or not at all. */
  readonly puts?: readonly DocPut[];
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface WorkflowUpdate {
  readonly action: string;
  readonly ask: WorkflowIdempotencyKey | null;
  /** Asked again with the newer head where somebody was faster; refuses by throwing. */
  readonly decide: (document: WorkflowDocument) => WorkflowWrite;
}

/** An idempotency key with its request, and the word by which what it made is found again. */
export interface WorkflowIdempotencyKey extends IdempotencyKey {
  readonly searchTerm: string;
}

export const workflowLimits = {
  changesMax: 200,
  changesCharsMax: 256 * 1024,
  termsMax: 96,
  /** Changes that may come in between before the caller is told. */
  attemptsMax: 8,
} as const;

const workflowCollection = "workflow";
export const defaultNamespace = "default";

/** One sentence for every id that the caller may not see. */
const workflowNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no workflow ${id.slice(0, 100)}`);

/** How a person is called; a token has no other name than its own. */
export const displayNameOf = ({ person, user }: CallerIdentity): string => person?.displayName ?? user;
export const mayAccessAll = (identity: CallerIdentity): boolean => identity.grants.includes("admin");
const ownsWorkflow = (identity: CallerIdentity, document: WorkflowDocument): boolean =>
  mayAccessAll(identity) || document.owner === identity.user;

const parseWorkflowDocument = (doc: DocRow): WorkflowDocument => JSON.parse(doc.body) as WorkflowDocument;

export type WorkflowStore = ReturnType<typeof createWorkflowStore>;

export function createWorkflowStore({ engineClient, reader, environment }: WorkflowStoreOptions) {
  /** Whoever's it is, deleted or not. */
  const look = async (tenant: string, id: string): Promise<{ head: WorkflowDocument | null; rev: number; asOf: number }> => {
    if (!isUuid(id)) return { head: null, rev: 0, asOf: 0 };
    const { items, head: asOf } = await reader.page({ page: "doc", tenant, collection: workflowCollection, names: [id] });
    const doc = items[0] ?? null;
    return { head: doc === null ? null : parseWorkflowDocument(doc), rev: doc?.rev ?? 0, asOf };
  };

  const find = async (identity: CallerIdentity, id: string): Promise<FoundWorkflow> => {
    const { head: document, rev, asOf } = await look(identity.tenant, id);
    if (document === null || document.deletedAt !== null || !ownsWorkflow(identity, document)) throw workflowNotFound(id);
    return { head: document, rev, asOf };
  };

  /** Writes a head and what belongs to it. Rejects with E.CONFLICT where its document is not at this revision. */
  const write = async (
    call: RestCall,
    rev: number,
    step: WorkflowWrite,
    { action, ask: idempotencyKey }: { readonly action: string; readonly ask: WorkflowIdempotencyKey | null },
  ): Promise<{ readonly repeated: boolean }> => {
    const { tenant, user } = call.identity;
    const { head: document } = step;
    const answer = await engineClient.request({
      type: "docs.write",
      tenant,
      by: user,
      corr: call.requestId,
      puts: [workflowPut(document, rev), ...(step.puts ?? [])],
      audit: { action, targetType: "workflow", target: document.id, data: { revision: document.revision, ...step.data } },
      ask: idempotencyKey === null ? null : { key: idempotencyKey.key, digest: idempotencyKey.digest },
    });
    if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
    return { repeated: answer.repeated };
  };

  /** Reads, decides and writes, again from the start where another was faster. */
  const change = async (
    call: RestCall,
    id: string,
    update: WorkflowUpdate,
  ): Promise<{ head: WorkflowDocument; repeated: boolean }> => {
    for (let attempts = 1; ; attempts += 1) {
      const { head: document, rev } = await find(call.identity, id);
      const step = update.decide(document);
      try {
        const { repeated } = await write(call, rev, step, update);
        return { head: step.head, repeated };
      } catch (problem) {
        if (!isConflict(problem) || attempts >= workflowLimits.attemptsMax) throw problem;
      }
    }
  };

  const list = (
    identity: CallerIdentity,
    page: { limit: number; cursor: string | undefined; search: string },
  ): Promise<DocumentPage<WorkflowDocument>> => {
    const own = mayAccessAll(identity) ? "" : `${ownerSearchTerm(identity.user)} `;
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
      // Deleted ones stand behind all others.
      isEnd: (doc) => doc.sort === "",
    });
  };

  return { look, find, write, change, list, now: () => environment.clock.now() };
}

export const isConflict = (problem: unknown): problem is Fault => problem instanceof Fault && problem.code === "E.CONFLICT";
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

/** The key of a request and its digest, with all that makes it this request and no other; null without a key. */
export function workflowIdempotencyKeyOf(
  call: RestCall,
  digest: (text: string) => string,
  request: unknown,
): WorkflowIdempotencyKey | null {
  const key = readIdempotencyKey(call);
  if (key === null) return null;
  const sum = digest(canonicalJson([call.identity.user, request]));
  return { key, digest: sum, searchTerm: searchTermFor("ask", `${call.identity.tenant} ${key} ${sum}`) };
}

/** The revision that an earlier request under this key has made, as far as changes are remembered. */
export function revisionMadeBy(document: WorkflowDocument | null, idempotencyKey: WorkflowIdempotencyKey | null): number | null {
  const made = idempotencyKey === null ? undefined : document?.recent.find((change) => change.ask === idempotencyKey.searchTerm);
  return made?.revision ?? null;
}

/** A head that was never there before. */
export function newWorkflowDocument(
  call: RestCall,
  now: number,
  workflow: Workflow,
  idempotencyKey: WorkflowIdempotencyKey | null,
): WorkflowDocument {
  const { user } = call.identity;
  return {
    id: workflow.id,
    owner: user,
    ownerName: displayNameOf(call.identity),
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
  call: RestCall,
  now: number,
  next: {
    readonly workflow: Workflow;
    readonly edits: readonly WorkflowEdit[] | null;
    readonly ask: WorkflowIdempotencyKey | null;
  },
): WorkflowDocument {
  const { user: by } = call.identity;
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

/** As many of the newest as fit. One that is too large by itself is kept as a change that nobody knows. */
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

/** What stands beside the draft is not part of it: two that differ only there are the same workflow. */
export function withoutServerFields(workflow: Workflow): Workflow {
  const { previewImage: _preview, metadata, ...rest } = workflow;
  const { ownerId: _owner, ownerName: _ownerName, createdBy: _createdBy, updatedBy: _updatedBy, ...authored } = metadata;
  const { namespace, originId, ...words } = authored;
  return {
    ...rest,
    metadata: {
      ...words,
      // What is shown where an author said nothing says nothing when it comes back.
      ...(namespace !== undefined && namespace !== defaultNamespace && { namespace }),
      ...(originId !== undefined && originId !== workflow.id && { originId }),
    },
  };
}
