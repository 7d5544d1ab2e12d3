// The simulator's store: tables that several handles share. `strong` has a single writer, like sqlite; `weak` has busy roots, concurrent turns
// and lost answers, as PostgreSQL does. Randomness, time and delays are passed in; no timers are used.

import type {
  EventPage,
  EventQuery,
  Mail,
  Millis,
  PageOf,
  PageQuery,
  Position,
  RemovalOutcome,
  RemovalSlice,
  RowKey,
  Store,
  StoreHint,
  Tenant,
  TurnRequest,
  TurnTransaction,
} from "@astraflow/engine";
import type { Fault } from "@astraflow/protocol";
import { type ClockSource, type StoreClock, slewedClock } from "../common/slewed-clock.ts";
import { foreignClusterFault, supersededFault } from "../common/store-faults.ts";
import { readEvents, readPage } from "./reader.ts";
import { removeOldRows } from "./removal.ts";
import { MemoryTables } from "./tables.ts";
import { MemoryTurn } from "./turn.ts";

export type SimulatedCommitOutcome = "committed" | "failed" | "unknown-committed" | "unknown-absent";

/** Bugs that tests switch on to see that they are caught. */
export type StoreMutant = "sequence-positions" | "no-root-lock" | "drop-unit";

export interface StorePausePoint {
  /** `late`: after "unknown" was answered, before the transaction is over. */
  readonly step: "begin" | "commit" | "late";
  readonly replica: string;
  /** Zero at `begin`, where the turn has no number yet. */
  readonly turn: number;
}

export interface MemoryClusterOptions {
  readonly mode: "strong" | "weak";
  readonly random: { random(): number };
  readonly clock: ClockSource;
  /** How often a free root is called busy, a commit fails, or its answer is lost (half of these commits are written). */
  readonly rates?: { readonly busy?: number; readonly fail?: number; readonly unknown?: number };
  /** Decides the outcome of one commit; undefined leaves it to the rates. */
  readonly scriptedOutcome?: (at: StorePausePoint) => SimulatedCommitOutcome | undefined;
  /** Awaited at each step, so that a test decides in which order things become visible. */
  readonly pauseAt?: (at: StorePausePoint) => Promise<void> | undefined;
  readonly mutant?: StoreMutant;
}

/** The tables and what else the handles share. */
export class MemoryCluster {
  readonly tables = new MemoryTables();
  readonly clock: StoreClock;
  readonly options: MemoryClusterOptions;
  readonly handles = new Set<MemoryHandle>();
  /** Roots and the turn that holds each until it is over. */
  readonly taken = new Map<RowKey, MemoryTurn>();
  readonly mailTaken = new Set<Mail>();
  turnsInFlight = 0;

  constructor(options: MemoryClusterOptions) {
    this.options = options;
    this.clock = slewedClock(options.clock, 0);
  }

  createHandle(): Store {
    return new MemoryHandle(this);
  }

  /** Rows looked at by claims. */
  get rowsRead(): number {
    return this.tables.rowsRead;
  }

  /** Removes the log of a tenant up to a position, as retention does. */
  trim(tenant: Tenant, floor: Position): void {
    const state = this.tables.tenant(tenant);
    state.floor = Math.max(state.floor, Math.min(floor, state.position));
    for (const row of [...state.log]) if (row.last <= state.floor) state.log.remove(row);
  }

  /** Removes what tasks printed before an instant. */
  trimChunks(before: Millis): void {
    this.tables.dropChunks(before);
  }

  get isWeak(): boolean {
    return this.options.mode === "weak";
  }

  isRandomlyBusy(): boolean {
    return this.isWeak && this.#happensAtRate(this.options.rates?.busy);
  }

  chooseOutcome(at: StorePausePoint): SimulatedCommitOutcome {
    const scripted = this.options.scriptedOutcome?.(at);
    if (scripted !== undefined) return scripted;
    if (this.#happensAtRate(this.options.rates?.fail)) return "failed";
    if (this.#happensAtRate(this.options.rates?.unknown))
      return this.options.random.random() < 0.5 ? "unknown-committed" : "unknown-absent";
    return "committed";
  }

  /** Log hints go to every handle, the writer's included; hints about queues and mail go only to the others. */
  sendHints(from: MemoryHandle, hints: readonly StoreHint[]): void {
    for (const handle of this.handles)
      for (const hint of hints) if (handle !== from || hint.type === "log") handle.hintListener(hint);
  }

  #happensAtRate(rate: number | undefined): boolean {
    return rate !== undefined && rate > 0 && this.options.random.random() < rate;
  }
}

export class MemoryHandle implements Store {
  readonly cluster: MemoryCluster;
  replica = "";
  epoch = 0;
  /** Turns answered "unknown" whose transaction may still be under way. */
  readonly unsettledTurns = new Map<number, Promise<void>>();
  /** Turns under way. */
  readonly turns = new Set<MemoryTurn>();
  hintListener: (hint: StoreHint) => void = () => undefined;

  constructor(cluster: MemoryCluster) {
    this.cluster = cluster;
  }

  async open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    const { tables } = this.cluster;
    tables.cluster ??= me.cluster;
    if (tables.cluster !== me.cluster) throw foreignClusterFault("the store", tables.cluster, me.cluster);
    const state = tables.replicas.get(me.replica) ?? { epoch: 0, lastTurn: 0, turns: new Set<number>() };
    state.epoch++;
    tables.replicas.set(me.replica, state);
    // Nobody reads the mail of an epoch that is over; its workers come back and are told again from their rows.
    tables.mail = tables.mail.filter((mail) => mail.replica !== me.replica || mail.epoch >= state.epoch);
    this.replica = me.replica;
    this.epoch = state.epoch;
    this.cluster.handles.add(this);
    return { epoch: state.epoch, lastTurn: state.lastTurn };
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    if (this.epoch === 0) throw new Error("the store was not opened");
    if (!this.cluster.isWeak && this.cluster.turnsInFlight > 0)
      throw new Error("a turn is under way: this store takes one at a time");
    this.cluster.turnsInFlight++;
    await this.cluster.options.pauseAt?.({ step: "begin", replica: this.replica, turn: 0 });
    return new MemoryTurn(this, want);
  }

  async settle(turn: number): Promise<"committed" | "absent"> {
    await this.unsettledTurns.get(turn);
    this.unsettledTurns.delete(turn);
    return this.cluster.tables.replicas.get(this.replica)?.turns.has(turn) ? "committed" : "absent";
  }

  /** Why this handle may no longer write: its replica was opened again and the new one has taken over. */
  supersededFault(): Fault | null {
    const current = this.cluster.tables.replicas.get(this.replica)?.epoch ?? 0;
    return current === this.epoch ? null : supersededFault(this.replica, this.epoch, current);
  }

  async events(query: EventQuery): Promise<EventPage> {
    return readEvents(this.cluster.tables, query);
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return readPage(this.cluster.tables, query);
  }

  async remove(slice: RemovalSlice): Promise<RemovalOutcome> {
    const { tables, clock, taken } = this.cluster;
    const superseded = this.supersededFault();
    if (superseded !== null) throw superseded;
    return removeOldRows({ tables, now: clock.now(), isTaken: (root) => taken.has(root) }, slice);
  }

  onHint(listener: (hint: StoreHint) => void): void {
    this.hintListener = listener;
  }

  /** As when a connection ends: what was not committed is rolled back; a commit that is under way goes its way. */
  async close(): Promise<void> {
    this.cluster.handles.delete(this);
    for (const turn of [...this.turns]) await turn.abort();
  }
}
