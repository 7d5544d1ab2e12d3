// The callers of the crash test: they submit every job under its key, at either scheduler, until one accepts it, and remember every answer. A request
// without an answer is sent again.

import { setTimeout as pause } from "node:timers/promises";
import type { Run, RunEvent, RunEventList, RunList, RunRef } from "@astraflow/protocol";
import type { CrashTestJob } from "./jobs.ts";

const parallelCallers = 8;
const requestTimeoutMs = 10_000;
const retryMs = 50;
/** Every so many jobs the caller "loses" the answer it got and asks once more, at the other scheduler. */
const repeatEvery = 10;
const pageLimit = 200;

export interface AcceptedJob {
  readonly job: CrashTestJob;
  /** Every id that was answered under the key; one, if all is well. */
  readonly runIds: ReadonlySet<string>;
}

export interface SubmitResult {
  readonly accepted: readonly AcceptedJob[];
  /** Requests beyond the first for a job, because an answer was an error or did not come. */
  readonly retries: number;
}

export class RetryingApiClient {
  readonly #urls: readonly string[];
  readonly #signal: AbortSignal;

  constructor(urls: readonly string[], signal: AbortSignal) {
    this.#urls = urls;
    this.#signal = signal;
  }

  async submitAll(jobs: readonly CrashTestJob[]): Promise<SubmitResult> {
    const accepted: AcceptedJob[] = [];
    let retries = 0;
    let next = 0;
    const call = async () => {
      for (let at = next++; at < jobs.length; at = next++) {
        const job = jobs[at];
        if (job === undefined) return;
        const runIds = new Set<string>();
        for (let asked = 0; asked <= (at % repeatEvery === 0 ? 1 : 0); asked++) {
          const { ref, tries } = await this.#submitJob(job, at + asked);
          runIds.add(ref.runId);
          retries += tries - 1;
        }
        accepted.push({ job, runIds });
      }
    };
    await Promise.all(Array.from({ length: parallelCallers }, call));
    return { accepted, retries };
  }

  async #submitJob(job: CrashTestJob, seed: number): Promise<{ ref: RunRef; tries: number }> {
    for (let tries = 1; ; tries++) {
      const answer = await this.#request(seed + tries, "/api/v1/runs", { key: job.key, body: JSON.stringify(job.body) });
      if (answer?.status === 202) return { ref: (await answer.json()) as RunRef, tries };
      // A 4xx answer is a violation: retrying cannot change it.
      if (answer !== null && answer.status < 500) throw new Error(`${job.key} was refused: ${await answer.text()}`);
      await pause(retryMs, undefined, { signal: this.#signal });
    }
  }

  /** Asks one scheduler, and then the other, until there is an answer. */
  async read<T>(path: string, seed = 0): Promise<T> {
    for (let tries = 0; ; tries++) {
      const answer = await this.#request(seed + tries, path);
      if (answer?.ok) return (await answer.json()) as T;
      if (answer !== null && answer.status < 500)
        throw new Error(`GET ${path} answered ${answer.status}: ${await answer.text()}`);
      await pause(retryMs, undefined, { signal: this.#signal });
    }
  }

  /** All runs, as one of the schedulers lists them. */
  async listRuns(scheduler: number): Promise<Run[]> {
    const runs: Run[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const words: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: RunList = await this.read(`/api/v1/runs?limit=${pageLimit}${words}`, scheduler);
      runs.push(...page.items);
      cursor = page.nextCursor;
    }
    return runs;
  }

  async readFacts(run: string, scheduler: number): Promise<RunEvent[]> {
    const facts: RunEvent[] = [];
    for (let cursor = ""; ; ) {
      const words = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: RunEventList = await this.read(`/api/v1/runs/${run}/events?limit=${pageLimit}${words}`, scheduler);
      facts.push(...page.items);
      if (page.nextCursor === null || page.items.length === 0) return facts;
      cursor = page.nextCursor;
    }
  }

  async hasOpenRuns(): Promise<boolean> {
    for (const status of ["running", "queued"]) {
      const page: RunList = await this.read(`/api/v1/runs?limit=1&status=${status}`);
      if (page.items.length > 0) return true;
    }
    return false;
  }

  /** Words of workers that came too late and were refused, as one scheduler counts them since it was started; 0 while it is down. */
  async countStaleReports(scheduler: number): Promise<number> {
    const answer = await this.#request(scheduler, "/metrics");
    const text = answer?.ok ? await answer.text() : "";
    return [...text.matchAll(/^\w*stale_words_total\{[^}]*\} (\d+)/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  /** Null where no answer came: the scheduler is down, or went down while it was asked. */
  async #request(seed: number, path: string, post?: { key: string; body: string }): Promise<Response | null> {
    const url = this.#urls[seed % this.#urls.length] ?? "";
    const headers = {
      authorization: "Bearer dev-token",
      ...(post && { "content-type": "application/json", "idempotency-key": post.key }),
    };
    try {
      const response = await fetch(url + path, {
        headers,
        signal: AbortSignal.any([this.#signal, AbortSignal.timeout(requestTimeoutMs)]),
        ...(post && { method: "POST", body: post.body }),
      });
      // The body may break off as well; an answer is one only when it is whole.
      return new Response(await response.text(), { status: response.status });
    } catch (cause) {
      if (this.#signal.aborted) throw this.#signal.reason;
      if (cause instanceof TypeError || (cause instanceof DOMException && cause.name === "TimeoutError")) return null;
      throw cause;
    }
  }
}
