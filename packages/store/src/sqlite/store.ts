// The store on a file: one writer, one turn at a time, durable when `commit` answers.

import { resolve } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import type {
  ChangeSet,
  CommitOutcome,
  Millis,
  Position,
  RemovalOutcome,
  RemovalSlice,
  StoreReader,
  Tenant,
  TurnRequest,
  TurnTransaction,
  WorkerRow,
} from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import { changedWorkersFault, findChangedWorkers, findInvalidChangeSet } from "../common/change-set-check.ts";
import { type MaintainedStore, OpenStore } from "../common/open-store.ts";
import { noneRemoved } from "../common/removal.ts";
import { type ClockSource, type StoreClock, slewedClock } from "../common/slewed-clock.ts";
import { foreignClusterFault, notSettledFault } from "../common/store-faults.ts";
import {
  checkFileHeader,
  configureWriter,
  newStats,
  openDatabase,
  openSqliteFault,
  SqliteConnection,
  type SqliteStats,
  syncsCommits,
  withoutSync,
} from "./file/connection.ts";
import { markClosed, markOpen, refuseDamagedFile } from "./file/damage-check.ts";
import { createPrivateFile, lockDatabase } from "./file/database-lock.ts";
import { releaseFreePages } from "./file/free-space.ts";
import { inTransaction } from "./file/migrations.ts";
import { closeCleanly, emptyWal, WalCheckpoints } from "./file/write-ahead-log.ts";
import { SqliteReader } from "./reader/reader.ts";
import { indexPendingRuns, unindexedRunsDefault } from "./search/run-search.ts";
import { trimLog, unindexedLogRowsDefault } from "./search/subject-history.ts";
import { SqliteRemoval } from "./writer/removal.ts";
import { type RepositoryLimits, SqliteRepository } from "./writer/repository.ts";
import { SqliteTurn, type SqliteTurnHost } from "./writer/turn.ts";
import { ChangeSetRefused, writeTurn } from "./writer/write-turn.ts";

export interface SqliteOptions extends Partial<RepositoryLimits> {
  readonly file: string;
  readonly clock: ClockSource;
  /** Called with the name of each step; a test kills the process there, or throws as a broken disk would. */
  readonly failpoint?: (name: string) => void;
  /** How many runs a search compares before it asks the index of words. */
  readonly searchedRows?: number;
  /** How long a commit waits for a foreign program that has the file locked. The whole process waits with it. */
  readonly busyMs?: number;
  /** The WAL is cut back once it has grown past this. */
  readonly walBytesMax?: number;
}

export type SqliteStore = MaintainedStore<SqliteStats, number>;

const defaults = {
  cacheRows: 50_000,
  cacheChars: 64 * 1024 * 1024,
  unindexedLogRowsMax: unindexedLogRowsDefault,
  unindexedRunsMax: unindexedRunsDefault,
  busyMs: 1_000,
  walBytesMax: 64 * 1024 * 1024,
};
const trimRowsMax = 1_000;

export function openSqlite(options: SqliteOptions): SqliteStore {
  return new SqliteFileStore(options);
}

interface OpenedSqlite {
  readonly lock: DatabaseSync;
  readonly clock: StoreClock;
  readonly reader: StoreReader;
  readonly replica: string;
  readonly epoch: number;
  connection: SqliteConnection;
  repository: SqliteRepository;
  lastTurn: number;
}

class SqliteFileStore extends OpenStore<OpenedSqlite> implements SqliteStore, SqliteTurnHost {
  readonly #options: SqliteOptions & typeof defaults;
  readonly #stats = newStats();
  #turn: SqliteTurn | null = null;
  /** A turn whose COMMIT answered with an error that leaves its outcome open. */
  #unsettled: { readonly turn: number; readonly cause: unknown } | null = null;
  readonly #walCheckpoints: WalCheckpoints;
  readonly #settled = new Map<number, "committed" | "absent">();

  constructor(options: SqliteOptions) {
    super();
    this.#options = { ...defaults, ...options, file: resolve(options.file) };
    this.#walCheckpoints = new WalCheckpoints(this.#options);
  }

  async open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    if (this.opened !== null) throw new Error("the store is open already");
    const { file, unindexedRunsMax } = this.#options;
    let lock: DatabaseSync | null = null;
    let connection: SqliteConnection | null = null;
    let isMarked = false;
    try {
      checkFileHeader(file);
      lock = lockDatabase(file);
      refuseDamagedFile(file);
      createPrivateFile(file);
      connection = this.#connect();
      const { epoch, lastTurn, stored } = registerReplica(connection.db, file, me, this.#options.clock.wall());
      isMarked = true;
      // The mark must be in the file itself before a turn is in the WAL alone.
      emptyWal(connection.db);
      const repository = new SqliteRepository(connection, this.#options);
      // A file of an earlier version may have noted all its runs.
      if (repository.unindexedRuns > unindexedRunsMax) {
        inTransaction(connection.db, () => indexPendingRuns(repository.connection));
        repository.unindexedRuns = 0;
      }
      const clock = slewedClock(this.#options.clock, stored);
      const reader = new SqliteReader(this.#options);
      this.opened = { lock, clock, reader, replica: me.replica, epoch, connection, repository, lastTurn };
      return { epoch, lastTurn };
    } catch (error) {
      // The last connection takes the WAL with it when it closes.
      if (isMarked && connection !== null) markClosed(connection.db);
      connection?.db.close();
      lock?.close();
      throw lock === null ? openSqliteFault(file, error) : error;
    }
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    const opened = this.requireOpen();
    if (this.#turn !== null) throw new Error("a turn is under way: this store takes one at a time");
    if (this.#unsettled !== null) {
      const { turn, cause } = this.#unsettled;
      const message = `the outcome of turn ${turn} is unknown; settle it before beginning another`;
      throw fault("E.STORE.UNKNOWN_OUTCOME", message, { turn }, cause);
    }
    if (!opened.connection.db.isOpen) this.#reconnect(opened);
    this.#turn = new SqliteTurn(this, opened, opened.clock.now(), want);
    this.#stats.turns++;
    return this.#turn;
  }

  write(turn: SqliteTurn, number: number, units: readonly ChangeSet[]): CommitOutcome {
    const opened = this.requireOpen();
    this.#turn = null;
    if (number <= opened.lastTurn)
      throw new Error(`turn ${number} was committed after turn ${opened.lastTurn}; turn numbers must increase`);
    const bad = findInvalidChangeSet(units, (root) => turn.hasTaken(root));
    if (bad !== null) return { outcome: "failed", ...bad };
    const changedWorkers = findChangedWorkers(units, (worker) => turn.rowBeforeTurn("worker", worker) as WorkerRow | null);
    if (changedWorkers.length > 0) return { outcome: "failed", changedWorkers, fault: changedWorkersFault(changedWorkers) };
    const { connection, repository } = opened;
    let hasTriedCommit = false;
    try {
      connection.passFailpoint("sqlite.begin");
      connection.db.exec("BEGIN IMMEDIATE");
      const written = writeTurn(repository, turn, number, units);
      connection.passFailpoint("sqlite.commit");
      hasTriedCommit = true;
      connection.passFailpoint("sqlite.committing");
      connection.db.exec("COMMIT");
      connection.passFailpoint("sqlite.committed");
      written.updateCaches();
      opened.lastTurn = number;
      this.#stats.commits++;
      for (const tenant of written.first.keys()) this.hintListener({ type: "log", tenant });
      this.#walCheckpoints.handleCommit(connection.db);
      return { outcome: "committed", first: written.first };
    } catch (error) {
      return this.#fail(opened, number, hasTriedCommit, error);
    }
  }

  rollBack(): void {
    this.#turn = null;
  }

  async settle(turn: number): Promise<"committed" | "absent"> {
    const opened = this.requireOpen();
    if (this.#unsettled?.turn !== turn) return this.#settled.get(turn) ?? (turn <= opened.lastTurn ? "committed" : "absent");
    try {
      // After a failed write the connection's view and the file may differ; a new one reads the file as a restart would. What it
      // then finds is made to last by a write and a checkpoint of its own, since the sync that failed cannot be believed later.
      this.#reconnect(opened);
      opened.connection.db.prepare("UPDATE replica SET clock = ? WHERE id = ?").run(opened.clock.now(), opened.replica);
      opened.connection.db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      opened.lastTurn = lastTurnOf(opened.connection, opened.replica);
    } catch (error) {
      throw notSettledFault(turn, (error as Error).message, error);
    }
    const outcome = opened.lastTurn === turn ? "committed" : "absent";
    this.#unsettled = null;
    this.#settled.set(turn, outcome);
    return outcome;
  }

  stats(): Readonly<SqliteStats> {
    return { ...this.#stats };
  }

  trim(tenant: Tenant, floor: Position): number {
    const { connection, repository } = this.requireOpen();
    const state = repository.tenant(tenant);
    const to = Math.max(state.floor, Math.min(floor, state.position));
    const gone = inTransaction(connection.db, () => {
      connection.db.prepare("UPDATE tenant SET floor = ? WHERE id = ?").run(to, tenant);
      return trimLog(connection, tenant, to, trimRowsMax);
    });
    repository.setTenant(tenant, { ...state, floor: to });
    return gone;
  }

  async remove(slice: RemovalSlice): Promise<RemovalOutcome> {
    const opened = this.requireOpen();
    if (this.#turn !== null || this.#unsettled !== null) return { removed: noneRemoved, next: slice.after };
    if (!opened.connection.db.isOpen) this.#reconnect(opened);
    const removal = new SqliteRemoval(opened.repository, opened.clock.now(), slice);
    const outcome = this.#maintain(opened, "old rows could not be removed", ({ connection }) =>
      inTransaction(connection.db, () => {
        const done = removal.remove(slice);
        connection.passFailpoint("sqlite.remove");
        return done;
      }),
    );
    removal.updateCaches();
    this.#walCheckpoints.handleCommit(opened.connection.db);
    return outcome;
  }

  async releaseSpace(pagesMax: number): Promise<number> {
    const opened = this.requireOpen();
    if (this.#turn !== null || this.#unsettled !== null || !opened.connection.db.isOpen) return 0;
    const released = this.#maintain(opened, "free space could not be given back", ({ connection }) =>
      releaseFreePages(connection.db, pagesMax),
    );
    if (released > 0) this.#walCheckpoints.handleCommit(opened.connection.db);
    return released;
  }

  /** Whatever happens to it, the connection that the next turn writes with syncs its commits. */
  #maintain<T>(opened: OpenedSqlite, problem: string, work: (opened: OpenedSqlite) => T): T {
    try {
      return withoutSync(opened.connection.db, () => work(opened));
    } catch (error) {
      if (!syncsCommits(opened.connection.db)) opened.connection.db.close();
      // Whether it was committed or not, what is read from now on is what the file holds.
      else opened.repository = new SqliteRepository(opened.connection, this.#options);
      throw maintenanceFault(problem, error);
    }
  }

  trimChunks(before: Millis): number {
    const { connection } = this.requireOpen();
    return inTransaction(connection.db, () => Number(connection.db.prepare(trimChunksSql).run(before, trimRowsMax).changes));
  }

  async close(): Promise<void> {
    const opened = this.opened;
    if (opened === null) return;
    this.opened = null;
    if (opened.connection.db.isOpen) {
      closeCleanly(opened.connection.db);
      opened.connection.db.close();
    }
    // After the writer: the last connection would take the WAL with it, which a store that could not be marked as closed still needs.
    await opened.reader.close();
    opened.lock.close();
  }

  /** A commit counts as failed only once it is seen to be rolled back; otherwise its outcome is unknown. */
  #fail({ connection, replica }: OpenedSqlite, turn: number, hasTriedCommit: boolean, error: unknown): CommitOutcome {
    const errcode = ((error as { errcode?: number }).errcode ?? 0) % 256;
    this.#unsettled = { turn, cause: error };
    try {
      if (connection.db.isTransaction) connection.db.exec("ROLLBACK");
      // A busy or full file refuses before the commit mark is in the WAL. Any other error of COMMIT may have come after it.
      const isCertain = !hasTriedCommit || errcode === sqliteBusy || errcode === sqliteFull;
      if (!isCertain || lastTurnOf(connection, replica) === turn) return { outcome: "unknown" };
    } catch (worse) {
      this.#unsettled = { turn, cause: worse };
      return { outcome: "unknown" };
    }
    this.#unsettled = null;
    return failedCommit(turn, error, errcode);
  }

  #reconnect(opened: OpenedSqlite): void {
    if (opened.connection.db.isOpen) opened.connection.db.close();
    opened.connection = this.#connect();
    opened.repository = new SqliteRepository(opened.connection, this.#options);
  }

  #connect(): SqliteConnection {
    const { file, busyMs, failpoint = null } = this.#options;
    const db = openDatabase(file, { readOnly: false, busyMs });
    try {
      configureWriter(db, file, failpoint);
      return new SqliteConnection(db, this.#stats, failpoint);
    } catch (error) {
      db.close();
      throw error;
    }
  }
}

const trimChunksSql = "DELETE FROM chunk WHERE rowid IN (SELECT rowid FROM chunk WHERE at < ? ORDER BY at LIMIT ?)";

const sqliteBusy = 5;
const sqliteFull = 13;

function maintenanceFault(what: string, error: unknown) {
  const isDiskFull = ((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteFull;
  const why = isDiskFull ? "the disk is full" : (error as Error).message;
  return fault("E.STORE.BUSY", `${what}: ${why}`, isDiskFull ? { isDiskFull } : {}, error);
}

function failedCommit(turn: number, error: unknown, errcode: number): CommitOutcome {
  if (error instanceof ChangeSetRefused) return { outcome: "failed", ...error.invalid };
  const isDiskFull = errcode === sqliteFull;
  const why = errcode === sqliteBusy ? "another program has the file locked" : (error as Error).message;
  const message = `turn ${turn} was not written: ${isDiskFull ? "the disk is full" : why}`;
  return { outcome: "failed", fault: fault("E.STORE.BUSY", message, { turn, ...(isDiskFull && { isDiskFull }) }, error) };
}

/** Takes up the replica's row: one epoch on, its last turn as it stands. The cluster id is written once and compared ever after. */
function registerReplica(db: DatabaseSync, file: string, me: { replica: string; cluster: string }, wall: Millis) {
  return inTransaction(db, () => {
    db.prepare("INSERT INTO meta (name, value) VALUES ('cluster', ?) ON CONFLICT (name) DO NOTHING").run(me.cluster);
    const cluster = String(db.prepare("SELECT value FROM meta WHERE name = 'cluster'").get()?.value);
    if (cluster !== me.cluster) throw foreignClusterFault(file, cluster, me.cluster, { file });
    const stored = Number(db.prepare("SELECT coalesce(max(clock), 0) AS clock FROM replica").get()?.clock);
    db.prepare(
      "INSERT INTO replica (id, epoch, last_turn, clock) VALUES (?, 1, 0, ?) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1, clock = excluded.clock",
    ).run(me.replica, Math.floor(Math.max(stored, wall)));
    const row = db.prepare("SELECT epoch, last_turn AS lastTurn FROM replica WHERE id = ?").get(me.replica);
    // Nobody reads the mail of an epoch that is over; its workers come back and are told again from their rows.
    db.prepare("DELETE FROM mail WHERE replica = ? AND epoch < ?").run(me.replica, Number(row?.epoch));
    markOpen(db);
    return { epoch: Number(row?.epoch), lastTurn: Number(row?.lastTurn), stored };
  });
}

function lastTurnOf(connection: SqliteConnection, replica: string): number {
  return Number(connection.db.prepare("SELECT last_turn AS turn FROM replica WHERE id = ?").get(replica)?.turn ?? 0);
}
