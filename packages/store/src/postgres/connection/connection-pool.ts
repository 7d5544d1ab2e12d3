// A few connections, each used by one caller at a time; others wait. One whose commit has an unknown outcome is set aside until it is settled.

import { fault } from "@astraflow/protocol";
import type { PostgresConnection } from "./connection.ts";

export interface PooledConnection {
  readonly number: number;
  connection: PostgresConnection | null;
}

export class ConnectionPool {
  readonly #all: readonly PooledConnection[];
  readonly #free: PooledConnection[];
  readonly #setAside = new Set<PooledConnection>();
  readonly #waiting: PromiseWithResolvers<PooledConnection>[] = [];
  readonly #openConnection: () => Promise<PostgresConnection>;
  #isClosed = false;

  constructor(count: number, connect: () => Promise<PostgresConnection>) {
    this.#openConnection = connect;
    this.#all = Array.from({ length: count }, (_, number) => ({ number, connection: null }));
    // The last one given back is the first to be taken: its connection and its plans are warm.
    this.#free = [...this.#all].reverse();
  }

  async acquire(): Promise<PooledConnection> {
    if (this.#isClosed) throw new Error("the store is not open");
    const pooled = this.#free.pop();
    if (pooled !== undefined) return pooled;
    if (this.#setAside.size === this.#all.length) throw allUnsettledFault();
    const next = Promise.withResolvers<PooledConnection>();
    this.#waiting.push(next);
    return next.promise;
  }

  /**
   * Works on the lane's connection, which is cut where that fails: its end is the end of the transaction. A connection that died while
   * nobody used it is replaced without a word, and the work tried once more.
   */
  async work<T>(
    pooled: PooledConnection,
    work: (connection: PostgresConnection) => Promise<T>,
    mayRetry: (error: unknown) => boolean = () => true,
  ): Promise<T> {
    for (let tries = 1; ; tries++) {
      const isFresh = pooled.connection === null || pooled.connection.lostError !== null;
      try {
        return await work(await this.connect(pooled));
      } catch (error) {
        pooled.connection?.destroy();
        pooled.connection = null;
        if (isFresh || tries > 1 || !mayRetry(error)) throw error;
      }
    }
  }

  /** The lane's connection, a new one where it has none or lost it. */
  async connect(pooled: PooledConnection): Promise<PostgresConnection> {
    if (pooled.connection === null || pooled.connection.lostError !== null) pooled.connection = await this.#openConnection();
    return pooled.connection;
  }

  release(pooled: PooledConnection): void {
    this.#setAside.delete(pooled);
    const next = this.#waiting.shift();
    if (next !== undefined) next.resolve(pooled);
    else this.#free.push(pooled);
  }

  setAside(pooled: PooledConnection): void {
    this.#setAside.add(pooled);
    if (this.#setAside.size === this.#all.length) for (const next of this.#waiting.splice(0)) next.reject(allUnsettledFault());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const next of this.#waiting.splice(0)) next.reject(new Error("the store was closed"));
    for (const pooled of this.#all) {
      const { connection } = pooled;
      pooled.connection = null;
      await connection?.close();
    }
  }
}

function allUnsettledFault() {
  const message = "every connection has a commit with an unknown outcome; settle those turns before beginning another";
  return fault("E.STORE.UNKNOWN_OUTCOME", message);
}
