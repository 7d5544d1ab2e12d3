// A plain user of a store, as the driver is: one replica, rising turn numbers, rows asked for before they are used.

import assert from "node:assert/strict";
import {
  type ChangeSet,
  type CommitOutcome,
  type EventPage,
  type LoggedFact,
  type Row,
  type RowKey,
  type Store,
  splitKey,
  type TurnRequest,
  type TurnTransaction,
} from "@astraflow/engine";
import type { StoreFixture } from "./stage.ts";

const emptyWant: TurnRequest = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };

export class StoreClient {
  readonly store: Store;
  readonly replica: string;
  readonly epoch: number;
  readonly lastTurn: number;
  #turn: number;

  private constructor(store: Store, replica: string, opened: { epoch: number; lastTurn: number }) {
    this.store = store;
    this.replica = replica;
    this.epoch = opened.epoch;
    this.lastTurn = opened.lastTurn;
    this.#turn = opened.lastTurn;
  }

  static async open(fixture: StoreFixture, replica = "a", cluster = "test"): Promise<StoreClient> {
    const store = fixture.createHandle();
    return new StoreClient(store, replica, await store.open({ replica, cluster }));
  }

  /** The number the next commit will carry. */
  get nextTurn(): number {
    return this.#turn + 1;
  }

  begin(want: Partial<TurnRequest> = {}): Promise<TurnTransaction> {
    return this.store.begin({ ...emptyWant, ...want });
  }

  commit(tx: TurnTransaction, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    this.#turn++;
    return tx.commit(this.#turn, units);
  }

  /** A whole turn that must be committed. */
  async write(...units: readonly ChangeSet[]): Promise<Extract<CommitOutcome, { outcome: "committed" }>> {
    const tx = await this.begin({ rows: units.flatMap((one) => one.roots) });
    const committed = await this.commit(tx, units);
    assert.equal(committed.outcome, "committed", `turn ${this.#turn} of ${this.replica}: ${JSON.stringify(committed)}`);
    return committed as Extract<CommitOutcome, { outcome: "committed" }>;
  }

  /** Committed rows, read by a turn that changes nothing. */
  async read(...keys: readonly RowKey[]): Promise<(Row | null | "busy" | undefined)[]> {
    const tx = await this.begin({ rows: keys });
    const rows = keys.map((key) => tx.row(...splitKey(key)));
    await tx.abort();
    return rows;
  }

  async readOne<R extends Row>(key: RowKey): Promise<R> {
    const [row] = await this.read(key);
    assert.ok(row !== null && row !== undefined && row !== "busy", `${key} should be there, but is ${String(row)}`);
    return row as R;
  }

  /** The whole log after a cursor, page by page. */
  async readLog(tenant: string, after = 0, limit = 100): Promise<LoggedFact[]> {
    const entries: LoggedFact[] = [];
    for (let cursor = after; ; ) {
      const page: EventPage = await this.store.events({ tenant, after: cursor, limit });
      entries.push(...page.items);
      if (page.items.length === 0) return entries;
      assert.ok(page.next > cursor, `the page after ${cursor} leads to ${page.next}`);
      cursor = page.next;
    }
  }
}

/** Opens a stage, runs a case on it, and closes it however the case ends. */
export async function withFixture(
  createFixture: () => Promise<StoreFixture>,
  use: (fixture: StoreFixture) => Promise<void>,
): Promise<void> {
  const fixture = await createFixture();
  try {
    await use(fixture);
  } finally {
    await fixture.close();
  }
}
