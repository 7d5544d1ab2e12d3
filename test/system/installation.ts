// A small installation for system tests: a scheduler, workers with the example package, and the REST calls the tests make.

import { join } from "node:path";
import type { Run, RunEvent, RunEventList, RunList, RunRef, WorkerList, Workflow } from "@astraflow/protocol";
import { astra, makeFolder, type Process, root, until, waitMsMax } from "./processes.ts";

export interface Scheduler {
  readonly process: Process;
  readonly http: string;
  readonly ws: string;
  readonly dataDir: string;
  readonly listen: string;
}

export interface SchedulerOptions {
  readonly flags?: readonly string[];
  readonly env?: Record<string, string>;
  readonly dataDir?: string;
  /** To come back under the same address after a kill. */
  readonly listen?: string;
}

export function spawnScheduler(options: SchedulerOptions = {}): { process: Process; dataDir: string } {
  const dataDir = options.dataDir ?? join(makeFolder(), "data");
  const words = [
    "scheduler",
    "--dev",
    "--listen",
    options.listen ?? "127.0.0.1:0",
    "--data-dir",
    dataDir,
    "--log-level",
    "warn",
    ...(options.flags ?? []),
  ];
  return { process: astra(words, options.env), dataDir };
}

export async function startScheduler(options: SchedulerOptions = {}): Promise<Scheduler> {
  const { process, dataDir } = spawnScheduler(options);
  const ready = await process.ready();
  const http = String(ready["http"]);
  return { process, dataDir, http, ws: String(ready["ws"]), listen: new URL(http).host };
}

export interface WorkerOptions {
  readonly name?: string;
  readonly dataDir?: string;
  readonly slots?: number;
  /** As a copied machine has it: an identity that is not this data folder's own. */
  readonly instanceId?: string;
}

/**
 * A worker that is on its way. Where a scheduler dies at one of its turns, whichever that is by the clock, nobody may wait for a worker
 * first: turns are also made while nothing happens, and a slow machine would see the death before the worker is there.
 */
export function spawnWorker(
  ws: string,
  { name = "w-1", dataDir = join(makeFolder(), "worker"), slots = 8, instanceId }: WorkerOptions = {},
): Process {
  return astra(["worker"], {
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: name,
    ASTRA_WORKER_DATA_DIR: dataDir,
    ASTRA_WORKER_PACKAGES_DIR: join(root, "examples", "packages"),
    ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: String(slots),
    // Real pauses would only make the tests wait.
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2",
    ASTRA_WORKER_LOG_LEVEL: "warn",
    ...(instanceId !== undefined && { ASTRA_WORKER_WORKER_INSTANCE_ID: instanceId }),
  });
}

export async function startWorker(ws: string, options: WorkerOptions = {}): Promise<Process> {
  const worker = spawnWorker(ws, options);
  await worker.ready();
  return worker;
}

export class Api {
  readonly #http: string;
  readonly #token: string;
  constructor(http: string, token = "dev-token") {
    this.#http = http;
    this.#token = token;
  }

  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(this.#http + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      signal: AbortSignal.timeout(waitMsMax),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  }

  async get<T>(path: string): Promise<T> {
    const response = await this.send("GET", path);
    if (!response.ok) throw new Error(`GET ${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  async start(workflow: Workflow, key: string): Promise<RunRef> {
    const response = await this.send("POST", "/api/v1/runs", { workflow, clientId: "system-test" }, { "idempotency-key": key });
    if (response.status !== 202) throw new Error(`POST /api/v1/runs answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as RunRef;
  }

  run = (id: string): Promise<Run> => this.get(`/api/v1/runs/${id}`);
  workers = (): Promise<WorkerList> => this.get("/api/v1/workers");

  async runs(): Promise<Run[]> {
    const runs: Run[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: RunList = await this.get(
        `/api/v1/runs?limit=200${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      runs.push(...page.items);
      cursor = page.nextCursor;
    }
    return runs;
  }

  async facts(id: string): Promise<RunEvent[]> {
    const facts: RunEvent[] = [];
    for (let cursor = ""; ; ) {
      const page: RunEventList = await this.get(
        `/api/v1/runs/${id}/events?limit=200${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      facts.push(...page.items);
      if (page.nextCursor === null || page.items.length === 0) return facts;
      cursor = page.nextCursor;
    }
  }

  /**
   * Acked, and the ack stored: a worker surely holds a task of this run, whatever becomes of the scheduler that granted it. A node shows
   * as running from its grant on, when its worker need not have heard of it.
   */
  async held(id: string): Promise<void> {
    await until("the ack of a task to be stored", async () =>
      (await this.facts(id)).some((fact) => fact.type === "task.running"),
    );
  }

  ended(id: string): Promise<Run> {
    return until(`the end of run ${id}`, async () => {
      const run = await this.run(id);
      return run.status === "queued" || run.status === "running" ? null : run;
    });
  }
}
