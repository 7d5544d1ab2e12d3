// The server of the postgres bench, the same for all contenders and with durable settings, and its resource use, from /proc and its WAL position.

import { readdirSync, readFileSync } from "node:fs";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { Client } from "pg";
import { median } from "../harness/statistics.ts";

/** The kernel counts processor time in these, on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** Roomy enough that no checkpoint falls into one side's round and not into the other's; `fsync` and `synchronous_commit` stay on. */
const serverSettings = {
  shared_buffers: "512MB",
  max_wal_size: "16GB",
  checkpoint_timeout: "60min",
  synchronous_commit: "on",
} as const;

export class BenchPostgresServer {
  readonly #server: PostgresServer;
  readonly #client: Client;

  private constructor(server: PostgresServer, client: Client) {
    this.#server = server;
    this.#client = client;
  }

  static async start(): Promise<BenchPostgresServer> {
    const server = await startPostgres({ settings: serverSettings });
    const client = new Client(server.url());
    await client.connect();
    return new BenchPostgresServer(server, client);
  }

  createDatabase(name: string): Promise<string> {
    return this.#server.createDatabase(name);
  }

  async describe(): Promise<string> {
    const rows = await this.#rows<{ line: string }>(
      `SELECT 'PostgreSQL ' || current_setting('server_version') || ', ' ||
       (SELECT string_agg(n || ' ' || current_setting(n), ', ' ORDER BY o)
        FROM unnest(ARRAY['fsync', 'synchronous_commit', 'wal_sync_method', 'shared_buffers']) WITH ORDINALITY x(n, o)) AS line`,
    );
    return rows[0]?.line ?? "";
  }

  /** The median of a hundred transactions of one row, one after the other. */
  async commitMs(): Promise<number> {
    await this.#client.query("CREATE TABLE IF NOT EXISTS probe (n integer)");
    const times: number[] = [];
    for (let n = 0; n < 100; n++) {
      const from = performance.now();
      await this.#client.query(`INSERT INTO probe VALUES (${n})`);
      times.push(performance.now() - from);
    }
    return median(times);
  }

  /** Bytes of its log so far: what every commit has to bring to disk. */
  async walBytes(): Promise<number> {
    const rows = await this.#rows<{ bytes: string }>("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bytes");
    return Number(rows[0]?.bytes);
  }

  /** Milliseconds of processor time of all its processes, those that have ended included. */
  cpuMs(): number {
    const isOurs = (fields: readonly string[], pid: string) =>
      pid === String(this.#server.pid) || fields[1] === String(this.#server.pid);
    let ticks = 0;
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const fields = readProcessStat(pid);
      if (fields === null || !isOurs(fields, pid)) continue;
      const isFirst = pid === String(this.#server.pid);
      for (const at of isFirst ? [11, 12, 13, 14] : [11, 12]) ticks += Number(fields[at]);
    }
    return (ticks / ticksPerSecond) * 1_000;
  }

  async #rows<T extends object>(sql: string): Promise<T[]> {
    return (await this.#client.query<T>(sql)).rows;
  }

  async stop(): Promise<void> {
    await this.#client.end();
    await this.#server.stop();
  }
}

/** The fields after the program's name, which is in brackets and may contain blanks; null for a process that has just ended. */
function readProcessStat(pid: string): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return null;
    throw error;
  }
}

/** One connection for what the bench itself asks of a database. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
