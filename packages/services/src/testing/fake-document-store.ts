// Documents in memory behind an engine client and a reader: compare-and-set, lists and search as in the real stores, and a log of audit
// facts. Commands of any other type go to a fake engine.

import {
  type DocPut,
  type DocRow,
  docId,
  docKey,
  type EventPage,
  type EventQuery,
  type FaultData,
  type LoggedFact,
  matchesAllWords,
  type PageQuery,
  type StoreReader,
  searchWords,
  type WriteDocsCommand,
} from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { EngineClient } from "../environment/engine-client.ts";
import { createFakeEngine, type FakeEngine } from "./fake-engine.ts";
import { createFakeReader, type SampleRows } from "./sample-rows.ts";

export interface FakeDocumentStore {
  readonly engine: FakeEngine;
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  /** All queries so far. */
  readonly queries: PageQuery[];
  /** By id, `<tenant>/<collection>/<name>`. */
  readonly docs: Map<string, DocRow>;
  /** Facts in order of their positions, of all tenants; each tenant counts its own from 1. */
  readonly log: (LoggedFact & { readonly tenant: string })[];
  /** The body of a document, or null. */
  body(tenant: string, collection: string, name: string): Record<string, unknown> | null;
  /** Writes like another client, between two commands of the door under test. */
  write(command: Omit<WriteDocsCommand, "type" | "by"> & { readonly by?: string }): void;
}

export interface FakeDocumentStoreOptions {
  /** The clock of the store; without one it is always 1,760,000,000,000. */
  readonly now?: () => number;
  /** Further runs, tasks and workers that the reader returns. */
  readonly rows?: Partial<SampleRows>;
  readonly engine?: FakeEngine;
}

type WriteResult = { readonly revs: readonly number[]; readonly repeated: boolean };

export function createFakeDocumentStore(options: FakeDocumentStoreOptions = {}): FakeDocumentStore {
  const { now = () => 1_760_000_000_000, engine = createFakeEngine() } = options;
  const docs = new Map<string, DocRow>();
  const log: FakeDocumentStore["log"] = [];
  const idempotencyRecords = new Map<string, { digest: string; revs: readonly number[] }>();
  const otherRows = createFakeReader({ runs: [], tasks: [], workers: [], log: [], ...options.rows });

  const write = (command: WriteDocsCommand): WriteResult | FaultData => {
    const { ask: idempotencyKey = null } = command;
    const key = idempotencyKey === null ? null : `${command.tenant}/${idempotencyKey.key}`;
    const earlier = key === null ? undefined : idempotencyRecords.get(key);
    if (earlier !== undefined)
      return earlier.digest === idempotencyKey?.digest
        ? { revs: earlier.revs, repeated: true }
        : idempotencyMismatch(idempotencyKey?.key ?? "");
    const conflict = revisionConflict(docs, command);
    if (conflict !== null) return conflict;

    const revs = command.puts.map((put) => {
      const row = toDocRow(docs, command.tenant, put, now());
      docs.set(row.id, row);
      return row.rev;
    });
    for (const { collection, name } of command.drops ?? []) docs.delete(docId(command.tenant, collection, name));
    if (key !== null) idempotencyRecords.set(key, { digest: idempotencyKey?.digest ?? "", revs });
    appendAuditEntry(log, command, now());
    return { revs, repeated: false };
  };
  const announceLogGrowth = (tenant: string): void => {
    // Like the engine: after the answer, and only where the log has grown.
    setImmediate(() => engine.emitEffects({ type: "log", tenant, head: logHead(log, tenant) }));
  };

  engine.answerWith("docs.write", (command) => {
    const written = write(command);
    if ("code" in written) return { fault: written };
    if (command.audit !== undefined && !written.repeated) announceLogGrowth(command.tenant);
    return { body: { of: "docs", ...written } };
  });

  const queries: PageQuery[] = [];
  const reader: StoreReader = {
    events: async (query) => queryEvents(log, query),
    async page(query) {
      queries.push(query);
      const head = "tenant" in query && query.tenant !== undefined ? logHead(log, query.tenant) : 0;
      if (query.page === "docs") return { ...queryDocs(docs, query), head } as never;
      if (query.page === "doc")
        return {
          items: query.names.map((name) => docs.get(docId(query.tenant, query.collection, name)) ?? null),
          head,
        } as never;
      return otherRows.page(query);
    },
    close: async () => undefined,
  };

  return {
    engine,
    engineClient: engine.client,
    reader,
    queries,
    docs,
    log,
    body(tenant, collection, name) {
      const doc = docs.get(docId(tenant, collection, name));
      return doc === undefined ? null : (JSON.parse(doc.body) as Record<string, unknown>);
    },
    write(command) {
      const written = write({ type: "docs.write", by: "somebody else", ...command });
      if ("code" in written) throw new Error(`${written.code}: ${written.message}`);
      if (command.audit !== undefined) announceLogGrowth(command.tenant);
    },
  };
}

/** The first document that is not at the revision its writer expects. Nothing is written where there is one. */
function revisionConflict(docs: ReadonlyMap<string, DocRow>, command: WriteDocsCommand): FaultData | null {
  for (const { collection, name, rev } of [...command.puts, ...(command.drops ?? [])]) {
    const present = docs.get(docId(command.tenant, collection, name))?.rev ?? 0;
    if (rev === undefined || rev === present) continue;
    const message = `${collection} ${name} is at revision ${present}, not ${rev}; read it again`;
    return { code: "E.CONFLICT", message, details: { collection, name, rev: present, expected: rev } };
  }
  return null;
}

function idempotencyMismatch(key: string): FaultData {
  return { code: "E.IDEMPOTENCY.MISMATCH", message: `the idempotency key ${key} was used with another body` };
}

function toDocRow(docs: ReadonlyMap<string, DocRow>, tenant: string, put: DocPut, at: number): DocRow {
  const id = docId(tenant, put.collection, put.name);
  const before = docs.get(id);
  return {
    kind: "doc",
    id,
    tenant,
    collection: put.collection,
    rev: (before?.rev ?? 0) + 1,
    at,
    // Fields that the writer leaves out stay as they were.
    due: put.keepMs !== undefined ? at + put.keepMs : put.due === undefined ? (before?.due ?? null) : put.due,
    sort: put.sort ?? before?.sort ?? "",
    terms: put.terms ?? before?.terms ?? "",
    body: put.body,
  };
}

function appendAuditEntry(log: FakeDocumentStore["log"], command: WriteDocsCommand, at: number): void {
  const { tenant, by, corr, audit } = command;
  if (audit === undefined) return;
  const { action, target, targetType, data } = audit;
  const about = command.puts[0] ?? command.drops?.[0] ?? { collection: targetType, name: target };
  log.push({
    tenant,
    position: logHead(log, tenant) + 1,
    at,
    subject: docKey(tenant, about.collection, about.name),
    type: `audit.${action}`,
    data: { ...data, by, ...(corr !== undefined && { corr }), target, targetType, outcome: "ok" },
  });
}

const logHead = (log: FakeDocumentStore["log"], tenant: string): number =>
  log.findLast((entry) => entry.tenant === tenant)?.position ?? 0;

function queryEvents(log: FakeDocumentStore["log"], query: EventQuery): EventPage {
  const { tenant, after, before, subject, types, limit } = query;
  const wanted = log.filter(
    (entry) =>
      entry.tenant === tenant &&
      entry.position > after &&
      (before === undefined || entry.position < before) &&
      (subject === undefined || entry.subject === subject) &&
      (types === undefined || types.some((word) => entry.type.startsWith(word))),
  );
  const ordered = before === undefined ? wanted : wanted.toReversed();
  const items = ordered.slice(0, limit).map(({ tenant: _tenant, ...entry }) => entry);
  // Backwards, a page that holds everything has searched down to the end of the range.
  const end = ordered.length > limit ? items.at(-1)?.position : undefined;
  const next = before === undefined ? (items.at(-1)?.position ?? after) : (end ?? after);
  return { items, next, head: logHead(log, tenant), floor: 0 };
}

function queryDocs(docs: ReadonlyMap<string, DocRow>, query: Extract<PageQuery, { page: "docs" }>) {
  const { tenant, collection, prefix = "", search = "", order = "asc", after, limit } = query;
  const from = docId(tenant, collection, prefix);
  const words = searchWords(search);
  const sign = order === "desc" ? -1 : 1;
  const compare = (a: ListPosition, b: ListPosition): number => sign * (compareText(a.sort, b.sort) || compareText(a.id, b.id));
  const position = after === undefined ? null : parseCursor(after);
  const found = [...docs.values()]
    .filter((doc) => doc.tenant === tenant && doc.collection === collection && doc.id.startsWith(from))
    .filter((doc) => matchesAllWords(searchWords(doc.terms), words) && (position === null || compare(doc, position) > 0))
    .sort(compare);
  const items = found.slice(0, limit);
  const last = items.at(-1);
  const next = found.length > limit && last !== undefined ? JSON.stringify([last.sort, last.id]) : null;
  return { items, next };
}

interface ListPosition {
  readonly sort: string;
  readonly id: string;
}

function parseCursor(cursor: string): ListPosition {
  const position: unknown = /^\[".*"\]$/.test(cursor) ? JSON.parse(cursor) : null;
  if (!Array.isArray(position)) throw fault("E.REQUEST.INVALID", "the cursor is none of this list", { cursor });
  return { sort: String(position[0]), id: String(position[1]) };
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
