// The submitter of the end-to-end bench: starts runs over REST, waits for their ends, and then reads what the store has recorded.

import { Agent, request } from "node:http";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";

const runTimeoutMs = 120_000;
/** Seldom enough to cost nothing, often enough to be no part of a round's length. */
const pollMs = 20;
const parallelSubmits = 8;

/** The same where a single short run is waited for. */
const fastPollMs = 2;

interface RunView {
  readonly runId: string;
  readonly status: string;
  readonly createdAt: string;
  readonly finishedAt?: string;
  readonly nodes?: readonly { readonly result?: unknown; readonly finishedAt?: string }[];
}

/** A chain of light steps, as the body of a submit. The same text every time: the definition is stored once. */
export function chainRequest(length: number): string {
  const idOf = (at: number) => `0de70000-0000-4000-8000-${at.toString(16).padStart(12, "0")}`;
  const port = (root: string, key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });
  const nodes = Array.from({ length }, (_, at) => ({
    id: idOf(at),
    type: "demo.noop",
    package: { name: "demo", version: "1.0.0" },
    label: `step ${at}`,
    position: { x: at * 100, y: 0 },
    parameters: {},
    ui: { inputPorts: [port("parameters", "after")], outputPorts: [port("results", "done")] },
  }));
  const edges = Array.from({ length: length - 1 }, (_, at) => ({
    id: `e${at}`,
    source: { node: idOf(at), port: "done" },
    target: { node: idOf(at + 1), port: "after" },
  }));
  const workflow = { id: idOf(length), schemaVersion: "2025-10", metadata: { name: `chain of ${length}` }, nodes, edges };
  return JSON.stringify({ workflow, clientId: "bench" });
}

export class RunSubmitter {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: parallelSubmits });

  constructor(url: string) {
    this.#url = url;
  }

  close(): void {
    this.#agent.destroy();
  }

  async start(body: string): Promise<string> {
    return (await this.#call<RunView>("POST", "/api/v1/runs", body)).runId;
  }

  /** From the submit until the submitter has read the result: it asks again as soon as it was answered. */
  async runPollingAtOnce(body: string): Promise<{ ms: number; looks: number; run: RunView }> {
    const from = performance.now();
    const run = await this.start(body);
    for (let polls = 1; ; polls++) {
      const view = await this.#call<RunView>("GET", `/api/v1/runs/${run}`);
      const { status } = view;
      const ms = performance.now() - from;
      if (status === "succeeded") return { ms, looks: polls, run: view };
      if (status === "failed" || status === "cancelled" || ms > runTimeoutMs) throw new Error(`run ${run} is ${status}`);
    }
  }

  /** Until the first piece of a run's output is stored. */
  async waitForOutput(run: string): Promise<void> {
    for (const from = performance.now(); performance.now() - from < runTimeoutMs; await pause(pollMs)) {
      const { items } = await this.#call<{ items: unknown[] }>("GET", `/api/v1/runs/${run}/logs?limit=1`);
      if (items.length > 0) return;
    }
    throw new Error(`run ${run} has no output after ${runTimeoutMs} ms`);
  }

  /** What the only node of a run has returned. */
  async waitForResult<T>(run: string): Promise<T> {
    for (const from = performance.now(); performance.now() - from < runTimeoutMs; await pause(pollMs)) {
      const { status, nodes = [] } = await this.#call<RunView>("GET", `/api/v1/runs/${run}`);
      if (status === "succeeded") return nodes[0]?.result as T;
      if (status === "failed" || status === "cancelled") throw new Error(`run ${run} is ${status}`);
    }
    throw new Error(`run ${run} is still open after ${runTimeoutMs} ms`);
  }

  /** As `runOnce`, with pauses, and by the list, which reads no task; and the run's length by the store's clock. */
  async runPollingList(body: string, isLong = false): Promise<{ ms: number; storeMs: number }> {
    const from = performance.now();
    const run = await this.start(body);
    while (await this.#hasOpenRuns()) {
      if (performance.now() - from > runTimeoutMs) throw new Error(`run ${run} is still open after ${runTimeoutMs} ms`);
      await pause(isLong ? pollMs : fastPollMs);
    }
    const ms = performance.now() - from;
    const { status, createdAt, finishedAt = "" } = await this.#call<RunView>("GET", `/api/v1/runs/${run}`);
    if (status !== "succeeded") throw new Error(`run ${run} is ${status}`);
    return { ms, storeMs: Date.parse(finishedAt) - Date.parse(createdAt) };
  }

  /** Starts so many runs, several requests side by side, and waits until none is open. Gives the wall time of both. */
  async runMany(body: string, runs: number): Promise<{ submitMs: number; ms: number }> {
    const from = performance.now();
    let left = runs;
    const submit = async () => {
      while (left-- > 0) await this.start(body);
    };
    await Promise.all(Array.from({ length: parallelSubmits }, submit));
    const submitMs = performance.now() - from;
    while (await this.#hasOpenRuns()) {
      if (performance.now() - from > runTimeoutMs) throw new Error(`runs are still open after ${runTimeoutMs} ms`);
      await pause(pollMs);
    }
    return { submitMs, ms: performance.now() - from };
  }

  async #hasOpenRuns(): Promise<boolean> {
    // In the order of a run's life: one that begins between the two looks is seen by the second.
    for (const status of ["queued", "running"]) {
      const { items } = await this.#call<{ items: unknown[] }>("GET", `/api/v1/runs?status=${status}&limit=1`);
      if (items.length > 0) return true;
    }
    return false;
  }

  /** Numbers without labels from /metrics. */
  async metrics(): Promise<Map<string, number>> {
    const text = await this.#text("GET", "/metrics");
    return new Map([...text.matchAll(/^(\w+) (\S+)$/gm)].map(([, name = "", value]) => [name, Number(value)]));
  }

  async #call<T>(method: string, path: string, body?: string): Promise<T> {
    return JSON.parse(await this.#text(method, path, body)) as T;
  }

  #text(method: string, path: string, body?: string): Promise<string> {
    const headers = {
      authorization: "Bearer dev-token",
      ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
    };
    return new Promise((resolve, reject) => {
      const call = request(`${this.#url}${path}`, { method, headers, agent: this.#agent }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          if ((response.statusCode ?? 500) < 300) resolve(text);
          else reject(new Error(`${method} ${path} was answered ${response.statusCode}: ${text.slice(0, 300)}`));
        });
      });
      call.on("error", reject);
      call.end(body);
    });
  }
}

/** What the store holds of everything that came after a run, read beside the running scheduler. */
export interface StoredCounts {
  readonly tasks: number;
  readonly runs: number;
  readonly events: number;
  /** From the first grant to the last end, by the store's own clock. */
  readonly ms: number;
  readonly lastRun: string;
}

/** The number of the last turn that is in the store. The scheduler's own count is a fraction of a second old. */
export function readLastTurn(file: string): number {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return Number(db.prepare("SELECT max(last_turn) AS turn FROM replica").get()?.["turn"]);
  } finally {
    db.close();
  }
}

export function readStoredCounts(
  file: string,
  after: Pick<StoredCounts, "lastRun"> & { position: number },
): StoredCounts & { position: number } {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const one = (sql: string, ...cells: (string | number)[]) => db.prepare(sql).get(...cells) as Record<string, number | string>;
    const task = one(
      `SELECT count(*) AS n, min("grantedAt") AS first, max("endedAt") AS last, sum("endedAt" IS NULL OR error IS NOT NULL) AS bad FROM task WHERE id > ?`,
      `${after.lastRun}~`,
    );
    if (Number(task["bad"]) > 0) throw new Error(`${task["bad"]} tasks did not succeed`);
    const run = one("SELECT count(*) AS n, max(id) AS last FROM run WHERE id > ?", after.lastRun);
    const event = one(
      "SELECT count(*) AS n, max(last) AS last FROM event WHERE tenant = 'default' AND first > ?",
      after.position,
    );
    return {
      tasks: Number(task["n"]),
      runs: Number(run["n"]),
      events: Number(event["n"]),
      ms: Number(task["last"]) - Number(task["first"]),
      lastRun: String(run["last"] ?? after.lastRun),
      position: Number(event["last"] ?? after.position),
    };
  } finally {
    db.close();
  }
}
