// A stand-in for first-generation workers, as a program of its own: it accepts what it is given, runs one task per concurrency key at a time,
// reports by the id of the dispatch and forgets what it could not send. It knows no fence, no cancel and no inventory.

import type { DispatchPayload, Envelope, JsonObject, NextResponsePayload } from "@astraflow/protocol";
import { FirstWorkerLink } from "./first-link.ts";
import { executeJob, registrationPayload } from "./stand-in-handlers.ts";
import { exitWithParent, printLine, readStandInSettings } from "./stand-in-settings.ts";

export type { StandInLine } from "./stand-in-settings.ts";

const cancelled = new Error("the task was cancelled");

class FirstGenerationWorker {
  readonly #settings = readStandInSettings(process.env);
  readonly #running = new Map<string, AbortController>();
  readonly #nextRequests = new Map<string, (response: NextResponsePayload | null) => void>();
  readonly #link = new FirstWorkerLink({
    settings: this.#settings,
    register: {
      ...registrationPayload(this.#settings),
      payload_types: ["biz.exec.dispatch", "biz.exec.result", "biz.exec.error", "biz.exec.next.request"],
    },
    inflight: () => this.#running.size,
    onDispatch: (envelope, order) => void this.#runDispatch(envelope, order),
    onNextResponse: (response) => this.#nextRequests.get(response.requestId)?.(response),
    onDisconnect: () => {
      for (const give of this.#nextRequests.values()) give(null);
    },
  });

  start(): void {
    this.#link.connect();
  }

  /** Everything that runs is cancelled and reported, if there is a connection. */
  async interrupt(): Promise<void> {
    const stopped = [...this.#running.values()];
    for (const stop of stopped) stop.abort(cancelled);
    const isOver = (): boolean => ![...this.#running.values()].some((stop) => stopped.includes(stop));
    while (!isOver()) await new Promise((resolve) => setImmediate(resolve));
    this.#link.close(() => process.exit(130));
  }

  async #runDispatch(envelope: Envelope, order: DispatchPayload): Promise<void> {
    const { run_id, task_id, node_id, concurrency_key: key = `${run_id}:${task_id}` } = order;
    const more = { corr: envelope.id, ...(envelope.seq !== undefined && { seq: envelope.seq }), requestsAck: true };
    const fail = async (code: string, message: string, where: string): Promise<boolean> => {
      // It does not pass its own check: an exception without a text is never reported.
      if (message === "") return true;
      const context = { where, details: { run_id, task_id, node_id } };
      return this.#link.send("biz.exec.error", { code, message, context }, more);
    };
    if (this.#running.has(key)) {
      printLine({ event: "still", task: task_id });
      return void (await fail("E.CMD.CONCURRENCY_VIOLATION", `concurrency key ${key} is held`, "worker.concurrency"));
    }
    const stop = new AbortController();
    this.#running.set(key, stop);
    const begun = performance.now();
    const metadata = { concurrency_key: key, constraints: order.constraints };
    try {
      const { status, result } = await executeJob(this.#settings.journal, order.node_type, {
        task: task_id,
        params: order.parameters,
        signal: stop.signal,
        next: () => this.#callNext(order),
        sendUnknownFrame: () => void this.#link.send("biz.exec.mystery", { of: "nothing" }, { corr: task_id, requestsAck: true }),
      });
      const duration_ms = Math.round(performance.now() - begun);
      if (await this.#link.send("biz.exec.result", { run_id, task_id, status, result, duration_ms, metadata }, more)) return;
      // What it does about a result that could not be sent cannot be sent either: two numbers are gone.
      await fail("E.RUNNER.FAILURE", "the result could not be sent", "worker.runner");
      printLine({ event: "lost", task: task_id });
    } catch (problem) {
      const isCancelled = stop.signal.aborted || problem === cancelled;
      const message = problem instanceof Error ? problem.message : String(problem);
      const code = isCancelled ? "E.RUNNER.CANCELLED" : "E.RUNNER.FAILURE";
      if (!(await fail(code, isCancelled ? cancelled.message : message, "worker.runner")))
        printLine({ event: "lost", task: task_id });
    } finally {
      this.#running.delete(key);
    }
  }

  async #callNext({ run_id, task_id, node_id }: DispatchPayload): Promise<JsonObject> {
    const requestId = `next-${this.#link.nextCount()}`;
    const { promise, resolve } = Promise.withResolvers<NextResponsePayload | null>();
    this.#nextRequests.set(requestId, resolve);
    const request = {
      requestId,
      runId: run_id,
      nodeId: node_id,
      middlewareId: node_id,
      chainIndex: 0,
      payload: {},
      timeoutMs: 60_000,
    };
    const isSent = await this.#link.send("biz.exec.next.request", request, { corr: task_id, requestsAck: true });
    const response = isSent ? await promise : null;
    this.#nextRequests.delete(requestId);
    if (response === null) throw cancelled;
    return { ...response.result, ...(response.error !== undefined && { error: response.error }) } as JsonObject;
  }
}

exitWithParent();
const worker = new FirstGenerationWorker();
process.once("SIGINT", () => void worker.interrupt());
worker.start();
