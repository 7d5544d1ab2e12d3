// One scheduler's connection to the store: answers wait for a paused process and never reach a dead one, hints arrive late or not at all, and the server
// ends a transaction that its owner leaves open for too long.

import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";

/** As `idle_in_transaction_session_timeout` on the server. */
export const idleTransactionMs = 5_000;
/** A hint takes up to so long. */
const hintDelayMsMax = 20;

interface OpenTransaction {
  readonly tx: TurnTransaction;
  isEnded: boolean;
}

export class StoreConnection {
  readonly store: Store;
  readonly #inner: Store;
  readonly #eventLoop: ProcessEventLoop;
  readonly #openTransactions = new Set<OpenTransaction>();
  /** Set while the server cannot be reached: resolves when it can again. */
  #outage: PromiseWithResolvers<void> | null = null;
  #isNextTransactionLost = false;

  constructor(inner: Store, eventLoop: ProcessEventLoop, timeline: Timeline, hints: { dice: SeededRandom; lostShare: number }) {
    const { dice: random, lostShare } = hints;
    this.#inner = inner;
    this.#eventLoop = eventLoop;
    this.store = {
      open: (me) => this.#request(() => inner.open(me)),
      begin: async (want) => {
        await this.#waitUntilReachable();
        if (eventLoop.hasEnded) return neverResolves();
        const tx = await inner.begin(want);
        const open: OpenTransaction = { tx, isEnded: false };
        this.#openTransactions.add(open);
        if (eventLoop.hasEnded) await tx.abort();
        else if (this.#isNextTransactionLost) this.endOpenTransactions();
        this.#isNextTransactionLost = false;
        await this.#waitUntilAnswerArrives();
        return this.#wrapTransaction(open);
      },
      settle: (turn) => this.#request(() => inner.settle(turn)),
      remove: (slice) => this.#request(() => inner.remove(slice)),
      events: (query) => this.#request(() => inner.events(query)),
      page: (query) => this.#request(() => inner.page(query)),
      onHint: (listener) =>
        inner.onHint((hint) => {
          if (random.chance(lostShare)) return;
          timeline.after(random.random() * hintDelayMsMax, () => eventLoop.deliver(() => listener(hint)));
        }),
      close: () => inner.close(),
    };
  }

  /** The process is dead: its connection ends, and with it what was not committed. A commit under way goes its own way. */
  closeAfterProcessEnd(): void {
    this.#openTransactions.clear();
    // Closing only rolls back, at once; there is nobody left to tell.
    void this.#inner.close();
  }

  /** Nothing gets through, either way, until the answer is called. Nothing is lost either, but the server does not wait for ever. */
  beginOutage(timeline: Timeline): () => void {
    const cut = Promise.withResolvers<void>();
    this.#outage = cut;
    timeline.after(idleTransactionMs, () => {
      if (this.#outage === cut) this.endOpenTransactions();
    });
    return () => {
      if (this.#outage === cut) this.#outage = null;
      cut.resolve();
    };
  }

  /** The connection of the next transaction is lost as soon as it has begun. */
  loseNextTransaction(): void {
    this.#isNextTransactionLost = true;
  }

  /** The server ends transactions whose owner has been silent for too long. */
  endOpenTransactions(): void {
    for (const open of this.#openTransactions) {
      open.isEnded = true;
      void open.tx.abort();
    }
    this.#openTransactions.clear();
  }

  #wrapTransaction(open: OpenTransaction): TurnTransaction {
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
        this.#request(() => (open.isEnded ? Promise.reject(transactionEndedFault()) : tx.loadMore(rows, lists, addresses))),
      commit: (turn, units) =>
        this.#request<CommitOutcome>(() => {
          if (open.isEnded) return Promise.resolve({ outcome: "failed", fault: transactionEndedFault() });
          this.#openTransactions.delete(open);
          return tx.commit(turn, units);
        }),
      abort: async () => {
        this.#openTransactions.delete(open);
        if (!open.isEnded) await tx.abort();
      },
    };
  }

  async #request<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#outage !== null || this.#eventLoop.hasEnded) await this.#waitUntilReachable();
    const answer = await ask();
    await this.#waitUntilAnswerArrives();
    return answer;
  }

  /** A request leaves once the server can be reached; that of a dead process never. */
  async #waitUntilReachable(): Promise<void> {
    while (this.#outage !== null) await this.#outage.promise;
    if (this.#eventLoop.hasEnded) await neverResolves();
  }

  async #waitUntilAnswerArrives(): Promise<void> {
    while (this.#outage !== null) await this.#outage.promise;
    // Held again while it was on its way: it waits again.
    for (let wait = this.#eventLoop.whenRunning(); wait !== null; wait = this.#eventLoop.whenRunning()) await wait;
  }
}

const neverResolves = (): Promise<never> => new Promise(() => undefined);
const transactionEndedFault = () => fault("E.STORE.BUSY", "the server ended a transaction that stood open too long");
