// A database's address, and one connection to it: knows when it is lost, counts what goes over it, and can be cut.

import { randomBytes } from "node:crypto";
import { Fault, fault } from "@astraflow/protocol";
import { Client, type ClientConfig, type QueryArrayResult } from "pg";
import { type ParameterValue, PipelinedStatement, type StatementResult } from "./pipelined-statement.ts";

export interface PostgresAddress {
  readonly config: ClientConfig;
  /** `host:port/database`: safe to say in messages and logs. */
  readonly label: string;
  /** Takes the password out of a text that came from elsewhere. */
  redactPassword(text: string): string;
}

const connectMsMax = 5_000;

export function parsePostgresUrl(url: string): PostgresAddress {
  // The parser's own error repeats the address, and with it the password.
  if (!URL.canParse(url)) throw invalidUrlFault();
  const parsed = new URL(url);
  if (parsed.protocol !== "postgres:" && parsed.protocol !== "postgresql:") throw invalidUrlFault();
  const host = parsed.searchParams.get("host") ?? (parsed.hostname === "" ? "localhost" : parsed.hostname);
  const place = `${host}:${parsed.port === "" ? 5432 : parsed.port}${parsed.pathname}`;
  const secrets = [parsed.password, decodePassword(parsed.password), parsed.searchParams.get("password") ?? ""].filter(
    (one) => one !== "",
  );
  return {
    config: {
      connectionString: url,
      connectionTimeoutMillis: connectMsMax,
      keepAlive: true,
      fallback_application_name: "astraflow",
    },
    label: place,
    redactPassword: (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, "***"), text),
  };
}

function decodePassword(text: string): string {
  return URL.canParse(`x://x/?${text}`) && /^(?:[^%]|%[0-9a-f]{2})*$/i.test(text) ? decodeURIComponent(text) : text;
}

const invalidUrlFault = () =>
  fault("E.STORE.OPEN", "the store URL must have the form postgres://user:password@host:port/database");

/** `rows`: those that turns were given. */
export const newStats = () => ({ turns: 0, commits: 0, statements: 0, roundTrips: 0, rows: 0 });
export type PostgresStats = ReturnType<typeof newStats>;

const closeMsMax = 1_000;

export class PostgresConnection {
  readonly label: string;
  /** Names this connection in a lock, so that others can wait for the end of its transaction. */
  readonly nonce = randomBytes(8).readBigInt64BE().toString();
  readonly #client: Client;
  readonly #stats: PostgresStats;
  #lostError: Error | null = null;
  #lostListener: () => void = () => undefined;

  private constructor(client: Client, place: string, stats: PostgresStats) {
    this.#client = client;
    this.label = place;
    this.#stats = stats;
    client.on("error", (error) => this.#markLost(error));
    client.on("end", () => this.#markLost(new Error("the connection has ended")));
  }

  /** A connection that `prepare` has worked on. Throws a Fault: that of `prepare`, or one that may be tried again. */
  static async connect(
    address: PostgresAddress,
    prepare?: (connection: PostgresConnection) => Promise<unknown>,
    stats = newStats(),
  ): Promise<PostgresConnection> {
    const client = new Client(address.config);
    const connection = new PostgresConnection(client, address.label, stats);
    try {
      await client.connect();
      await prepare?.(connection);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error instanceof Fault ? error : unavailableFault(address, error);
    }
  }

  /** Why nothing can be said over it any more, or null. */
  get lostError(): Error | null {
    return this.#lostError;
  }

  /** Sends one message; answers the result of each of its statements. */
  async query(text: string, statements: number): Promise<QueryArrayResult[]> {
    this.#stats.roundTrips++;
    this.#stats.statements += statements;
    const answer = (await this.#client.query({ text, rowMode: "array" })) as QueryArrayResult | QueryArrayResult[];
    return Array.isArray(answer) ? answer : [answer];
  }

  /** One statement with parameters, and with `COMMIT` behind it if it is the last one, in one message. */
  async execute(text: string, values: readonly ParameterValue[], isLast: boolean): Promise<StatementResult> {
    this.#stats.roundTrips++;
    this.#stats.statements += isLast ? 2 : 1;
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

/** The oldest server whose functions and row locks these statements use and are tested with. */
const versionMin = 140_000;

/** What a server must promise before it is trusted with turns, asked on every new connection: after a failover it may be another one. */
export async function checkServer(connection: PostgresConnection): Promise<void> {
  const { label: place } = connection;
  const [[version, encoding, fsync, synchronous, isStandby] = []] = await connection.queryRows(
    `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'), current_setting('fsync'),
       current_setting('synchronous_commit'), pg_is_in_recovery()`,
  );
  const needed = `version ${versionMin / 10_000} or newer is needed`;
  if (Number(version) < versionMin)
    throw fault("E.STORE.OPEN", `${place} is PostgreSQL ${String(version)}; ${needed}`, { place });
  if (encoding !== "UTF8")
    throw fault("E.STORE.OPEN", `${place} has encoding ${String(encoding)}; create the database with ENCODING 'UTF8'`, { place });
  if (isStandby === true)
    throw fault("E.STORE.OPEN", `${place} is a standby and takes no writes; use the address of the primary`, { place });
  const durabilityFault = (setting: string, value: unknown, advice: string) => {
    const danger = `${place} has ${setting} = ${String(value)}, so an acknowledged change could be lost`;
    return fault("E.STORE.DURABILITY", `${danger}; ${advice}`, { place, setting, value });
  };
  if (fsync !== "on") throw durabilityFault("fsync", fsync, "set it to on in postgresql.conf and restart the server");
  // `local` and `remote_write` answer before a standby that the operator asked for has the data on disk; `off` before anybody has.
  if (synchronous !== "on" && synchronous !== "remote_apply") {
    const advice = "set it to on for this database (ALTER DATABASE … SET synchronous_commit = on) and for its role";
    throw durabilityFault("synchronous_commit", synchronous, advice);
  }
}
