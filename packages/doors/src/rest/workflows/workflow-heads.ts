// Workflows as they are kept: one document each, with the draft, its last changes and what is known besides. Found, changed and listed
// here; what a route answers is in the files of the routes.

import { type Ask, type DocPut, type DocRow, type Reader, wordsOf } from "@astraflow/engine";
import { canonicalJson, type WorkflowEdit } from "@astraflow/graph";
import { Fault, fault, type Workflow } from "@astraflow/protocol";
import type { Catalogues } from "../../catalogue.ts";
import type { CallerIdentity } from "../../identity.ts";
import type { EngineClient } from "../../link.ts";
import type { DoorEnvironment } from "../../outside.ts";
import { type Call, readIdempotencyKey } from "../call.ts";
import { type Listed, listDocs } from "./workflow-list.ts";
import { isUuid, sortOf, wordFor } from "./workflow-names.ts";

export interface WorkflowsOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  readonly environment: DoorEnvironment;
  readonly catalogues: Catalogues;
}

/** The body of a workflow's document. */
export interface Head {
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
  readonly recent: readonly Change[];
  /** Without what is written above: owner, picture. */
  readonly workflow: Workflow;
}

export interface Change {
  readonly revision: number;
  readonly by: string;
  readonly at: number;
  /** Null: too many to be kept. */
  readonly edits: readonly WorkflowEdit[] | null;
  /** Word of the key and request that made it. */
  readonly ask?: string;
}

export interface Found {
  readonly head: Head;
  readonly rev: number;
  readonly asOf: number;
}

/** What a change makes of a head. */
export interface Step {
  readonly head: Head;
  /** Written together with the head or not at all. */
  readonly puts?: readonly DocPut[];
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface Order {
  readonly action: string;
  readonly ask: AskWords | null;
  /** Asked again with the newer head where somebody was faster; refuses by throwing. */
  readonly decide: (head: Head) => Step;
}

/** An idempotency key with its request, and the word by which what it made is found again. */
export interface AskWords extends Ask {
  readonly word: string;
}

export const headLimits = {
  changesMax: 200,
  changesCharsMax: 256 * 1024,
  termsMax: 96,
  /** Changes that may come in between before the caller is told. */
  triesMax: 8,
} as const;

const headCollection = "workflow";
export const namespaceDefault = "default";

/** One sentence for every id that the caller may not see. */
const missingWorkflow = (id: string): Fault => fault("E.NOT_FOUND", `there is no workflow ${id.slice(0, 100)}`);

/** How a person is called; a token has no other name than its own. */
export const nameOf = ({ person, user }: CallerIdentity): string => person?.displayName ?? user;
export const mayAll = (identity: CallerIdentity): boolean => identity.grants.includes("admin");
const isOwn = (identity: CallerIdentity, head: Head): boolean => mayAll(identity) || head.owner === identity.user;

const headIn = (doc: DocRow): Head => JSON.parse(doc.body) as Head;

export type Heads = ReturnType<typeof createHeads>;

export function createHeads({ engineClient, reader, environment }: WorkflowsOptions) {
  /** Whoever's it is, deleted or not. */
  const look = async (tenant: string, id: string): Promise<{ head: Head | null; rev: number; asOf: number }> => {
    if (!isUuid(id)) return { head: null, rev: 0, asOf: 0 };
    const { items, head: asOf } = await reader.page({ page: "doc", tenant, collection: headCollection, names: [id] });
    const doc = items[0] ?? null;
    return { head: doc === null ? null : headIn(doc), rev: doc?.rev ?? 0, asOf };
  };

  const find = async (identity: CallerIdentity, id: string): Promise<Found> => {
    const { head, rev, asOf } = await look(identity.tenant, id);
    if (head === null || head.deletedAt !== null || !isOwn(identity, head)) throw missingWorkflow(id);
    return { head, rev, asOf };
  };

  /** Writes a head and what belongs to it. Rejects with E.CONFLICT where its document is not at this revision. */
  const write = async (
    call: Call,
    rev: number,
    step: Step,
    { action, ask }: { readonly action: string; readonly ask: AskWords | null },
  ): Promise<{ readonly repeated: boolean }> => {
    const { tenant, user } = call.identity;
    const { head } = step;
    const answer = await engineClient.request({
      type: "docs.write",
      tenant,
      by: user,
      corr: call.requestId,
      puts: [putOf(head, rev), ...(step.puts ?? [])],
      audit: { action, targetType: "workflow", target: head.id, data: { revision: head.revision, ...step.data } },
      ask: ask === null ? null : { key: ask.key, digest: ask.digest },
    });
    if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
    return { repeated: answer.repeated };
  };

  /** Reads, decides and writes, again from the start where another was faster. */
  const change = async (call: Call, id: string, order: Order): Promise<{ head: Head; repeated: boolean }> => {
    for (let tries = 1; ; tries += 1) {
      const { head, rev } = await find(call.identity, id);
      const step = order.decide(head);
      try {
        const { repeated } = await write(call, rev, step, order);
        return { head: step.head, repeated };
      } catch (problem) {
        if (!isConflict(problem) || tries >= headLimits.triesMax) throw problem;
      }
    }
  };

  const list = (
    identity: CallerIdentity,
    page: { limit: number; cursor: string | undefined; search: string },
  ): Promise<Listed<Head>> => {
    const own = mayAll(identity) ? "" : `${ownerWord(identity.user)} `;
    const query = { tenant: identity.tenant, collection: headCollection, order: "desc", search: `${own}${page.search}` } as const;
    return listDocs(reader, query, {
      ...page,
      view(doc) {
        const head = headIn(doc);
        return head.deletedAt === null && isOwn(identity, head) ? head : null;
      },
      // Deleted ones stand behind all others.
      isEnd: (doc) => doc.sort === "",
    });
  };

  return { look, find, write, change, list, now: () => environment.clock.now() };
}

export const isConflict = (problem: unknown): problem is Fault => problem instanceof Fault && problem.code === "E.CONFLICT";
const ownerWord = (owner: string): string => wordFor("owner", owner);

function putOf(head: Head, rev: number): DocPut {
  const { name, description = "", tags = [] } = head.workflow.metadata;
  const texts = [name, ...tags, ...(head.workflow.tags ?? []), head.owner, head.ownerName, head.id, description];
  const words = new Set([ownerWord(head.owner), ...texts.flatMap(wordsOf)]);
  const isThere = head.deletedAt === null;
  return {
    collection: headCollection,
    name: head.id,
    rev,
    body: JSON.stringify(head),
    sort: isThere ? sortOf(head.updatedAt) : "",
    terms: isThere ? [...words].slice(0, headLimits.termsMax).join(" ") : "",
  };
}

/** The key of a request and its digest, with all that makes it this request and no other; null without a key. */
export function askOf(call: Call, digest: (text: string) => string, request: unknown): AskWords | null {
  const key = readIdempotencyKey(call);
  if (key === null) return null;
  const sum = digest(canonicalJson([call.identity.user, request]));
  return { key, digest: sum, word: wordFor("ask", `${call.identity.tenant} ${key} ${sum}`) };
}

/** The revision that an earlier request under this key has made, as far as changes are remembered. */
export function revisionBy(head: Head | null, ask: AskWords | null): number | null {
  const made = ask === null ? undefined : head?.recent.find((change) => change.ask === ask.word);
  return made?.revision ?? null;
}

/** A head that was never there before. */
export function newHead(call: Call, now: number, workflow: Workflow, ask: AskWords | null): Head {
  const { user } = call.identity;
  return {
    id: workflow.id,
    owner: user,
    ownerName: nameOf(call.identity),
    createdAt: now,
    createdBy: user,
    updatedAt: now,
    updatedBy: user,
    deletedAt: null,
    revision: 1,
    version: 0,
    publishedRevision: 0,
    preview: workflow.previewImage ?? null,
    recent: [{ revision: 1, by: user, at: now, edits: null, ...(ask !== null && { ask: ask.word }) }],
    workflow: bareWorkflow(workflow),
  };
}

/** The next revision of a draft. */
export function nextHead(
  head: Head,
  call: Call,
  now: number,
  next: { readonly workflow: Workflow; readonly edits: readonly WorkflowEdit[] | null; readonly ask: AskWords | null },
): Head {
  const { user: by } = call.identity;
  const { workflow, ask } = next;
  const revision = head.revision + 1;
  const change: Change = { revision, by, at: now, edits: next.edits, ...(ask !== null && { ask: ask.word }) };
  return {
    ...head,
    deletedAt: null,
    updatedAt: now,
    updatedBy: by,
    revision,
    preview: workflow.previewImage ?? head.preview,
    recent: lastOf([...head.recent, change]),
    workflow: bareWorkflow(workflow),
  };
}

/** As many of the newest as fit. One that is too large by itself is kept as a change that nobody knows. */
function lastOf(changes: readonly Change[]): Change[] {
  const kept: Change[] = [];
  let chars = 0;
  for (const change of changes.slice(-headLimits.changesMax).toReversed()) {
    chars += JSON.stringify(change).length;
    if (chars > headLimits.changesCharsMax && kept.length > 0) break;
    kept.push(chars > headLimits.changesCharsMax ? { ...change, edits: null } : change);
  }
  return kept.reverse();
}

/** What stands beside the draft is not part of it: two that differ only there are the same workflow. */
export function bareWorkflow(workflow: Workflow): Workflow {
  const { previewImage: _preview, metadata, ...rest } = workflow;
  const { ownerId: _owner, ownerName: _ownerName, createdBy: _createdBy, updatedBy: _updatedBy, ...authored } = metadata;
  const { namespace, originId, ...words } = authored;
  return {
    ...rest,
    metadata: {
      ...words,
      // What is shown where an author said nothing says nothing when it comes back.
      ...(namespace !== undefined && namespace !== namespaceDefault && { namespace }),
      ...(originId !== undefined && originId !== workflow.id && { originId }),
    },
  };
}
