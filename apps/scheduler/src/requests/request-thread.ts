// A thread for long requests, or for the checks of archives, seen from the doors' thread: one request at a time, tenants in turns, and a limit after which the thread is
// ended with its request. It is started when it is first needed: most installations have no such request for days.

import { Worker } from "node:worker_threads";
import { type ForwardedRequest, type OwnThread, type RestResponse, TenantTurns, type TurnLimits } from "@astraflow/doors";
import type { CommandRequest, Effect, FaultData } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import {
  type ApplyBulkChange,
  type CheckedArchive,
  type EngineClient,
  faultFromData,
  type LogRecord,
  type StoredArchive,
} from "@astraflow/services";
import type { SchedulerConfig } from "../settings/config.ts";

/** Plain data that the thread starts with. */
export interface RequestThreadData
  extends Pick<SchedulerConfig, "store" | "blobDir" | "ackDeadlineMs" | "schemaMode" | "tenants"> {
  readonly isDebug: boolean;
}

/** One piece of work: a request, a step of a bulk change, or the check of a package's archive. */
export type ThreadTask =
  | { readonly of: "request"; readonly request: ForwardedRequest }
  | { readonly of: "change"; readonly change: Parameters<ApplyBulkChange> }
  | { readonly of: "archive"; readonly archive: StoredArchive };

export type MessageToRequestThread =
  | { readonly type: "task"; readonly task: ThreadTask }
  | { readonly type: "effects"; readonly effects: readonly Effect[] };

export type MessageFromRequestThread =
  | { readonly type: "done"; readonly result: unknown }
  | { readonly type: "refused"; readonly fault: FaultData }
  | { readonly type: "failed"; readonly problem: string }
  | { readonly type: "commands"; readonly items: readonly CommandRequest[] }
  | { readonly type: "log"; readonly line: LogRecord };

export interface RequestThreadLimits extends TurnLimits {
  /**
   * CPU time of one request. The check of strangers' schemas ends by its steps after about 100 ms; what takes longer is a document near
   * 8 MiB, and none of those needs half of this.
   */
  readonly cpuMsMax: number;
  /** For a request that waits, or a machine that is very busy. */
  readonly wallMsMax: number;
  readonly watchMs: number;
  /** Memory of the thread: when it is used up, the thread ends and not the process. */
  readonly heapMbMax: number;
}

export const requestThreadLimits: RequestThreadLimits = {
  itemsMax: 64,
  itemsPerTenantMax: 16,
  bytesMax: 128 * 1024 * 1024,
  bytesPerTenantMax: 64 * 1024 * 1024,
  cpuMsMax: 5_000,
  wallMsMax: 60_000,
  watchMs: 250,
  heapMbMax: 1_024,
};

/** Reading the largest archive that is allowed takes some seconds. The system's own threads unpack it, which is not counted here. */
export const archiveThreadLimits: RequestThreadLimits = { ...requestThreadLimits, cpuMsMax: 60_000, wallMsMax: 300_000 };

/** After so long there should be room again. */
const retryAfterMs = 1_000;

export interface RequestThreadOptions {
  readonly data: RequestThreadData;
  readonly engineClient: EngineClient;
  readonly log: (line: LogRecord) => void;
  readonly limits?: RequestThreadLimits;
  /** Of the thread's program; tests have their own. */
  readonly program?: URL;
}

interface QueuedTask {
  readonly task: ThreadTask;
  readonly finish: PromiseWithResolvers<unknown>;
}

export class RequestThread implements OwnThread {
  readonly #options: RequestThreadOptions;
  readonly #limits: RequestThreadLimits;
  readonly #turns: TenantTurns<QueuedTask>;
  #thread: Worker | null = null;
  #current: QueuedTask | null = null;
  #stopWatching: () => void = () => undefined;
  #isClosed = false;

  constructor(options: RequestThreadOptions) {
    this.#options = options;
    this.#limits = options.limits ?? requestThreadLimits;
    this.#turns = new TenantTurns(this.#limits);
  }

  respond(request: ForwardedRequest): Promise<RestResponse> {
    const bytes = request.body?.length ?? 0;
    return this.#run(request.identity.tenant, { of: "request", request }, bytes) as Promise<RestResponse>;
  }

  readonly changeRun: ApplyBulkChange = (...change) =>
    this.#run(change[0].identity.tenant, { of: "change", change }, 0) as ReturnType<ApplyBulkChange>;

  readonly checkArchive = (archive: StoredArchive): Promise<CheckedArchive> =>
    this.#run(archive.blobKey.tenant, { of: "archive", archive }, 0) as Promise<CheckedArchive>;

  /** Waiting requests are refused, and the running one fails. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const refusal = fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later");
    for (const { finish } of this.#turns.drain()) finish.reject(refusal);
    this.#fail(refusal);
    const thread = this.#thread;
    this.#thread = null;
    await thread?.terminate();
  }

  #run(tenant: string, task: ThreadTask, bytes: number): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later"));
    const finish = Promise.withResolvers<unknown>();
    const refusal = this.#turns.push(tenant, { task, finish }, bytes);
    if (refusal !== null) {
      const why = `the thread for long requests is busy (${refusal}); try again in a moment`;
      return Promise.reject(fault("E.OVERLOADED", why, { retryAfterMs }));
    }
    this.#startNext();
    return finish.promise;
  }

  #startNext(): void {
    if (this.#current !== null || this.#isClosed) return;
    const next = this.#turns.shift();
    if (next === undefined) return;
    this.#current = next;
    this.#thread ??= this.#startThread();
    this.#stopWatching = this.#watch(this.#thread);
    const { task } = next;
    const body = task.of === "request" ? task.request.body : null;
    // A large body has memory of its own, which changes hands; a small one is a part of memory that is shared with others.
    const isWhole = body !== null && body.byteLength === body.buffer.byteLength;
    const message: MessageToRequestThread = { type: "task", task };
    this.#thread.postMessage(message, isWhole ? [body.buffer as ArrayBuffer] : []);
  }

  #startThread(): Worker {
    const program = this.#options.program ?? new URL("./request-thread-main.ts", import.meta.url);
    const thread = new Worker(program, {
      workerData: this.#options.data,
      name: "requests",
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.heapMbMax },
      stdout: false,
      stderr: false,
    });
    let crash: unknown;
    thread.unref();
    thread.on("message", (message: MessageFromRequestThread) => this.#handleMessage(thread, message));
    thread.on("error", (cause) => {
      crash = cause;
    });
    thread.on("exit", (code) => this.#handleExit(thread, crash ?? new Error(`the thread ended with code ${code}`)));
    return thread;
  }

  #handleMessage(thread: Worker, message: MessageFromRequestThread): void {
    switch (message.type) {
      case "log":
        return this.#options.log(message.line);
      case "commands":
        return this.#sendCommands(thread, message.items);
      case "done":
        return this.#settle(({ resolve }) => resolve(message.result));
      case "refused":
        return this.#settle(({ reject }) => reject(faultFromData(message.fault)));
      case "failed":
        return this.#settle(({ reject }) => reject(fault("E.INTERNAL", "an unexpected error", undefined, message.problem)));
    }
  }

  /** The thread's commands are given to the engine as our own; each answer goes back under the thread's number. */
  #sendCommands(thread: Worker, items: readonly CommandRequest[]): void {
    for (const { ref, command } of items)
      this.#options.engineClient.send(command, (body, problem) => {
        const answer = { type: "answer", ref, body, fault: problem } as Effect;
        const message: MessageToRequestThread = { type: "effects", effects: [answer] };
        if (thread === this.#thread) thread.postMessage(message);
      });
  }

  #settle(how: (finish: PromiseWithResolvers<unknown>) => void): void {
    const current = this.#current;
    if (current === null) return;
    this.#stopWatching();
    this.#current = null;
    how(current.finish);
    this.#startNext();
  }

  #fail(why: unknown): void {
    this.#settle(({ reject }) => reject(why));
  }

  #handleExit(thread: Worker, cause: unknown): void {
    if (thread !== this.#thread) return;
    this.#thread = null;
    const isMemory = (cause as { readonly code?: unknown } | null)?.code === "ERR_WORKER_OUT_OF_MEMORY";
    this.#options.log({ level: "error", event: "requests.thread_ended", problem: String(cause) });
    this.#fail(isMemory ? tooCostly("memory") : fault("E.INTERNAL", "an unexpected error", undefined, cause));
  }

  /** Ends the thread when its request takes too much; the next request gets a new one. The returned function ends the watch. */
  #watch(thread: Worker): () => void {
    const { cpuMsMax, wallMsMax, watchMs } = this.#limits;
    const startedAt = performance.now();
    const cpuAtStart = readCpuMs(thread);
    let isOver = false;
    const check = async (): Promise<void> => {
      const wallMs = performance.now() - startedAt;
      const [before, now] = await Promise.all([cpuAtStart, wallMs > wallMsMax ? null : readCpuMs(thread)]);
      // Where the CPU time of a thread cannot be had, the time of day has to do.
      const usedMs = now === null || before === null ? wallMs - wallMsMax + cpuMsMax : now - before;
      if (isOver || usedMs <= cpuMsMax) return;
      isOver = true;
      this.#endOverrun(thread, Math.round(wallMs));
    };
    const timer = setInterval(() => void check(), watchMs);
    timer.unref();
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }

  #endOverrun(thread: Worker, wallMs: number): void {
    const { task } = this.#current ?? {};
    const about = task?.of === "request" ? { route: task.request.route, requestId: task.request.requestId } : {};
    this.#options.log({ level: "warn", event: "requests.too_costly", wallMs, ...about });
    this.#thread = null;
    void thread.terminate();
    this.#fail(tooCostly("time"));
  }
}

/** Null where this version of Node cannot tell (before 24.6). A thread that ends meanwhile has used none. */
async function readCpuMs(thread: Worker): Promise<number | null> {
  if (typeof thread.cpuUsage !== "function") return null;
  try {
    const { user, system } = await thread.cpuUsage();
    return (user + system) / 1_000;
  } catch (cause) {
    if (cause instanceof Error) return 0;
    throw cause;
  }
}

const tooCostly = (what: "time" | "memory"): Fault =>
  fault(
    "E.REQUEST.TOO_COSTLY",
    `the request took more ${what} than one may and was ended; send a smaller document. If it was to change something, look whether it did`,
  );
