// Changes of many runs at once: one document each, with the filter, a cursor and the counts, worked off page by page. If a
// scheduler dies, another one takes over the idle document; each run is changed by an idempotent command.

import type { DocRow, IdempotencyKey, RunRow, StoreReader } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { type Bulk, type BulkRequest, Fault, fault } from "@astraflow/protocol";
import { sortKeyOf } from "../documents/derived-names.ts";
import { documentNameOf, isConflict, readDocument, writeDocuments } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { Caller } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";
import { isoTime } from "../presentation/run-view.ts";
import { bulkPageMax, readMatchingRuns } from "./bulk-run-pages.ts";

const bulkCollection = "bulk";

export const bulkLimits = {
  pageMax: bulkPageMax,
  /** A document that nobody has written for so long is taken over. */
  takeoverAfterMs: 15_000,
  pollMs: 5_000,
  /** Documents read with one look at a tenant. */
  documentsPerTenantMax: 1_000,
  refusalsMax: 50,
  /** Runs started anew that are named. */
  startedRunsMax: 200,
  /** Runs that a dry run counts. */
  dryRunMax: 10_000,
  /** Tenants whose documents are looked through at once; where there are more they take turns. */
  tenantsPerPollMax: 200,
  /** So long a change that is over can be looked up. */
  retentionMs: 7 * 86_400_000,
} as const;

/** What happens to one run. */
export type ApplyBulkChange = (caller: Caller, request: BulkRequest, run: RunRow, changeId: string) => Promise<BulkRunOutcome>;

export interface BulkRunOutcome {
  /** False: nothing was to be done. */
  readonly isChanged: boolean;
  /** The run that was started in place of this one. */
  readonly newRun?: string;
}

interface BulkDocument {
  readonly request: BulkRequest;
  readonly identity: CallerIdentity;
  readonly requestId: string;
  readonly status: "running" | "done";
  /** Runs before this one are still to be looked at; null at the beginning. */
  readonly cursor: string | null;
  readonly matched: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly refused: number;
  readonly refusals: Bulk["refusals"];
  /** Absent in what an earlier version wrote. */
  readonly started?: NonNullable<Bulk["started"]>;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface BulkChangesOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  readonly applyChange: ApplyBulkChange;
  /** Whether there is something to do to a run, as far as its state tells. */
  readonly needsChange: (request: BulkRequest, run: RunRow) => boolean;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
}

export interface BulkChanges {
  /** The same key and request again give the same change, as far as it has come. */
  start(caller: Caller, request: BulkRequest, key: string | null): Promise<Bulk>;
  find(tenant: string, id: string): Promise<Bulk | null>;
  /** Looks for documents that nobody works on. */
  resumeStalled(): Promise<void>;
  close(): void;
}

export function createBulkChanges({
  engineClient,
  reader,
  environment,
  applyChange,
  needsChange,
  digest,
}: BulkChangesOptions): BulkChanges {
  const inProgress = new Set<string>();
  /** Which revision of what runs was seen, and since when by the clock here: those of other schedulers may go differently. */
  const lastSeenRevisions = new Map<string, { readonly tenant: string; readonly rev: number; readonly at: number }>();
  /** The tenant after whom the next look begins. */
  let lastPolledTenant: string | null = null;
  let isClosed = false;

  const writeDocument = async (
    tenant: string,
    id: string,
    rev: number,
    body: BulkDocument,
    action?: string,
    ask: IdempotencyKey | null = null,
  ) => {
    const actor = { tenant, by: body.identity.user, corr: body.requestId };
    const data = { filter: body.request.filter, changed: body.changed };
    const { revs, repeated } = await writeDocuments(engineClient, actor, {
      puts: [
        {
          collection: bulkCollection,
          name: id,
          rev,
          body: JSON.stringify(body),
          sort: sortKeyOf(body.createdAt),
          terms: body.status,
          ...(body.status === "done" && { keepMs: bulkLimits.retentionMs }),
        },
      ],
      ask,
      ...(action !== undefined && { audit: { action, targetType: "bulk", target: id, data } }),
    });
    return { rev: revs[0] ?? rev + 1, isRepeated: repeated };
  };

  const processPages = async (tenant: string, id: string, from: number, first: BulkDocument): Promise<void> => {
    let [rev, body] = [from, first];
    while (!isClosed && body.status === "running") {
      const { items, next } = await readMatchingRuns(reader, tenant, body.request, body.cursor);
      for (const run of items) body = await changeRun(applyChange, id, body, run);
      body = { ...body, cursor: next, status: next === null ? "done" : "running", updatedAt: environment.clock.now() };
      const action = body.status === "done" ? `run.bulk.${body.request.action}.done` : undefined;
      ({ rev } = await writeDocument(tenant, id, rev, body, action));
    }
  };

  /** One worker a document; a document that another has taken over is let go. */
  const startProcessing = (tenant: string, id: string, rev: number, body: BulkDocument): void => {
    const name = `${tenant}/${id}`;
    if (inProgress.has(name) || isClosed) return;
    inProgress.add(name);
    void processPages(tenant, id, rev, body)
      .catch((problem: unknown) => {
        if (!isConflict(problem))
          environment.log({ level: "warn", event: "bulk.paused", tenant, bulk: id, problem: String(problem) });
      })
      .finally(() => inProgress.delete(name));
  };

  const takeOver = async (tenant: string, doc: DocRow): Promise<void> => {
    const body = JSON.parse(doc.body) as BulkDocument;
    const id = documentNameOf(doc);
    const taken = { ...body, updatedAt: environment.clock.now() };
    const written = await writeDocument(tenant, id, doc.rev, taken).catch((why: unknown) => {
      if (isConflict(why)) return null;
      throw why;
    });
    if (written !== null) startProcessing(tenant, id, written.rev, taken);
  };

  const resumeStalled = async (): Promise<void> => {
    const now = environment.clock.monotonic();
    const found = new Set<string>();
    const after = lastPolledTenant === null ? {} : { after: lastPolledTenant };
    const { items: tenants, next } = await reader.page({ page: "tenants", limit: bulkLimits.tenantsPerPollMax, ...after });
    lastPolledTenant = next;
    const polledTenants = new Set<string>();
    const pollTenant = async (tenant: string): Promise<void> => {
      for (const doc of await listRunningChanges(reader, tenant)) {
        found.add(doc.id);
        const lastSeen = lastSeenRevisions.get(doc.id);
        if (lastSeen?.rev !== doc.rev) lastSeenRevisions.set(doc.id, { tenant, rev: doc.rev, at: now });
        else if (now - lastSeen.at >= bulkLimits.takeoverAfterMs && !inProgress.has(`${tenant}/${documentNameOf(doc)}`))
          await takeOver(tenant, doc).catch(logPollFailure);
      }
      polledTenants.add(tenant);
    };
    // A failure for one tenant must not stop the others.
    for (const tenant of tenants) await pollTenant(tenant).catch(logPollFailure);
    for (const [id, { tenant }] of lastSeenRevisions)
      if (polledTenants.has(tenant) && !found.has(id)) lastSeenRevisions.delete(id);
  };
  let isPolling = false;
  const stopPolling = environment.timers.every(bulkLimits.pollMs, () => {
    // On a slow store a poll takes longer than the interval; a second one would make it slower still.
    if (isPolling) return;
    isPolling = true;
    void resumeStalled()
      .catch(logPollFailure)
      .finally(() => {
        isPolling = false;
      });
  });
  const logPollFailure = (problem: unknown): void =>
    environment.log({ level: "warn", event: "bulk.look", problem: String(problem) });

  const find = async (tenant: string, id: string): Promise<Bulk | null> => {
    const { doc, head } = await readDocument(reader, tenant, bulkCollection, id);
    return doc === null ? null : { ...presentBulk(id, JSON.parse(doc.body) as BulkDocument), asOf: head };
  };

  return {
    resumeStalled,
    find,
    async start(caller, request, key) {
      const { tenant } = caller.identity;
      const now = environment.clock.now();
      // By its key the document is found again when the key comes again.
      const id = key === null ? environment.ids.next() : `bulk-${digest(canonicalJson([tenant, key]))}`;
      const ask = key === null ? null : { key, digest: digest(canonicalJson(["changeRuns", request])) };
      const initial: BulkDocument = {
        request,
        identity: caller.identity,
        requestId: caller.requestId,
        status: "running",
        cursor: null,
        matched: 0,
        changed: 0,
        unchanged: 0,
        refused: 0,
        refusals: [],
        started: [],
        createdAt: now,
        updatedAt: now,
      };
      if (request.dryRun === true) return countMatchingRuns(reader, tenant, id, initial, needsChange);
      const { rev, isRepeated } = await writeDocument(tenant, id, 0, initial, `run.bulk.${request.action}`, ask);
      if (isRepeated) {
        const before = await find(tenant, id);
        if (before !== null) return before;
        throw fault("E.NOT_FOUND", "the bulk change of this Idempotency-Key has expired; use a new key");
      }
      startProcessing(tenant, id, rev, initial);
      return presentBulk(id, initial);
    },
    close() {
      isClosed = true;
      stopPolling();
    },
  };
}

/** What is not done yet, however much was ordered after it. */
async function listRunningChanges(reader: StoreReader, tenant: string): Promise<DocRow[]> {
  const running: DocRow[] = [];
  const query = { page: "docs", tenant, collection: bulkCollection, search: "running", order: "asc", limit: 100 } as const;
  for (let after: string | null = ""; after !== null && running.length < bulkLimits.documentsPerTenantMax; ) {
    const page: { items: readonly DocRow[]; next: string | null } = await reader.page({
      ...query,
      ...(after !== "" && { after }),
    });
    running.push(...page.items.filter((doc) => (JSON.parse(doc.body) as BulkDocument).status === "running"));
    after = page.next;
  }
  return running;
}

async function changeRun(applyChange: ApplyBulkChange, id: string, body: BulkDocument, run: RunRow): Promise<BulkDocument> {
  const { request, identity, requestId } = body;
  const counted = { ...body, matched: body.matched + 1 };
  try {
    const { isChanged, newRun } = await applyChange({ identity, requestId }, request, run, `${id}:${run.id}`);
    if (!isChanged) return { ...counted, unchanged: body.unchanged + 1 };
    const { started = [] } = body;
    const isNamed = newRun !== undefined && started.length < bulkLimits.startedRunsMax;
    return { ...counted, changed: body.changed + 1, started: isNamed ? [...started, { runId: run.id, newRun }] : started };
  } catch (why) {
    // A refusal is recorded for that run only; a store or engine failure stops the whole change until it is back.
    if (!(why instanceof Fault) || transientFaultCodes.has(why.code)) throw why;
    const refusals = [...body.refusals, { runId: run.id, code: why.code, message: why.message }].slice(0, bulkLimits.refusalsMax);
    return { ...counted, refused: body.refused + 1, refusals };
  }
}

const transientFaultCodes: ReadonlySet<string> = new Set(["E.STORE.BUSY", "E.OVERLOADED", "E.SHUTTING_DOWN", "E.INTERNAL"]);

async function countMatchingRuns(
  reader: StoreReader,
  tenant: string,
  id: string,
  body: BulkDocument,
  needsChange: BulkChangesOptions["needsChange"],
): Promise<Bulk> {
  let matched = 0;
  let unchanged = 0;
  let countedRuns = 0;
  let cursor: string | null = null;
  do {
    const page: { items: readonly RunRow[]; next: string | null } = await readMatchingRuns(reader, tenant, body.request, cursor);
    matched += page.items.length;
    unchanged += page.items.filter((run) => !needsChange(body.request, run)).length;
    countedRuns += bulkLimits.pageMax;
    cursor = page.next;
  } while (cursor !== null && countedRuns < bulkLimits.dryRunMax);
  return { ...presentBulk(id, { ...body, matched, unchanged }), status: "planned", isPartial: cursor !== null };
}

function presentBulk(id: string, body: BulkDocument): Bulk {
  const { request, status, matched, changed, unchanged, refused, refusals, started = [] } = body;
  return {
    bulkId: id,
    action: request.action,
    status,
    matched,
    changed,
    unchanged,
    refused,
    refusals: [...refusals],
    ...(started.length > 0 && { started: [...started] }),
    createdAt: isoTime(body.createdAt),
    updatedAt: isoTime(body.updatedAt),
  };
}
