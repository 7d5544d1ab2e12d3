// One connection to the server: knows when it is lost, counts what goes over it, and can be cut. What is said over it is elsewhere.

import { randomBytes } from "node:crypto";
import { type Fault, fault } from "@astraflow/protocol";
import { Client, type QueryArrayResult } from "pg";
import type { Address } from "./address.ts";
import { Call, type Called, type Value } from "./call.ts";

export interface PostgresStats {
  turns: number;
  commits: number;
  statements: number;
  roundTrips: number;
  /** Rows that turns were given. */
  rows: number;
}

const goodbyeMsMax = 1_000;

export class Link {
  readonly place: string;
  /** Names this connection in a lock, so that others can wait for the end of its transaction. */
  readonly nonce = randomBytes(8).readBigInt64BE().toString();
  readonly #client: Client;
  readonly #stats: PostgresStats | null;
  #lost: Error | null = null;
  #whenLost: () => void = () => undefined;

  private constructor(client: Client, place: string, stats: PostgresStats | null) {
    this.#client = client;
    this.place = place;
    this.#stats = stats;
    client.on("error", (error) => this.#lose(error));
    client.on("end", () => this.#lose(new Error("the connection has ended")));
  }

  /** Throws a Fault that may be tried again. */
  static async connect(address: Address, stats: PostgresStats | null): Promise<Link> {
    const client = new Client(address.config);
    const link = new Link(client, address.place, stats);
    try {
      await client.connect();
    } catch (error) {
      link.cut();
      throw awayFault(address, error);
    }
    return link;
  }

  /** Why nothing can be said over it any more, or null. */
  get lost(): Error | null {
    return this.#lost;
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
  async call(text: string, values: readonly Value[], isLast: boolean): Promise<Called> {
    if (this.#stats !== null) {
      this.#stats.roundTrips++;
      this.#stats.statements += isLast ? 2 : 1;
    }
    return await this.#client.query(new Call(text, values, isLast)).outcome;
  }

  /** The rows of a single statement. */
  async rows(text: string): Promise<unknown[][]> {
    const [result] = await this.query(text, 1);
    return result?.rows ?? [];
  }

  onNotice(hear: (payload: string) => void): void {
    this.#client.on("notification", (notice) => hear(notice.payload ?? ""));
  }

  /** Called once, when the connection is found lost, also when it was already. Not called for one that we end. */
  onLost(hear: () => void): void {
    this.#whenLost = hear;
    if (this.#lost !== null) hear();
  }

  #lose(error: Error): void {
    if (this.#lost !== null) return;
    this.#lost = error;
    this.#whenLost();
  }

  /** As when the network breaks: the server rolls back what it was told and not told to commit. */
  cut(): void {
    this.#lose(new Error("the connection was cut"));
    (this.#client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
  }

  /** Says goodbye; a server that does not answer is not waited for. */
  async end(): Promise<void> {
    if (this.#lost !== null) return this.cut();
    this.#lost = new Error("the connection was closed");
    const timer = setTimeout(() => this.cut(), goodbyeMsMax);
    await this.#client.end();
    clearTimeout(timer);
  }
}

/** The server's own code of an error, or null when the error is the connection's. */
export function stateOf(error: unknown): string | null {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return typeof code === "string" && severity !== undefined ? code : null;
}

/** With these the server ends the session, so nothing certain is known of what it was doing. */
export function isEndOfSession(error: unknown): boolean {
  const state = stateOf(error);
  return state === null || state.startsWith("57P") || state.startsWith("08") || state === "25P03";
}

export function messageOf(address: Address, error: unknown): string {
  return address.scrub(error instanceof Error ? error.message : String(error));
}

export function awayFault(address: Address, error: unknown): Fault {
  const { place } = address;
  return fault("E.STORE.BUSY", `PostgreSQL at ${place} does not answer: ${messageOf(address, error)}`, { place }, error);
}
