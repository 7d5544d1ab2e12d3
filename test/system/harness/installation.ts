// A small installation for system tests: a scheduler, workers with the example package, and the REST calls the tests make.

import { symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Run, RunEvent, RunEventList, RunList, RunRef, WorkerList, Workflow } from "@astraflow/protocol";
import { type AstraProcess, makeTemporaryFolder, pollUntil, repositoryRoot, spawnAstra, waitMsMax } from "./processes.ts";

export interface TestScheduler {
  readonly process: AstraProcess;
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
  readonly logLevel?: string;
}

export function spawnScheduler(options: SchedulerOptions = {}): { process: AstraProcess; dataDir: string } {
  const dataDir = options.dataDir ?? join(makeTemporaryFolder(), "data");
  const args = [
    "scheduler",
    "--dev",
    "--listen",
    options.listen ?? "127.0.0.1:0",
    "--data-dir",
    dataDir,
    "--log-level",
    options.logLevel ?? "warn",
    ...(options.flags ?? []),
  ];
  return { process: spawnAstra(args, options.env), dataDir };
}

export async function startScheduler(options: SchedulerOptions = {}): Promise<TestScheduler> {
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
  /** Of the example packages. Each starts a process of its own. */
  readonly packages?: readonly string[];
}

const usualPackages: readonly string[] = ["demo", "example.pkg", "system"];

/** A folder that holds only these of the example packages. */
function linkExamplePackages(names: readonly string[]): string {
  const folder = makeTemporaryFolder();
  for (const name of names) symlinkSync(join(repositoryRoot, "examples", "packages", name), join(folder, name));
  return folder;
}

/**
 * A worker that is on its way. Where a scheduler dies at one of its turns, whichever that is by the clock, nobody may wait for a worker
 * first: turns are also made while nothing happens, and a slow machine would see the death before the worker is there.
 */
export function spawnWorker(ws: string, options: WorkerOptions = {}): AstraProcess {
  const {
    name = "w-1",
    dataDir = join(makeTemporaryFolder(), "worker"),
    slots = 8,
    instanceId,
    packages = usualPackages,
  } = options;
  return spawnAstra(["worker"], {
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: name,
    ASTRA_WORKER_DATA_DIR: dataDir,
    ASTRA_WORKER_PACKAGES_DIR: linkExamplePackages(packages),
    ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: String(slots),
    // Real pauses would only make the tests wait.
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2",
    ASTRA_WORKER_LOG_LEVEL: "warn",
    ...(instanceId !== undefined && { ASTRA_WORKER_WORKER_INSTANCE_ID: instanceId }),
  });
}

export async function startWorker(ws: string, options: WorkerOptions = {}): Promise<AstraProcess> {
  const worker = spawnWorker(ws, options);
  await worker.ready();
  return worker;
}

export class SchedulerApi {
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

  async startRun(workflow: Workflow, key: string): Promise<RunRef> {
    const response = await this.send("POST", "/api/v1/runs", { workflow, clientId: "system-test" }, { "idempotency-key": key });
    if (response.status !== 202) throw new Error(`POST /api/v1/runs answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as RunRef;
  }

  getRun = (id: string): Promise<Run> => this.get(`/api/v1/runs/${id}`);
  listWorkers = (): Promise<WorkerList> => this.get("/api/v1/workers");

  async listRuns(): Promise<Run[]> {
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

  async listRunFacts(id: string): Promise<RunEvent[]> {
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
   * as running from its grant on, when its worker need not have received it.
   */
  async waitUntilHeld(id: string): Promise<void> {
    await pollUntil("the ack of a task to be stored", async () =>
      (await this.listRunFacts(id)).some((fact) => fact.type === "task.running"),
    );
  }

  waitForRunEnd(id: string): Promise<Run> {
    return pollUntil(`the end of run ${id}`, async () => {
      const run = await this.getRun(id);
      return run.status === "queued" || run.status === "running" ? null : run;
    });
  }
}
