// A PostgreSQL server of a test's own: made in a folder that goes away with it, on a free port of 127.0.0.1, as durable as a real
// one. What the store does with it is not here.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { findProgram, freePort, makeServerFolder, type ServerFolder } from "./server-folder.ts";

export interface PostgresServer {
  readonly port: number;
  /** Of the postmaster; another one after a restart. */
  readonly pid: number;
  readonly user: string;
  readonly password: string;
  url(database?: string): string;
  /** An empty database; answers its address. */
  createDatabase(name?: string): Promise<string>;
  /** `fast` ends sessions and writes a checkpoint, `immediate` is a crash that recovery has to mend. Same port, same data. */
  restart(how: "fast" | "immediate"): Promise<void>;
  /** Away until `start`. */
  halt(how: "fast" | "immediate"): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface PostgresServerOptions {
  /** Settings beyond the defaults, such as `{ synchronous_commit: "off" }`. */
  readonly settings?: Readonly<Record<string, string>>;
}

const user = "astra";
const password = "swordfish";
const startTries = 5;
const shownLogBytesMax = 4_000;
const stopSignals = { fast: "SIGINT", immediate: "SIGQUIT" } as const;

/** Starts a server; give it back with `stop`. It ends with this process in any case. */
export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const bin = findProgram("postgres", "postgresql");
  const folder = makeServerFolder("astra-postgres-");
  try {
    initializeDatabase(bin.replace(/postgres$/, "initdb"), folder);
    const server = new LocalPostgresServer(bin, folder, options.settings ?? {});
    await server.launch();
    return server;
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

function initializeDatabase(initdb: string, folder: ServerFolder): void {
  const secret = join(folder.path, "password");
  writeFileSync(secret, password);
  folder.chownToServer(secret);
  const args = ["-D", join(folder.path, "data"), "-U", user, "--pwfile", secret, "--auth", "scram-sha-256"];
  const made = spawnSync(initdb, [...args, "--encoding", "UTF8", "--locale", "C", "--no-sync"], {
    ...folder.identity,
    cwd: folder.path,
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.error?.message ?? made.stderr}`);
}

class LocalPostgresServer implements PostgresServer {
  readonly user = user;
  readonly password = password;
  port = 0;
  readonly #bin: string;
  readonly #folder: ServerFolder;
  readonly #settings: Readonly<Record<string, string>>;
  #child: ChildProcess | null = null;
  #databases = 0;

  constructor(bin: string, folder: ServerFolder, settings: Readonly<Record<string, string>>) {
    this.#bin = bin;
    this.#folder = folder;
    this.#settings = settings;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** A port that was free may be taken by the time the server binds it; then another one is. */
  async launch(): Promise<void> {
    for (let tries = 1; ; tries++) {
      this.port = await freePort();
      const problem = await this.#spawn();
      if (problem === null) return;
      if (tries === startTries || !problem.includes("could not create any TCP/IP sockets"))
        throw new Error(`PostgreSQL did not start: ${problem}`);
    }
  }

  url(database = "postgres"): string {
    return `postgres://${user}:${password}@127.0.0.1:${this.port}/${database}`;
  }

  async createDatabase(name = `astra_${process.pid}_${++this.#databases}`): Promise<string> {
    const client = new Client({ connectionString: this.url() });
    await client.connect();
    try {
      await client.query(`CREATE DATABASE "${name}"`);
    } finally {
      await client.end();
    }
    return this.url(name);
  }

  async restart(how: "fast" | "immediate"): Promise<void> {
    await this.halt(how);
    await this.start();
  }

  async halt(how: "fast" | "immediate"): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.ref();
    child.kill(stopSignals[how]);
    await gone;
  }

  async start(): Promise<void> {
    const problem = await this.#spawn();
    if (problem !== null) throw new Error(`PostgreSQL did not start: ${problem}`);
  }

  async stop(): Promise<void> {
    await this.halt("immediate");
    await this.#folder.remove();
  }

  /** Null once connections are accepted, else the last output of a server that did not start. */
  async #spawn(): Promise<string | null> {
    const settings = {
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      fsync: "on",
      // A pooler keeps the sessions of every database that a case has used until it stops.
      max_connections: "400",
      shared_buffers: "64MB",
      // Only the start is read from the log; a busy test would fill it with its own refused statements.
      log_min_messages: "log",
      log_min_error_statement: "panic",
      ...this.#settings,
    };
    const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = spawn(this.#bin, ["-D", join(this.#folder.path, "data"), "-p", String(this.port), ...args], {
      ...this.#folder.identity,
      cwd: this.#folder.path,
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, LC_ALL: "C" },
    });
    this.#child = child;
    const { promise, resolve } = Promise.withResolvers<string | null>();
    let log = "";
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      log = (log + text).slice(-shownLogBytesMax);
      if (log.includes("database system is ready to accept connections")) resolve(null);
    });
    child.on("error", (error) => resolve(error.message));
    child.on("exit", () => resolve(log));
    const problem = await promise;
    // A server must not keep a test process alive that has forgotten it.
    child.unref();
    (child.stderr as unknown as { unref(): void }).unref();
    return problem;
  }
}
