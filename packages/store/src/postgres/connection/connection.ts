// One connection to the server: knows when it is lost, counts what goes over it, and can be cut. What is said over it is elsewhere.

import { randomBytes } from "node:crypto";
import { type Fault, fault } from "@astraflow/protocol";
import { Client, type QueryArrayResult } from "pg";
import type { PostgresAddress } from "./address.ts";
import { type ParameterValue, PipelinedStatement, type StatementResult } from "./pipelined-statement.ts";

export interface PostgresStats {
  turns: number;
  commits: number;
  statements: number;
  roundTrips: number;
  /** Rows that turns were given. */
  rows: number;
}

const closeMsMax = 1_000;

export class PostgresConnection {
  readonly label: string;
  /** Names this connection in a lock, so that others can wait for the end of its transaction. */
  readonly nonce = randomBytes(8).readBigInt64BE().toString();
  readonly #client: Client;
  readonly #stats: PostgresStats | null;
  #lostError: Error | null = null;
  #lostListener: () => void = () => undefined;

  private constructor(client: Client, place: string, stats: PostgresStats | null) {
    this.#client = client;
    this.label = place;
    this.#stats = stats;
    client.on("error", (error) => this.#markLost(error));
    client.on("end", () => this.#markLost(new Error("the connection has ended")));
  }

  /** Throws a Fault that may be tried again. */
  static async connect(address: PostgresAddress, stats: PostgresStats | null): Promise<PostgresConnection> {
    const client = new Client(address.config);
    const connection = new PostgresConnection(client, address.label, stats);
    try {
      await client.connect();
    } catch (error) {
      connection.destroy();
      throw unavailableFault(address, error);
    }
    return connection;
  }

  /** Why nothing can be said over it any more, or null. */
  get lostError(): Error | null {
    return this.#lostError;
  }

  /** Sends one message; answers the result of each of its statements. */
  async query(text: string, statements: number): Promise<QueryArrayResult[]> {
    if (this.#stats !== null) {
      this.#stats.roundTrips++;
      this.#stats.statements += statements;
    }
    const answer = (await this.#client.query({ text, rowMode: "array" })) as QueryArrayResult | QueryArrayResult[];
    return Array.isArray(answer) ? answer : [answer];
  }

  /** One statement with parameters, and with `COMMIT` behind it if it is the last one, in one message. */
  async execute(text: string, values: readonly ParameterValue[], isLast: boolean): Promise<StatementResult> {
    if (this.#stats !== null) {
      this.#stats.roundTrips++;
      this.#stats.statements += isLast ? 2 : 1;
    }
    return await this.#client.query(new PipelinedStatement(text, values, isLast)).outcome;
  }

  /** The rows of a single statement. */
  async queryRows(text: string): Promise<unknown[][]> {
    const [result] = await this.query(text, 1);
    return result?.rows ?? [];
  }

  onNotification(listener: (payload: string) => void): void {
    this.#client.on("notification", (notice) => listener(notice.payload ?? ""));
  }

  /** Called once, when the connection is found lost, also when it was already. Not called for one that we end. */
  onLost(listener: () => void): void {
    this.#lostListener = listener;
    if (this.#lostError !== null) listener();
  }

  #markLost(error: Error): void {
    if (this.#lostError !== null) return;
    this.#lostError = error;
    this.#lostListener();
  }

  /** As when the network breaks: the server rolls back what it was told and not told to commit. */
  destroy(): void {
    this.#markLost(new Error("the connection was cut"));
    (this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
  }

  /** Says goodbye; a server that does not answer is not waited for. */
  async close(): Promise<void> {
    if (this.#lostError !== null) return this.destroy();
    this.#lostError = new Error("the connection was closed");
    const timer = setTimeout(() => this.destroy(), closeMsMax);
    await this.#client.end();
    clearTimeout(timer);
  }
}

/** The server's own code of an error, or null when the error is the connection's. */
export function sqlStateOf(error: unknown): string | null {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === "string" && severity !== undefined ? code : null;
}

/** With these the server ends the session, so nothing certain is known of what it was doing. */
export function isConnectionLost(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state === null || state.startsWith("57P") || state.startsWith("08") || state === "25P03";
}

export function redactedMessage(address: PostgresAddress, error: unknown): string {
  return address.redactPassword(error instanceof Error ? error.message : String(error));
}

export function unavailableFault(address: PostgresAddress, error: unknown): Fault {
  const { label: place } = address;
  return fault("E.STORE.BUSY", `PostgreSQL at ${place} does not answer: ${redactedMessage(address, error)}`, { place }, error);
}
