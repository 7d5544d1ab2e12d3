// The store that several schedulers share: turns side by side on a few connections, durable when `commit` answers.

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
} from "@astraflow/engine";
import { Fault, LruMap } from "@astraflow/protocol";
import { findInvalidChangeSet } from "../common/change-set-check.ts";
import { type MaintainedStore, OpenStore } from "../common/open-store.ts";
import { notSettledFault } from "../common/store-faults.ts";
import {
  checkServer,
  isConnectionLost,
  newStats,
  type PostgresAddress,
  PostgresConnection,
  type PostgresStats,
  parsePostgresUrl,
  redactedMessage,
} from "./connection/connection.ts";
import { ConnectionPool, type PooledConnection } from "./connection/connection-pool.ts";
import { HintChannel } from "./connection/hint-channel.ts";
import { PostgresReader } from "./reader/reader.ts";
import { type RegisteredReplica, registerReplica } from "./setup/replica-registration.ts";
import { commitTurnSql } from "./sql/commit-function.ts";
import { textLiteral } from "./sql/literals.ts";
import { ClockLead } from "./turn/clock-lead.ts";
import { beginTransactionSql, diagnoseRefusedCommit, openPostgresFault, turnFault } from "./turn/commit-failure.ts";
import { buildCommitPayload, firstPositions } from "./turn/commit-payload.ts";
import { removeOldRows } from "./turn/removal.ts";
import { trimChunks, trimLog } from "./turn/retention.ts";
import { type SettledOutcome, settleTurn, type UnsettledTurn } from "./turn/settlement.ts";
import { PostgresTurn, type PostgresTurnHost } from "./turn/turn.ts";
import { type BeginRequest, createBeginRequest, type TurnBeginReply } from "./turn/turn-begin.ts";

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Turns in flight at one time; each has a connection of its own. */
  readonly connections?: number;
  /** How fast the store's clock runs, for tests; counted from the store's birth. */
  readonly timeScale?: number;
  /** Called with the name of each step; a test kills the process there, or throws as a broken network would. */
  readonly failpoint?: (name: string) => void;
  /** For tests: how far the store's clock is ahead of the server's. */
  readonly aheadMs?: () => number;
  /** How many runs a search compares before it asks the index of words. */
  readonly searchedRows?: number;
}

export type PostgresStore = MaintainedStore<PostgresStats, Promise<number>>;

export const postgresFailpoints = [
  "postgres.migrate",
  "postgres.migrated",
  "postgres.begin",
  "postgres.begun",
  "postgres.commit",
  "postgres.committing",
  "postgres.committed",
] as const;

const connectionsDefault = 4;
/** Longer than the server lets any statement run: past this the network is gone, not the server slow. */
const answerMsMax = 12_000;

export function openPostgres(options: PostgresOptions): PostgresStore {
  return new SharedPostgresStore(options);
}

interface OpenedPostgres extends RegisteredReplica {
  readonly replica: string;
  readonly pool: ConnectionPool;
  readonly reader: StoreReader;
  readonly hints: HintChannel;
}

class SharedPostgresStore extends OpenStore<OpenedPostgres> implements PostgresStore, PostgresTurnHost {
  readonly #options: PostgresOptions;
  readonly #address: PostgresAddress;
  readonly #stats = newStats();
  readonly #turns = new Set<PostgresTurn>();
  readonly #clockLead = new ClockLead();
  readonly #unsettled = new Map<number, UnsettledTurn>();
  /** Of the last turns, for whoever asks again. */
  readonly #outcomes = new LruMap<number, SettledOutcome>({ entriesMax: 1_000, touchOnGet: false });

  constructor(options: PostgresOptions) {
    super();
    this.#options = options;
    this.#address = parsePostgresUrl(options.url);
  }

  async open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    if (this.opened !== null) throw new Error("the store is open already");
    const laneCount = this.#options.connections ?? connectionsDefault;
    let connection: PostgresConnection | null = null;
    let registered: RegisteredReplica;
    try {
      connection = await this.#connect();
      registered = await registerReplica(connection, me, laneCount, (name) => this.#passFailpoint(name));
    } catch (error) {
      connection?.destroy();
      throw openPostgresFault(this.#address, error);
    }
    const pool = new ConnectionPool(laneCount, () => this.#connect());
    const first = await pool.acquire();
    first.connection = connection;
    pool.release(first);
    const hints = new HintChannel(this.#address, (hint) => this.hintListener(hint));
    const reader = new PostgresReader(this.#options);
    this.opened = { ...registered, replica: me.replica, pool, reader, hints };
    await hints.start();
    return { epoch: registered.epoch, lastTurn: registered.lastTurn };
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    const opened = this.requireOpen();
    const pooled = await opened.pool.acquire();
    try {
      const turn = await this.#beginOn(opened, pooled, want);
      this.#turns.add(turn);
      this.#stats.turns++;
      return turn;
    } catch (error) {
      opened.pool.release(pooled);
      throw error;
    }
  }

  async more(turn: PostgresTurn, request: BeginRequest): Promise<TurnBeginReply> {
    const opened = this.requireOpen();
    try {
      const [result] = await turn.connection.query(`SELECT ${request.callSql}`, 1);
      return this.#countRows(result?.rows[0]?.[0] as TurnBeginReply);
    } catch (error) {
      throw turnFault(this.#address, opened, error);
    }
  }

  async write(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    const opened = this.requireOpen();
    const { connection } = turn;
    const bad = findInvalidChangeSet(units, (root) => turn.taken.has(root));
    const payload = bad ?? buildCommitPayload(units, turn, number, opened, turn.mailSeqs);
    if ("unit" in payload) return await this.#fail(turn, { outcome: "failed", ...payload });
    try {
      this.#passFailpoint("postgres.commit");
      if (connection.lostError !== null) throw connection.lostError;
    } catch (error) {
      return await this.#fail(turn, { outcome: "failed", fault: turnFault(this.#address, opened, error) });
    }
    try {
      this.#passFailpoint("postgres.committing");
      const { cell, commandTag: ended } = await connection.execute(commitTurnSql, payload.values, true);
      this.#passFailpoint("postgres.committed");
      if (ended !== "COMMIT") throw new Error(`the server answered COMMIT with ${ended}`);
      this.#finish(turn);
      this.#stats.commits++;
      this.#outcomes.set(number, "committed");
      const first = firstPositions(payload, JSON.parse(cell ?? "null") as number[] | null);
      for (const tenant of first.keys()) this.hintListener({ type: "log", tenant });
      opened.hints.publish(payload.lines, first.keys(), payload.hasMail);
      return { outcome: "committed", first };
    } catch (error) {
      if (isConnectionLost(error)) return this.#markUnknown(turn, number);
      return await this.#fail(turn, await diagnoseRefusedCommit(turn, units, error, this.#address, opened));
    }
  }

  async settle(turn: number): Promise<SettledOutcome> {
    const opened = this.requireOpen();
    const unsettled = this.#unsettled.get(turn);
    if (unsettled === undefined) return this.#outcomes.get(turn) ?? "absent";
    const { pooled } = unsettled;
    let outcome: SettledOutcome;
    try {
      outcome = await settleTurn(await opened.pool.connect(pooled), opened, turn, unsettled);
    } catch (error) {
      pooled.connection?.destroy();
      if (error instanceof Fault && error.code === "E.STORE.IN_USE") throw error;
      throw notSettledFault(turn, redactedMessage(this.#address, error), error);
    }
    this.#unsettled.delete(turn);
    this.#outcomes.set(turn, outcome);
    opened.pool.release(pooled);
    return outcome;
  }

  stats(): Readonly<PostgresStats> {
    return { ...this.#stats };
  }

  async trim(tenant: Tenant, floor: Position): Promise<number> {
    return await this.#withConnection((connection) => trimLog(connection, tenant, floor));
  }

  async remove(slice: RemovalSlice): Promise<RemovalOutcome> {
    const { timeScale = 1, aheadMs = () => 0 } = this.#options;
    const { born } = this.requireOpen();
    const instant = `extract(epoch FROM clock_timestamp())::float8 * 1000`;
    const nowSql = `floor(${born} + (${instant} - ${born}) * ${timeScale} + ${aheadMs()})::bigint`;
    return await this.#withConnection((connection) => removeOldRows(connection, nowSql, slice));
  }

  async trimChunks(before: Millis): Promise<number> {
    return await this.#withConnection((connection) => trimChunks(connection, before));
  }

  /** Work beside the turns, on a lane that none of them uses meanwhile. */
  async #withConnection<T>(work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const opened = this.requireOpen();
    const pooled = await opened.pool.acquire();
    try {
      return await work(await opened.pool.connect(pooled));
    } catch (error) {
      pooled.connection?.destroy();
      throw turnFault(this.#address, opened, error);
    } finally {
      opened.pool.release(pooled);
    }
  }

  async close(): Promise<void> {
    const opened = this.opened;
    if (opened === null) return;
    this.opened = null;
    // As when the process dies: what was not committed is rolled back, a commit that is under way goes its way.
    for (const turn of this.#turns) turn.connection.destroy();
    this.#turns.clear();
    await opened.hints.close();
    await opened.reader.close();
    await opened.pool.close();
  }

  async #beginOn(opened: OpenedPostgres, pooled: PooledConnection, want: TurnRequest): Promise<PostgresTurn> {
    const { epoch, born } = opened;
    const replica = textLiteral(opened.replica);
    const { timeScale: scale = 1, aheadMs = () => 0 } = this.#options;
    const begin = async (connection: PostgresConnection) => {
      if (this.opened !== opened) throw new Error("the store was closed");
      this.#passFailpoint("postgres.begin");
      const leadMs = this.#clockLead.ms;
      const caller = { replica, epoch, nonce: connection.nonce, born, scale, ahead: aheadMs() + leadMs };
      const request = createBeginRequest(want, caller, () => false);
      const [, result] = await connection.query(`${beginTransactionSql}; SELECT ${request.callSql}`, 2);
      this.#passFailpoint("postgres.begun");
      const reply = this.#countRows(result?.rows[0]?.[0] as TurnBeginReply);
      if (reply.now !== null && reply.instant !== null) this.#clockLead.observe(reply.instant - leadMs, reply.now);
      return new PostgresTurn({ host: this, pooled, connection, replica: opened, want, request, reply });
    };
    try {
      return await opened.pool.work(pooled, begin, (error) => !(error instanceof Fault) && isConnectionLost(error));
    } catch (error) {
      throw error instanceof Fault ? error : turnFault(this.#address, opened, error);
    }
  }

  /** Nothing was written, and the server says so. */
  async #fail(turn: PostgresTurn, answer: Extract<CommitOutcome, { outcome: "failed" }>): Promise<CommitOutcome> {
    await this.rollBack(turn);
    return answer;
  }

  /** The answer was lost; the transaction may not be. Its lane waits for `settle`. */
  #markUnknown(turn: PostgresTurn, number: number): CommitOutcome {
    turn.connection.destroy();
    turn.pooled.connection = null;
    this.#turns.delete(turn);
    this.#unsettled.set(number, { pooled: turn.pooled, nonce: turn.connection.nonce });
    this.opened?.pool.setAside(turn.pooled);
    return { outcome: "unknown" };
  }

  async rollBack(turn: PostgresTurn): Promise<void> {
    if (!this.#turns.has(turn)) return;
    try {
      if (turn.connection.lostError === null) await turn.connection.query("ROLLBACK", 1);
    } catch {
      turn.connection.destroy();
    }
    this.#finish(turn);
  }

  #finish(turn: PostgresTurn): void {
    if (!this.#turns.delete(turn)) return;
    if (turn.connection.lostError !== null) turn.pooled.connection = null;
    this.opened?.pool.release(turn.pooled);
  }

  #connect(): Promise<PostgresConnection> {
    const config = { ...this.#address.config, query_timeout: answerMsMax };
    return PostgresConnection.connect({ ...this.#address, config }, checkServer, this.#stats);
  }

  #countRows(reply: TurnBeginReply): TurnBeginReply {
    for (const rows of Object.values(reply)) if (Array.isArray(rows) && Array.isArray(rows[0])) this.#stats.rows += rows.length;
    return reply;
  }

  #passFailpoint(name: string): void {
    this.#options.failpoint?.(name);
  }
}
