// Changes of many runs at once: one document each, with the filter, a cursor and the counts, worked off page by page. If a
// scheduler dies, another one takes over the idle document; each run is changed by an idempotent command.

import type { IdempotencyKey, RunRow } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { type Bulk, type BulkRequest, Fault, fault } from "@astraflow/protocol";
import { sortKeyOf } from "../documents/derived-names.ts";
import { idempotencyKeyFor, isConflict, RecordStore, recordPut, type StoredRecord } from "../documents/documents.ts";
import { listRunningRecords, TenantRounds } from "../documents/tenant-rounds.ts";
import { withoutOverlap } from "../environment/concurrency.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { Caller, CallerIdentity } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { bulkPageMax, readMatchingRuns } from "./bulk-runs.ts";

export const bulkLimits = {
  pageMax: bulkPageMax,
  /** A document that nobody has written for so long is taken over. */
  takeoverAfterMs: 15_000,
  pollMs: 5_000,
  refusalsMax: 50,
  /** Runs started anew that are named. */
  startedRunsMax: 200,
  /** Runs that a dry run counts. */
  dryRunMax: 10_000,
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

interface BulkRecord {
  readonly id: string;
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

export interface BulkChangesOptions extends ServiceContext {
  readonly applyChange: ApplyBulkChange;
  /** Whether there is something to do to a run, as far as its state tells. */
  readonly needsChange: (request: BulkRequest, run: RunRow) => boolean;
  /** Changes that nobody works on are taken over here; unless it is false, they are. */
  readonly hasPolling?: boolean;
}

export class BulkChanges {
  readonly #options: BulkChangesOptions;
  readonly #records: RecordStore<BulkRecord>;
  readonly #stopPolling: () => void;
  /** `<tenant>/<id>` of those that are worked on here. */
  readonly #inProgress = new Set<string>();
  /** Which revision of what runs was seen, and since when by the clock here: those of other schedulers may go differently. */
  readonly #lastSeen = new Map<string, { readonly tenant: string; readonly rev: number; readonly at: number }>();
  readonly #rounds: TenantRounds;
  #isClosed = false;

  constructor(options: BulkChangesOptions) {
    this.#options = options;
    this.#records = new RecordStore(options, "bulk");
    this.#rounds = new TenantRounds(options, (problem) => this.#logPollFailure(problem));
    const poll = withoutOverlap(() => this.resumeStalled().catch((problem: unknown) => this.#logPollFailure(problem)));
    const { timers } = options.environment;
    this.#stopPolling = options.hasPolling === false ? () => undefined : timers.every(bulkLimits.pollMs, poll);
  }

  /** The same key and request again give the same change, as far as it has come. */
  async start(caller: Caller, request: BulkRequest, key: string | null): Promise<Bulk> {
    const { environment, digest } = this.#options;
    const { tenant } = caller.identity;
    const now = environment.clock.now();
    const initial: BulkRecord = {
      // With a key the document is found again when the key comes again.
      id: key === null ? environment.ids.next() : `bulk-${digest(canonicalJson([tenant, key]))}`,
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
    if (request.dryRun === true) return this.#countMatchingRuns(tenant, initial);
    const ask = idempotencyKeyFor(digest, key, ["changeRuns", request]);
    const { rev, repeated } = await this.#write(tenant, { record: initial, rev: 0 }, `run.bulk.${request.action}`, ask);
    if (repeated) {
      const before = await this.find(tenant, initial.id);
      if (before !== null) return before;
      throw fault("E.NOT_FOUND", "the bulk change of this Idempotency-Key has expired; use a new key");
    }
    this.#startProcessing(tenant, { record: initial, rev });
    return presentBulk(initial);
  }

  async find(tenant: string, id: string): Promise<Bulk | null> {
    const { record, head } = await this.#records.find(tenant, id);
    return record === null ? null : { ...presentBulk(record), asOf: head };
  }

  /** Looks for documents that nobody works on. */
  async resumeStalled(): Promise<void> {
    const now = this.#options.environment.clock.monotonic();
    const found = new Set<string>();
    const polledTenants = await this.#rounds.visitNext(async (tenant) => {
      for (const stored of await listRunningRecords(this.#records, tenant, ({ status }) => status === "running")) {
        const name = `${tenant}/${stored.record.id}`;
        found.add(name);
        const lastSeen = this.#lastSeen.get(name);
        if (lastSeen?.rev !== stored.rev) this.#lastSeen.set(name, { tenant, rev: stored.rev, at: now });
        else if (now - lastSeen.at >= bulkLimits.takeoverAfterMs && !this.#inProgress.has(name))
          await this.#takeOver(tenant, stored).catch((problem: unknown) => this.#logPollFailure(problem));
      }
    });
    for (const [name, { tenant }] of this.#lastSeen)
      if (polledTenants.has(tenant) && !found.has(name)) this.#lastSeen.delete(name);
  }

  close(): void {
    this.#isClosed = true;
    this.#stopPolling();
  }

  async #takeOver(tenant: string, { record, rev }: StoredRecord<BulkRecord>): Promise<void> {
    const taken = { ...record, updatedAt: this.#options.environment.clock.now() };
    try {
      this.#startProcessing(tenant, { record: taken, rev: (await this.#write(tenant, { record: taken, rev })).rev });
    } catch (why) {
      if (!isConflict(why)) throw why;
    }
  }

  /** One worker a document; a document that another has taken over is let go. */
  #startProcessing(tenant: string, stored: StoredRecord<BulkRecord>): void {
    const { id: bulk } = stored.record;
    const name = `${tenant}/${bulk}`;
    if (this.#inProgress.has(name) || this.#isClosed) return;
    this.#inProgress.add(name);
    void this.#processPages(tenant, stored)
      .catch((problem: unknown) => {
        if (!isConflict(problem))
          this.#options.environment.log({ level: "warn", event: "bulk.paused", tenant, bulk, problem: String(problem) });
      })
      .finally(() => this.#inProgress.delete(name));
  }

  async #processPages(tenant: string, stored: StoredRecord<BulkRecord>): Promise<void> {
    const { reader, environment, applyChange } = this.#options;
    let { record, rev } = stored;
    while (!this.#isClosed && record.status === "running") {
      const { items, next } = await readMatchingRuns(reader, tenant, record.request, record.cursor);
      for (const run of items) record = await changeRun(applyChange, record, run);
      record = { ...record, cursor: next, status: next === null ? "done" : "running", updatedAt: environment.clock.now() };
      const action = record.status === "done" ? `run.bulk.${record.request.action}.done` : undefined;
      ({ rev } = await this.#write(tenant, { record, rev }, action));
    }
  }

  async #write(
    tenant: string,
    { record, rev }: StoredRecord<BulkRecord>,
    action?: string,
    ask: IdempotencyKey | null = null,
  ): Promise<{ rev: number; repeated: boolean }> {
    const { id, identity, requestId, request, status, changed, createdAt } = record;
    const keep = status === "done" ? { keepMs: bulkLimits.retentionMs } : {};
    const audit = { action: action ?? "", targetType: "bulk", target: id, data: { filter: request.filter, changed } };
    const { revs, repeated } = await this.#records.write(
      { tenant, by: identity.user, corr: requestId },
      {
        puts: [recordPut("bulk", record, rev, { sort: sortKeyOf(createdAt), terms: status, ...keep })],
        ask,
        ...(action !== undefined && { audit }),
      },
    );
    return { rev: revs[0] ?? rev + 1, repeated };
  }

  async #countMatchingRuns(tenant: string, record: BulkRecord): Promise<Bulk> {
    const { reader, needsChange } = this.#options;
    let { matched, unchanged, cursor } = record;
    let countedRuns = 0;
    do {
      const { items, next } = await readMatchingRuns(reader, tenant, record.request, cursor);
      matched += items.length;
      unchanged += items.filter((run) => !needsChange(record.request, run)).length;
      countedRuns += bulkLimits.pageMax;
      cursor = next;
    } while (cursor !== null && countedRuns < bulkLimits.dryRunMax);
    return { ...presentBulk({ ...record, matched, unchanged }), status: "planned", isPartial: cursor !== null };
  }

  #logPollFailure(problem: unknown): void {
    this.#options.environment.log({ level: "warn", event: "bulk.look", problem: String(problem) });
  }
}

async function changeRun(applyChange: ApplyBulkChange, body: BulkRecord, run: RunRow): Promise<BulkRecord> {
  const { id, request, identity, requestId } = body;
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

function presentBulk(body: BulkRecord): Bulk {
  const { id, request, status, matched, changed, unchanged, refused, refusals, started = [] } = body;
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
