// The store that several schedulers share: turns side by side on a few lanes, durable when `commit` answers. Opening, beginning and what
// becomes of a commit are handled here; statements, tables, reads, and whose fault a refused commit is are in the files beside it.

import type {
  ChangeSet,
  CommitOutcome,
  EventPage,
  EventQuery,
  Millis,
  PageOf,
  PageQuery,
  Position,
  StoreHint,
  StoreReader,
  Tenant,
  TurnRequest,
  TurnTransaction,
} from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { findInvalidChangeSet } from "../common/change-set-check.ts";
import { type PostgresAddress, parsePostgresUrl } from "./connection/address.ts";
import { isConnectionLost, PostgresConnection, type PostgresStats, redactedMessage } from "./connection/connection.ts";
import { ConnectionPool, type PooledConnection } from "./connection/connection-pool.ts";
import { HintChannel } from "./connection/hint-channel.ts";
import { checkServer } from "./connection/server-check.ts";
import type { PostgresOptions, PostgresStore, postgresFailpoints } from "./options.ts";
import { openPostgresReader } from "./reader/reader.ts";
import { type RegisteredReplica, registerReplica } from "./setup/replica-registration.ts";
import { commitTurnSql } from "./sql/turn-functions.ts";
import { ClockLead } from "./turn/clock-lead.ts";
import { buildCommitPayload, firstPositions } from "./turn/commit-payload.ts";
import { beginTransactionSql, diagnoseRefusedCommit } from "./turn/refused-commit.ts";
import { trimChunks, trimLog } from "./turn/retention.ts";
import { openPostgresFault, turnFault } from "./turn/server-errors.ts";
import { createSettledOutcomes, type SettledOutcome, settleTurn, type UnsettledTurn } from "./turn/settlement.ts";
import { PostgresTurn, type PostgresTurnHost } from "./turn/turn.ts";
import type { TurnBeginReply } from "./turn/turn-begin-reply.ts";
import { type BeginRequest, createBeginRequest } from "./turn/turn-begin-request.ts";

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

class SharedPostgresStore implements PostgresStore, PostgresTurnHost {
  readonly #options: PostgresOptions;
  readonly #address: PostgresAddress;
  readonly #stats: PostgresStats = { turns: 0, commits: 0, statements: 0, roundTrips: 0, rows: 0 };
  readonly #turns = new Set<PostgresTurn>();
  readonly #clockLead = new ClockLead();
  readonly #unsettled = new Map<number, UnsettledTurn>();
  readonly #outcomes = createSettledOutcomes();
  #opened: OpenedPostgres | null = null;
  #hintListener: (hint: StoreHint) => void = () => undefined;

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#address = parsePostgresUrl(options.url);
  }

  async open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    if (this.#opened !== null) throw new Error("the store is open already");
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
    const hints = new HintChannel(this.#address, (hint) => this.#hintListener(hint));
    const { url, searchedRows } = this.#options;
    const reader = openPostgresReader({ url, ...(searchedRows === undefined ? {} : { searchedRows }) });
    this.#opened = { ...registered, replica: me.replica, pool, reader, hints };
    await hints.start();
    return { epoch: registered.epoch, lastTurn: registered.lastTurn };
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    const opened = this.#requireOpen();
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
    const opened = this.#requireOpen();
    try {
      const [result] = await turn.connection.query(`SELECT ${request.callSql}`, 1);
      return this.#countRows(result?.rows[0]?.[0] as TurnBeginReply);
    } catch (error) {
      throw turnFault(this.#address, opened.replica, opened.epoch, error);
    }
  }

  async commit(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    const opened = this.#requireOpen();
    const { replica, epoch } = opened;
    const { pooled, connection } = turn;
    const turnIdentity = { replica, epoch, lane: pooled.number, turn: number, now: turn.now };
    const bad = findInvalidChangeSet(units, (root) => turn.hasTaken(root));
    const payload = bad ?? buildCommitPayload(units, turn, turnIdentity, turn.mailSeqs);
    if ("unit" in payload) return await this.#fail(turn, { outcome: "failed", unit: payload.unit, fault: payload.fault });
    try {
      this.#passFailpoint("postgres.commit");
      if (connection.lostError !== null) throw connection.lostError;
    } catch (error) {
      return await this.#fail(turn, { outcome: "failed", fault: turnFault(this.#address, replica, epoch, error) });
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
      for (const tenant of first.keys()) this.#hintListener({ type: "log", tenant });
      opened.hints.publish({ lines: payload.lines, tenants: [...first.keys()], hasMail: payload.hasMail });
      return { outcome: "committed", first };
    } catch (error) {
      if (isConnectionLost(error)) return this.#markUnknown(turn, number);
      return await this.#fail(turn, await diagnoseRefusedCommit(turn, units, error, this.#address, opened));
    }
  }

  async abort(turn: PostgresTurn): Promise<void> {
    if (this.#turns.has(turn)) await this.#rollBack(turn);
  }

  async settle(turn: number): Promise<SettledOutcome> {
    const opened = this.#requireOpen();
    const unsettled = this.#unsettled.get(turn);
    if (unsettled === undefined) return this.#outcomes.get(turn) ?? "absent";
    const { pooled } = unsettled;
    let outcome: SettledOutcome;
    try {
      outcome = await settleTurn(await opened.pool.connect(pooled), opened, turn, unsettled);
    } catch (error) {
      pooled.connection?.destroy();
      if (error instanceof Fault && error.code === "E.STORE.IN_USE") throw error;
      throw fault(
        "E.STORE.UNKNOWN_OUTCOME",
        `turn ${turn} cannot be settled yet: ${redactedMessage(this.#address, error)}`,
        { turn },
        error,
      );
    }
    this.#unsettled.delete(turn);
    this.#outcomes.set(turn, outcome);
    opened.pool.release(pooled);
    return outcome;
  }

  events(query: EventQuery): Promise<EventPage> {
    return this.#requireOpen().reader.events(query);
  }

  page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#requireOpen().reader.page(query);
  }

  onHint(listener: (hint: StoreHint) => void): void {
    this.#hintListener = listener;
  }

  stats(): Readonly<PostgresStats> {
    return { ...this.#stats };
  }

  async trim(tenant: Tenant, floor: Position): Promise<number> {
    return await this.#withConnection((connection) => trimLog(connection, tenant, floor));
  }

  async trimChunks(before: Millis): Promise<number> {
    return await this.#withConnection((connection) => trimChunks(connection, before));
  }

  /** Work beside the turns, on a lane that none of them uses meanwhile. */
  async #withConnection<T>(work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const { pool, replica, epoch } = this.#requireOpen();
    const pooled = await pool.acquire();
    try {
      return await work(await pool.connect(pooled));
    } catch (error) {
      pooled.connection?.destroy();
      throw turnFault(this.#address, replica, epoch, error);
    } finally {
      pool.release(pooled);
    }
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    if (opened === null) return;
    this.#opened = null;
    // As when the process dies: what was not committed is rolled back, a commit that is under way goes its way.
    for (const turn of this.#turns) turn.connection.destroy();
    this.#turns.clear();
    await opened.hints.close();
    await opened.reader.close();
    await opened.pool.close();
  }

  /** A connection that died while nobody used it is replaced without a word; one that dies again is news. */
  async #beginOn(opened: OpenedPostgres, pooled: PooledConnection, want: TurnRequest): Promise<PostgresTurn> {
    const { replica, epoch, born } = opened;
    for (let tries = 1; ; tries++) {
      const isFresh = pooled.connection === null || pooled.connection.lostError !== null;
      let connection: PostgresConnection | null = null;
      try {
        connection = await opened.pool.connect(pooled);
        if (this.#opened !== opened) throw new Error("the store was closed");
        this.#passFailpoint("postgres.begin");
        const leadMs = this.#clockLead.ms;
        const caller = {
          replica,
          epoch,
          nonce: connection.nonce,
          born,
          scale: this.#options.timeScale ?? 1,
          ahead: (this.#options.aheadMs?.() ?? 0) + leadMs,
        };
        const request = createBeginRequest(want, caller, () => false);
        const [, result] = await connection.query(`${beginTransactionSql}; SELECT ${request.callSql}`, 2);
        this.#passFailpoint("postgres.begun");
        const reply = this.#countRows(result?.rows[0]?.[0] as TurnBeginReply);
        if (reply.now !== null && reply.instant !== null) this.#clockLead.observe(reply.instant - leadMs, reply.now);
        return new PostgresTurn(this, pooled, connection, opened, { want, request, reply });
      } catch (error) {
        // Whatever state the connection is in, its end is the end of the transaction.
        connection?.destroy();
        pooled.connection = null;
        if (error instanceof Fault) throw error;
        if (isFresh || tries > 1 || !isConnectionLost(error)) throw turnFault(this.#address, replica, epoch, error);
      }
    }
  }

  /** Nothing was written, and the server says so. */
  async #fail(turn: PostgresTurn, answer: Extract<CommitOutcome, { outcome: "failed" }>): Promise<CommitOutcome> {
    await this.#rollBack(turn);
    return answer;
  }

  /** The answer was lost; the transaction may not be. Its lane waits for `settle`. */
  #markUnknown(turn: PostgresTurn, number: number): CommitOutcome {
    turn.connection.destroy();
    turn.pooled.connection = null;
    this.#turns.delete(turn);
    this.#unsettled.set(number, { pooled: turn.pooled, nonce: turn.connection.nonce });
    this.#opened?.pool.setAside(turn.pooled);
    return { outcome: "unknown" };
  }

  async #rollBack(turn: PostgresTurn): Promise<void> {
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
    this.#opened?.pool.release(turn.pooled);
  }

  async #connect(): Promise<PostgresConnection> {
    const connection = await PostgresConnection.connect(
      { ...this.#address, config: { ...this.#address.config, query_timeout: answerMsMax } },
      this.#stats,
    );
    try {
      await checkServer(connection);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  #countRows(reply: TurnBeginReply): TurnBeginReply {
    for (const rows of Object.values(reply)) if (Array.isArray(rows) && Array.isArray(rows[0])) this.#stats.rows += rows.length;
    return reply;
  }

  #passFailpoint(name: (typeof postgresFailpoints)[number] | string): void {
    this.#options.failpoint?.(name);
  }

  #requireOpen(): OpenedPostgres {
    if (this.#opened === null) throw new Error("the store is not open");
    return this.#opened;
  }
}
