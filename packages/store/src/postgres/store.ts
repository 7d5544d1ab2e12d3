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
import { checkUnits } from "../unit-check.ts";
import { type Address, readAddress } from "./address.ts";
import type { Reply } from "./answer.ts";
import { beginText, blame } from "./blame.ts";
import { type Entry, enter } from "./entry.ts";
import { HintPost } from "./hints.ts";
import { type Lane, Lanes } from "./lanes.ts";
import { Lead } from "./lead.ts";
import { isEndOfSession, Link, messageOf, type PostgresStats } from "./link.ts";
import { commitText } from "./migrations.ts";
import type { PostgresOptions, PostgresStore, postgresFailpoints } from "./options.ts";
import { firstPositions, payloadOf } from "./payload.ts";
import { openPostgresReader } from "./reader.ts";
import { type Request, requestOf } from "./request.ts";
import { checkServer } from "./server-check.ts";
import { type Outcome, Outcomes, settleTurn, type Unsettled } from "./settlement.ts";
import { trimChunks, trimLog } from "./trim.ts";
import { PostgresTurn, type TurnEnd } from "./turn.ts";
import { faultOf, openFault } from "./verdict.ts";

const lanesDefault = 4;
/** Longer than the server lets any statement run: past this the network is gone, not the server slow. */
const answerMsMax = 12_000;

export function openPostgres(options: PostgresOptions): PostgresStore {
  return new SharedStore(options);
}

interface Opened extends Entry {
  readonly replica: string;
  readonly lanes: Lanes;
  readonly reader: StoreReader;
  readonly hints: HintPost;
}

class SharedStore implements PostgresStore, TurnEnd {
  readonly #options: PostgresOptions;
  readonly #address: Address;
  readonly #stats: PostgresStats = { turns: 0, commits: 0, statements: 0, roundTrips: 0, rows: 0 };
  readonly #turns = new Set<PostgresTurn>();
  readonly #lead = new Lead();
  readonly #unsettled = new Map<number, Unsettled>();
  readonly #outcomes = new Outcomes();
  #opened: Opened | null = null;
  #hear: (hint: StoreHint) => void = () => undefined;

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.#address = readAddress(options.url);
  }

  async open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    if (this.#opened !== null) throw new Error("the store is open already");
    const laneCount = this.#options.lanes ?? lanesDefault;
    let link: Link | null = null;
    let entry: Entry;
    try {
      link = await this.#connect();
      entry = await enter(link, me, laneCount, (name) => this.#step(name));
    } catch (error) {
      link?.cut();
      throw openFault(this.#address, error);
    }
    const lanes = new Lanes(laneCount, () => this.#connect());
    const first = await lanes.take();
    first.link = link;
    lanes.give(first);
    const hints = new HintPost(this.#address, (hint) => this.#hear(hint));
    const { url, searchedRows } = this.#options;
    const reader = openPostgresReader({ url, ...(searchedRows === undefined ? {} : { searchedRows }) });
    this.#opened = { ...entry, replica: me.replica, lanes, reader, hints };
    await hints.start();
    return { epoch: entry.epoch, lastTurn: entry.lastTurn };
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    const opened = this.#mustOpen();
    const lane = await opened.lanes.take();
    try {
      const turn = await this.#beginOn(opened, lane, want);
      this.#turns.add(turn);
      this.#stats.turns++;
      return turn;
    } catch (error) {
      opened.lanes.give(lane);
      throw error;
    }
  }

  async more(turn: PostgresTurn, request: Request): Promise<Reply> {
    const opened = this.#mustOpen();
    try {
      const [result] = await turn.link.query(`SELECT ${request.call}`, 1);
      return this.#count(result?.rows[0]?.[0] as Reply);
    } catch (error) {
      throw faultOf(this.#address, opened.replica, opened.epoch, error);
    }
  }

  async commit(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    const opened = this.#mustOpen();
    const { replica, epoch } = opened;
    const { lane, link } = turn;
    const sign = { replica, epoch, lane: lane.number, turn: number, now: turn.now };
    const bad = checkUnits(units, (root) => turn.hasTaken(root));
    const payload = bad ?? payloadOf(units, turn, sign, turn.mailSeqs);
    if ("unit" in payload) return await this.#fail(turn, { outcome: "failed", unit: payload.unit, fault: payload.fault });
    try {
      this.#step("postgres.commit");
      if (link.lost !== null) throw link.lost;
    } catch (error) {
      return await this.#fail(turn, { outcome: "failed", fault: faultOf(this.#address, replica, epoch, error) });
    }
    try {
      this.#step("postgres.committing");
      const { answer, ended } = await link.call(commitText, payload.values, true);
      this.#step("postgres.committed");
      if (ended !== "COMMIT") throw new Error(`the server answered COMMIT with ${ended}`);
      this.#finish(turn);
      this.#stats.commits++;
      this.#outcomes.remember(number, "committed");
      const first = firstPositions(payload, JSON.parse(answer ?? "null") as number[] | null);
      for (const tenant of first.keys()) this.#hear({ type: "log", tenant });
      opened.hints.tell({ lines: payload.lines, tenants: [...first.keys()], hasMail: payload.hasMail });
      return { outcome: "committed", first };
    } catch (error) {
      if (isEndOfSession(error)) return this.#lose(turn, number);
      return await this.#fail(turn, await blame(turn, units, error, this.#address, opened));
    }
  }

  async abort(turn: PostgresTurn): Promise<void> {
    if (this.#turns.has(turn)) await this.#rollBack(turn);
  }

  async settle(turn: number): Promise<Outcome> {
    const opened = this.#mustOpen();
    const unsettled = this.#unsettled.get(turn);
    if (unsettled === undefined) return this.#outcomes.of(turn);
    const { lane } = unsettled;
    let outcome: Outcome;
    try {
      outcome = await settleTurn(await opened.lanes.linkOf(lane), opened, turn, unsettled);
    } catch (error) {
      lane.link?.cut();
      if (error instanceof Fault && error.code === "E.STORE.IN_USE") throw error;
      throw fault(
        "E.STORE.UNKNOWN_OUTCOME",
        `turn ${turn} cannot be settled yet: ${messageOf(this.#address, error)}`,
        { turn },
        error,
      );
    }
    this.#unsettled.delete(turn);
    this.#outcomes.remember(turn, outcome);
    opened.lanes.give(lane);
    return outcome;
  }

  events(query: EventQuery): Promise<EventPage> {
    return this.#mustOpen().reader.events(query);
  }

  page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#mustOpen().reader.page(query);
  }

  onHint(hear: (hint: StoreHint) => void): void {
    this.#hear = hear;
  }

  stats(): Readonly<PostgresStats> {
    return { ...this.#stats };
  }

  async trim(tenant: Tenant, floor: Position): Promise<number> {
    return await this.#onLane((link) => trimLog(link, tenant, floor));
  }

  async trimChunks(before: Millis): Promise<number> {
    return await this.#onLane((link) => trimChunks(link, before));
  }

  /** Work beside the turns, on a lane that none of them uses meanwhile. */
  async #onLane<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const { lanes, replica, epoch } = this.#mustOpen();
    const lane = await lanes.take();
    try {
      return await work(await lanes.linkOf(lane));
    } catch (error) {
      lane.link?.cut();
      throw faultOf(this.#address, replica, epoch, error);
    } finally {
      lanes.give(lane);
    }
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    if (opened === null) return;
    this.#opened = null;
    // As when the process dies: what was not committed is rolled back, a commit that is under way goes its way.
    for (const turn of this.#turns) turn.link.cut();
    this.#turns.clear();
    await opened.hints.close();
    await opened.reader.close();
    await opened.lanes.close();
  }

  /** A connection that died while nobody used it is replaced without a word; one that dies again is news. */
  async #beginOn(opened: Opened, lane: Lane, want: TurnRequest): Promise<PostgresTurn> {
    const { replica, epoch, born } = opened;
    for (let tries = 1; ; tries++) {
      const isFresh = lane.link === null || lane.link.lost !== null;
      let link: Link | null = null;
      try {
        link = await opened.lanes.linkOf(lane);
        if (this.#opened !== opened) throw new Error("the store was closed");
        this.#step("postgres.begin");
        const lead = this.#lead.ms;
        const asker = {
          replica,
          epoch,
          nonce: link.nonce,
          born,
          scale: this.#options.timeScale ?? 1,
          ahead: (this.#options.aheadMs?.() ?? 0) + lead,
        };
        const request = requestOf(want, asker, () => false);
        const [, result] = await link.query(`${beginText}; SELECT ${request.call}`, 2);
        this.#step("postgres.begun");
        const reply = this.#count(result?.rows[0]?.[0] as Reply);
        if (reply.now !== null && reply.instant !== null) this.#lead.hear(reply.instant - lead, reply.now);
        return new PostgresTurn(this, lane, link, opened, { want, request, reply });
      } catch (error) {
        // Whatever state the connection is in, its end is the end of the transaction.
        link?.cut();
        lane.link = null;
        if (error instanceof Fault) throw error;
        if (isFresh || tries > 1 || !isEndOfSession(error)) throw faultOf(this.#address, replica, epoch, error);
      }
    }
  }

  /** Nothing was written, and the server says so. */
  async #fail(turn: PostgresTurn, answer: Extract<CommitOutcome, { outcome: "failed" }>): Promise<CommitOutcome> {
    await this.#rollBack(turn);
    return answer;
  }

  /** The answer was lost; the transaction may not be. Its lane waits for `settle`. */
  #lose(turn: PostgresTurn, number: number): CommitOutcome {
    turn.link.cut();
    turn.lane.link = null;
    this.#turns.delete(turn);
    this.#unsettled.set(number, { lane: turn.lane, nonce: turn.link.nonce });
    this.#opened?.lanes.park(turn.lane);
    return { outcome: "unknown" };
  }

  async #rollBack(turn: PostgresTurn): Promise<void> {
    try {
      if (turn.link.lost === null) await turn.link.query("ROLLBACK", 1);
    } catch {
      turn.link.cut();
    }
    this.#finish(turn);
  }

  #finish(turn: PostgresTurn): void {
    if (!this.#turns.delete(turn)) return;
    if (turn.link.lost !== null) turn.lane.link = null;
    this.#opened?.lanes.give(turn.lane);
  }

  async #connect(): Promise<Link> {
    const link = await Link.connect(
      { ...this.#address, config: { ...this.#address.config, query_timeout: answerMsMax } },
      this.#stats,
    );
    try {
      await checkServer(link);
      return link;
    } catch (error) {
      link.cut();
      throw error;
    }
  }

  #count(reply: Reply): Reply {
    for (const rows of Object.values(reply)) if (Array.isArray(rows) && Array.isArray(rows[0])) this.#stats.rows += rows.length;
    return reply;
  }

  #step(name: (typeof postgresFailpoints)[number] | string): void {
    this.#options.failpoint?.(name);
  }

  #mustOpen(): Opened {
    if (this.#opened === null) throw new Error("the store is not open");
    return this.#opened;
  }
}
