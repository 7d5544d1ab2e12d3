// Removes what is older than its tenant's policy keeps: again and again, in small slices with pauses in between, so that work is never
// delayed by more than a slice. The store removes; which rows, in which order and how fast is decided here. Schedulers that share a store
// may all do it: the store lets one of them at a time remove rows of a tenant.

import type {
  EngineGauge,
  PageOf,
  PageQuery,
  RemovalOutcome,
  RemovalSlice,
  RemovedCounts,
  RunId,
  Store,
  Tenant,
} from "@astraflow/engine";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { freshRunMs, type RetentionPolicy } from "./retention-policy.ts";

export interface SweepReport {
  readonly tenant: Tenant;
  readonly removed: RemovedCounts;
  readonly slices: number;
  readonly tookMs: number;
}

export interface RetentionSweeperOptions {
  readonly store: Pick<Store, "remove" | "page" | "releaseSpace">;
  readonly policyOf: (tenant: Tenant) => RetentionPolicy;
  readonly clock: Pick<ServiceEnvironment["clock"], "monotonic">;
  readonly timers: Pick<ServiceEnvironment["timers"], "after">;
  /** How busy the engine is, whose store it shares. */
  readonly gauge: () => Pick<EngineGauge, "waiting" | "commands">;
  /** Called once for each tenant of whom a sweep has removed something. */
  readonly onSwept: (report: SweepReport) => void;
  /** The store did not remove; it is tried again with the next sweep. */
  readonly onProblem: (problem: unknown) => void;
  readonly pace?: Partial<RetentionPace>;
}

export interface RetentionPace {
  /** Pause before the first sweep and between two of them. */
  readonly sweepEveryMs: number;
  /** Keys, workers and the rest of the log are looked through this often: there all rows are read to find the old ones. */
  readonly fullSweepEveryMs: number;
  /** Rows of a slice at first; then as many as take about this long. */
  readonly sliceRows: number;
  readonly sliceRowsMin: number;
  readonly sliceRowsMax: number;
  readonly sliceMs: number;
  /** How much of the time is spent on slices while the engine has commands, and while it has none. */
  readonly busyShare: number;
  readonly idleShare: number;
  readonly pauseMsMin: number;
  /** A slice that a turn or another scheduler is in the way of is tried this often in a row. */
  readonly blockedTriesMax: number;
  readonly blockedPauseMs: number;
}

export const defaultRetentionPace: RetentionPace = {
  sweepEveryMs: 60_000,
  fullSweepEveryMs: 3_600_000,
  sliceRows: 100,
  sliceRowsMin: 20,
  sliceRowsMax: 2_000,
  sliceMs: 10,
  busyShare: 0.25,
  idleShare: 0.6,
  pauseMsMin: 1,
  blockedTriesMax: 50,
  blockedPauseMs: 20,
};

/** Runs read at once to find the oldest that is kept. */
const endedPage = 500;
const tenantsPage = 500;

type TenantQuery = Extract<PageQuery, { page: "tenants" }>;
type Stage = RemovalSlice extends infer S ? (S extends RemovalSlice ? Omit<S, "after" | "limit"> : never) : never;

interface TenantSweep {
  readonly tenant: Tenant;
  readonly removed: Record<keyof RemovedCounts, number>;
  slices: number;
}

export class RetentionSweeper {
  readonly #options: RetentionSweeperOptions;
  readonly #pace: RetentionPace;
  /** By what is removed: how many rows of it take about as long as a slice should. */
  readonly #sliceRows = new Map<Stage["of"] | "space", number>();
  #commandsSeen = 0;
  #fullSweepAt = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | null = null;
  #isStopped = false;
  /** Ends the present pause. */
  #wake: () => void = () => undefined;

  constructor(options: RetentionSweeperOptions) {
    this.#options = options;
    this.#pace = { ...defaultRetentionPace, ...options.pace };
  }

  start(): void {
    this.#running ??= this.#loop();
  }

  /** Resolves after the present slice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#wake();
    await this.#running;
  }

  async #loop(): Promise<void> {
    for (;;) {
      await this.#pause(this.#pace.sweepEveryMs);
      if (this.#isStopped) return;
      await this.sweep().catch((problem: unknown) => this.#options.onProblem(problem));
    }
  }

  /** Removes everything that is old by now, unless it is stopped. */
  async sweep(): Promise<void> {
    const startedAt = this.#options.clock.monotonic();
    const isFull = startedAt - this.#fullSweepAt >= this.#pace.fullSweepEveryMs;
    for (let after: Tenant | null = ""; after !== null && !this.#isStopped; ) {
      const page: PageOf<TenantQuery> = await this.#options.store.page({ page: "tenants", after, limit: tenantsPage });
      for (const tenant of page.items) await this.#sweepTenant(tenant, isFull);
      after = page.next;
    }
    if (isFull && !this.#isStopped) this.#fullSweepAt = startedAt;
    await this.#releaseSpace();
  }

  async #sweepTenant(tenant: Tenant, isFull: boolean): Promise<void> {
    const { clock, onSwept, policyOf } = this.#options;
    const { runsMs, runsMax, keysMs, workersMs, auditMs } = policyOf(tenant);
    const startedAt = clock.monotonic();
    const removed = { runs: 0, tasks: 0, chunks: 0, logEntries: 0, keys: 0, workers: 0 };
    const sweep: TenantSweep = { tenant, removed, slices: 0 };
    try {
      if (runsMs !== null) await this.#removeAll(sweep, { of: "runs", tenant, olderThanMs: runsMs });
      const before = runsMax === null ? null : await this.#findOldestKept(tenant, runsMax);
      if (before !== null) await this.#removeAll(sweep, { of: "runs", tenant, before, olderThanMs: freshRunMs });
      if (!isFull) return;
      if (runsMs !== null) await this.#removeAll(sweep, { of: "log", tenant, olderThanMs: runsMs, auditOlderThanMs: auditMs });
      if (keysMs !== null) await this.#removeAll(sweep, { of: "keys", tenant, olderThanMs: keysMs });
      if (workersMs !== null) await this.#removeAll(sweep, { of: "workers", tenant, olderThanMs: workersMs });
    } finally {
      const isNews = Object.values(removed).some((count) => count > 0);
      if (isNews) onSwept({ tenant, removed, slices: sweep.slices, tookMs: clock.monotonic() - startedAt });
    }
  }

  async #removeAll(sweep: TenantSweep, stage: Stage): Promise<void> {
    const { store } = this.#options;
    let after = "";
    for (let blockedTries = 0; !this.#isStopped; ) {
      const limit = this.#sliceRows.get(stage.of) ?? this.#pace.sliceRows;
      const { answer, tookMs } = await this.#measure<RemovalOutcome>(() =>
        store.remove({ ...stage, after, limit } as RemovalSlice),
      );
      sweep.slices += 1;
      let rows = 0;
      for (const [name, count] of Object.entries(answer.removed) as [keyof RemovedCounts, number][]) {
        sweep.removed[name] += count;
        rows += count;
      }
      const { next } = answer;
      if (next === null) return;
      const isBlocked = next === after && rows === 0;
      if (isBlocked && ++blockedTries >= this.#pace.blockedTriesMax) return;
      if (!isBlocked) blockedTries = 0;
      after = next;
      if (!isBlocked) this.#adapt(stage.of, limit, tookMs);
      await this.#pause(isBlocked ? this.#pace.blockedPauseMs : this.#pauseAfter(tookMs));
    }
  }

  /** The oldest of the newest `runsMax` runs that have ended; null where there are not more. */
  async #findOldestKept(tenant: Tenant, runsMax: number): Promise<RunId | null> {
    let before: RunId | undefined;
    for (let found = 0; !this.#isStopped; ) {
      const query = { page: "ended", tenant, limit: endedPage, ...(before !== undefined && { before }) } as const;
      const { answer, tookMs } = await this.#measure(() => this.#options.store.page(query));
      const oldest = answer.runs[runsMax - found - 1];
      if (oldest !== undefined) return oldest.id;
      found += answer.runs.length;
      if (answer.next === null) return null;
      before = answer.next;
      await this.#pause(this.#pauseAfter(tookMs));
    }
    return null;
  }

  /** What the removed rows took in the store's file is given back, as far as the store can. */
  async #releaseSpace(): Promise<void> {
    const { store } = this.#options;
    while (!this.#isStopped && store.releaseSpace !== undefined) {
      const limit = this.#sliceRows.get("space") ?? this.#pace.sliceRows;
      const { answer: released, tookMs } = await this.#measure(() => store.releaseSpace?.(limit) ?? Promise.resolve(0));
      if (released === 0) return;
      this.#adapt("space", limit, tookMs);
      await this.#pause(this.#pauseAfter(tookMs));
    }
  }

  async #measure<T>(work: () => Promise<T>): Promise<{ readonly answer: T; readonly tookMs: number }> {
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    const answer = await work();
    return { answer, tookMs: clock.monotonic() - startedAt };
  }

  /** A slice must be short for those who wait behind it, and long enough to be worth its sync. */
  #adapt(of: Stage["of"] | "space", limit: number, tookMs: number): void {
    const { sliceMs, sliceRowsMin, sliceRowsMax } = this.#pace;
    if (tookMs > sliceMs * 1.5) this.#sliceRows.set(of, Math.max(sliceRowsMin, Math.floor(limit * 0.8)));
    else if (tookMs < sliceMs / 2) this.#sliceRows.set(of, Math.min(sliceRowsMax, Math.ceil(limit * 1.25)));
  }

  /** So long that slices take no more than their share of the time. */
  #pauseAfter(tookMs: number): number {
    const { commands, waiting } = this.#options.gauge();
    const isBusy = waiting > 0 || commands !== this.#commandsSeen;
    this.#commandsSeen = commands;
    const share = isBusy ? this.#pace.busyShare : this.#pace.idleShare;
    return Math.max(this.#pace.pauseMsMin, tookMs * (1 / share - 1));
  }

  #pause(ms: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#options.timers.after(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
