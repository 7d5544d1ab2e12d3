// One scheduler's way to the store: answers wait for a process that is held and never reach one that is dead, hints come late or not
// at all, and a transaction that its owner leaves open too long is ended by the server.

import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { Dice } from "./dice.ts";
import type { Life } from "./life.ts";
import type { Timeline } from "./timeline.ts";

/** As `idle_in_transaction_session_timeout` on the server. */
export const idleTransactionMs = 5_000;
/** A hint takes up to so long. */
const hintMs = 20;

interface OpenTx {
  readonly tx: TurnTransaction;
  isEnded: boolean;
}

export class StoreAccess {
  readonly store: Store;
  readonly #inner: Store;
  readonly #life: Life;
  readonly #open = new Set<OpenTx>();
  /** Set while the server cannot be reached: resolves when it can again. */
  #cut: PromiseWithResolvers<void> | null = null;
  #isNextBroken = false;

  constructor(inner: Store, life: Life, timeline: Timeline, hints: { dice: Dice; lostShare: number }) {
    const { dice, lostShare } = hints;
    this.#inner = inner;
    this.#life = life;
    this.store = {
      open: (me) => this.#ask(() => inner.open(me)),
      begin: async (want) => {
        await this.#departure();
        if (life.isOver) return never();
        const tx = await inner.begin(want);
        const open: OpenTx = { tx, isEnded: false };
        this.#open.add(open);
        if (life.isOver) await tx.abort();
        else if (this.#isNextBroken) this.endIdle();
        this.#isNextBroken = false;
        await this.#arrival();
        return this.#wrap(open);
      },
      settle: (turn) => this.#ask(() => inner.settle(turn)),
      events: (query) => this.#ask(() => inner.events(query)),
      page: (query) => this.#ask(() => inner.page(query)),
      onHint: (hear) =>
        inner.onHint((hint) => {
          if (dice.chance(lostShare)) return;
          timeline.after(dice.roll() * hintMs, () => life.hear(() => hear(hint)));
        }),
      close: () => inner.close(),
    };
  }

  /** The process is dead: its connection ends, and with it what was not committed. A commit under way goes its own way. */
  drop(): void {
    this.#open.clear();
    // Closing only rolls back, at once; there is nobody left to tell.
    void this.#inner.close();
  }

  /** Nothing gets through, either way, until the answer is called. Nothing is lost either, but the server does not wait for ever. */
  cut(timeline: Timeline): () => void {
    const cut = Promise.withResolvers<void>();
    this.#cut = cut;
    timeline.after(idleTransactionMs, () => {
      if (this.#cut === cut) this.endIdle();
    });
    return () => {
      if (this.#cut === cut) this.#cut = null;
      cut.resolve();
    };
  }

  /** The connection of the next transaction is lost as soon as it has begun. */
  breakNext(): void {
    this.#isNextBroken = true;
  }

  /** The server ends transactions whose owner has been silent for too long. */
  endIdle(): void {
    for (const open of this.#open) {
      open.isEnded = true;
      void open.tx.abort();
    }
    this.#open.clear();
  }

  #wrap(open: OpenTx): TurnTransaction {
    const { tx } = open;
    return {
      now: tx.now,
      nextDue: tx.nextDue,
      claimed: tx.claimed,
      due: tx.due,
      mail: tx.mail,
      // Of a transaction that the server has ended nothing is known any more; whoever asks for it hears that it is gone.
      row: (kind, id) => (open.isEnded ? undefined : tx.row(kind, id)),
      tasks: (list) => (open.isEnded ? undefined : tx.tasks(list)),
      peekWorker: (worker) => (open.isEnded ? undefined : tx.peekWorker(worker)),
      loadMore: (rows, lists, addresses) =>
        this.#ask(() => (open.isEnded ? Promise.reject(gone()) : tx.loadMore(rows, lists, addresses))),
      commit: (turn, units) =>
        this.#ask<CommitOutcome>(() => {
          if (open.isEnded) return Promise.resolve({ outcome: "failed", fault: gone() });
          this.#open.delete(open);
          return tx.commit(turn, units);
        }),
      abort: async () => {
        this.#open.delete(open);
        if (!open.isEnded) await tx.abort();
      },
    };
  }

  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#cut !== null || this.#life.isOver) await this.#departure();
    const answer = await ask();
    await this.#arrival();
    return answer;
  }

  /** A request leaves once the server can be reached; that of a dead process never. */
  async #departure(): Promise<void> {
    while (this.#cut !== null) await this.#cut.promise;
    if (this.#life.isOver) await never();
  }

  async #arrival(): Promise<void> {
    while (this.#cut !== null) await this.#cut.promise;
    // Held again while it was on its way: it waits again.
    for (let wait = this.#life.arrival(); wait !== null; wait = this.#life.arrival()) await wait;
  }
}

const never = (): Promise<never> => new Promise(() => undefined);
const gone = () => fault("E.STORE.BUSY", "the server ended a transaction that stood open too long");
