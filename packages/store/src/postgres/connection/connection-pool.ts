// A few connections, each in one pair of hands at a time: who finds none free waits in line for one. A lane whose turn was not
// answered is set apart until somebody has found out what became of it.

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

const allUnsettledFault = () =>
  fault(
    "E.STORE.UNKNOWN_OUTCOME",
    "every connection has a commit with an unknown outcome; settle those turns before beginning another",
  );
