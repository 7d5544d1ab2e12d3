// Runs handlers in a thread of their own, restarts it when it crashes, and fails the attempts that were lost with it.

import { errorMessage, Fault } from "@astraflow/protocol";
import type { FeedbackInput, IncomingVendorFrame } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { errorOutcome } from "../attempts/outcome.ts";
import type { LoadedPackagesSummary } from "../handlers/package-loader.ts";
import { createSecretMask } from "../handlers/secret-mask.ts";
import { noFileTransferFault } from "../resources/file-transfer.ts";
import type { ResourcePorts, ResourceReport } from "../resources/resource.ts";
import { killProcessGroup } from "../system/child-processes.ts";
import { CrashHistory, restartPolicy } from "../system/crash-history.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import { MessageBatcher } from "../system/message-batcher.ts";
import type { ProcessWatchdog } from "../system/process-watchdog.ts";
import type { HandlerRunner, HandlerRunnerListener } from "./handler-runner.ts";
import type { HandlerThreadHandle, HandlerThreadListener } from "./spawn-handler-thread.ts";
import { attemptKeyText, type FileTransferAnswer, type FromHandlerThread, type ToHandlerThread } from "./thread-messages.ts";

export interface ThreadRunnerPorts {
  readonly environment: Pick<WorkerEnvironment, "now" | "after" | "defer">;
  spawnThread(listener: HandlerThreadListener): HandlerThreadHandle;
  /** Ends the handlers' processes where this process no longer can. */
  readonly watchdog?: Pick<ProcessWatchdog, "watchGroup" | "unwatchGroup" | "close">;
  readonly transferFile?: ResourcePorts["transferFile"];
}

/** How a thread is ended. */
export const threadEndPolicy = {
  /** How long handlers may take to return after the end was requested. */
  shutdownWaitMs: 300,
  /** How long a terminated thread may take to end: only a system call can hold it up. */
  terminateWaitMs: 1_000,
} as const;

const earlyReportsMax = 100;

type MessageHandlers = {
  readonly [T in FromHandlerThread["type"]]: (
    message: Extract<FromHandlerThread, { type: T }>,
    thread: HandlerThreadHandle,
  ) => void;
};

export class ThreadRunner implements HandlerRunner {
  readonly #ports: ThreadRunnerPorts;
  readonly #attempts = new Map<string, LocalAttempt>();
  /** Null until the worker has started. */
  #listener: HandlerRunnerListener | null = null;
  /** What packages reported while they were loaded. */
  readonly #earlyReports: { readonly message: string; readonly cause: unknown }[] = [];
  #thread: HandlerThreadHandle | null = null;
  #outgoing: MessageBatcher<ToHandlerThread> | null = null;
  /** Attempts whose start waits for a thread that has loaded its packages. */
  #queuedUntilLoaded: ToHandlerThread[] = [];
  #loadedPackages: LoadedPackagesSummary = { packages: [], problems: [] };
  #listenedVendorTypes: ReadonlySet<string> = new Set();
  readonly #crashes = new CrashHistory();
  #heapPct: number | null = null;
  #isHeapRequested = false;
  #pendingPing: { readonly ping: number; readonly at: number } | null = null;
  #pingCount = 0;
  #metrics: Readonly<Record<string, number>> = {};
  /** As last reported. */
  resourceReport: ResourceReport | undefined;
  readonly #referencedResources = new Set<string>();
  readonly #processGroups = new Set<number>();
  /** Takes back calls that are not answered yet, by their ticket. */
  readonly #cancelNextCall = new Map<number, () => void>();
  #cancelRestart = () => {};
  #isClosed = false;
  readonly #pendingReloads: PromiseWithResolvers<void>[] = [];
  readonly #firstLoad = Promise.withResolvers<LoadedPackagesSummary>();
  readonly #threadExit = Promise.withResolvers<void>();

  constructor(ports: ThreadRunnerPorts) {
    this.#ports = ports;
  }

  /** Starts the thread; resolves with what it has loaded. Rejects where that ends the thread: which package did it is not known. */
  startThread(): Promise<LoadedPackagesSummary> {
    this.#spawnThread();
    return this.#firstLoad.promise;
  }

  setListener(listener: HandlerRunnerListener): void {
    this.#listener = listener;
    for (const problem of this.#earlyReports.splice(0)) listener.problemReported(problem);
  }

  get loadedPackages(): LoadedPackagesSummary {
    return this.#loadedPackages;
  }

  /** As last reported; asks again for the next time. */
  get heapPct(): number | null {
    if (!this.#isHeapRequested && this.#thread !== null) {
      this.#isHeapRequested = true;
      void this.#thread.heapPct().then((pct) => {
        this.#isHeapRequested = false;
        this.#heapPct = pct;
      });
    }
    return this.#heapPct;
  }

  /** For how long the thread has not answered a ping; 0 while it answers. Reading this sends the next ping. */
  get lagMs(): number {
    const at = this.#ports.environment.now();
    if (this.#pendingPing !== null) return at - this.#pendingPing.at;
    this.#sendPing(at);
    return 0;
  }

  #sendPing(at: number): void {
    if (this.#pendingPing !== null || this.#outgoing === null) return;
    this.#pendingPing = { ping: this.#pingCount++, at };
    this.#outgoing.add({ type: "ping", ping: this.#pendingPing.ping });
  }

  start(attempt: LocalAttempt): void {
    const { task, fence, dispatch } = attempt;
    this.#attempts.set(attemptKeyText(attempt), attempt);
    this.#sendToThread({ type: "start", fence, dispatch });
    attempt.stopSignal.onStop = ({ message }) => this.#sendToThread({ type: "stop", task, fence, reason: message });
  }

  deliverVendorFrame(frame: IncomingVendorFrame): boolean {
    if (!this.#listenedVendorTypes.has(frame.type)) return false;
    this.#sendToThread({ type: "ext", frame });
    return true;
  }

  get problems(): readonly string[] {
    const crashes = this.#crashes.countRecent(this.#ports.environment.now());
    return crashes < restartPolicy.crashesMax
      ? []
      : [`the handler thread crashed ${crashes} times within ${restartPolicy.crashWindowMs / 1_000} s`];
  }

  /** As last reported; asks again for the next time. */
  get metrics(): Readonly<Record<string, number>> {
    this.#sendPing(this.#ports.environment.now());
    return this.#metrics;
  }

  get referencedResources(): ReadonlySet<string> {
    return this.#referencedResources;
  }

  /** Rejects where it failed, or the thread ended meanwhile; its successor loads everything anew. */
  reloadPackages(): Promise<void> {
    const reload = Promise.withResolvers<void>();
    this.#pendingReloads.push(reload);
    this.#sendToThread({ type: "reload" });
    return reload.promise;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelRestart();
    await this.#shutDownThread();
    this.#ports.watchdog?.close();
  }

  async #shutDownThread(): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    if (this.#outgoing !== null) {
      // After the stop messages: handlers whose signal was aborted may clean up.
      this.#outgoing.add({ type: "end" });
      this.#outgoing.flush();
      await this.#waitAtMost(threadEndPolicy.shutdownWaitMs, this.#threadExit.promise);
    }
    if (this.#thread !== null) await this.#waitAtMost(threadEndPolicy.terminateWaitMs, thread.terminate());
  }

  /** Closed, but still running: only the end of the process ends it. */
  get isStuck(): boolean {
    return this.#isClosed && this.#thread !== null;
  }

  async #waitAtMost(ms: number, what: Promise<void>): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.#ports.environment.after(ms, late.resolve);
    await Promise.race([what, late.promise]);
    cancel();
  }

  #spawnThread(): void {
    const thread = this.#ports.spawnThread({
      messagesReceived: (messages) => {
        // Each row takes the messages of its own type.
        for (const message of messages) this.#handlers[message.type](message as never, thread);
      },
      threadExited: (reason) => this.#handleThreadExit(reason),
    });
    this.#thread = thread;
  }

  #sendToThread(message: ToHandlerThread): void {
    if (this.#outgoing === null) this.#queuedUntilLoaded.push(message);
    else this.#outgoing.add(message);
  }

  readonly #handlers: MessageHandlers = {
    loaded: ({ packages, referencedResources }, thread) => {
      this.#handleLoaded(packages, thread);
      this.#reconcileResources(referencedResources);
    },
    reloaded: ({ packages, problem }) => {
      this.#loadedPackages = packages;
      const reload = this.#pendingReloads.shift();
      if (problem === undefined) reload?.resolve();
      else reload?.reject(new Error(problem));
    },
    finished: (message) =>
      this.#withAttempt(message, (attempt) => {
        this.#listener?.attemptFinished(attempt, { type: "written", ...message.outcome });
        if (message.isSettled) this.#completeAttempt(attempt);
      }),
    settled: (message) => this.#withAttempt(message, (attempt) => this.#completeAttempt(attempt)),
    feedback: (message) =>
      this.#withAttempt(message, (attempt) =>
        this.#listener?.feedbackReceived(attempt, JSON.parse(message.input) as FeedbackInput),
      ),
    listening: ({ types }) => {
      this.#listenedVendorTypes = new Set(types);
    },
    ext: ({ ticket, draft }) => {
      const isTaken = this.#listener?.vendorFrameSent(draft) ?? false;
      this.#sendToThread({ type: "ext-answer", ticket, isTaken });
    },
    transfer: (message, thread) => void this.#handleTransfer(message, thread),
    next: (message) => this.#handleNextCall(message),
    "next-forget": ({ ticket }) => {
      this.#cancelNextCall.get(ticket)?.();
      this.#cancelNextCall.delete(ticket);
    },
    spawned: ({ pid }) => {
      this.#processGroups.add(pid);
      this.#ports.watchdog?.watchGroup(pid);
    },
    reaped: ({ pid }) => {
      this.#processGroups.delete(pid);
      this.#ports.watchdog?.unwatchGroup(pid);
    },
    announced: ({ resource }) => void this.#referencedResources.add(resource),
    removed: ({ resource, reason }) => {
      this.#referencedResources.delete(resource);
      this.#listener?.resourceRemoved(resource, reason);
    },
    pong: ({ ping, resources, report }) => {
      this.#metrics = resources;
      this.resourceReport = report;
      if (ping === this.#pendingPing?.ping) this.#pendingPing = null;
    },
    report: (problem) => {
      if (this.#listener !== null) this.#listener.problemReported(problem);
      else if (this.#earlyReports.length < earlyReportsMax) this.#earlyReports.push(problem);
    },
  };

  async #handleTransfer(
    { ticket, transfer }: Extract<FromHandlerThread, { type: "transfer" }>,
    thread: HandlerThreadHandle,
  ): Promise<void> {
    let answer: FileTransferAnswer;
    try {
      if (this.#ports.transferFile === undefined) throw noFileTransferFault();
      answer = { stored: await this.#ports.transferFile(transfer) };
    } catch (thrown) {
      const code = thrown instanceof Fault ? thrown.code : "E.RUNNER.FAILURE";
      answer = { error: { code, message: errorMessage(thrown) } };
    }
    // The next thread counts its tickets anew.
    if (thread === this.#thread) this.#sendToThread({ type: "transfer-answer", ticket, ...answer });
  }

  #handleNextCall(message: Extract<FromHandlerThread, { type: "next" }>): void {
    const { ticket, draft } = message;
    const attempt = this.#attempts.get(attemptKeyText(message));
    // The attempt is over on this side; the handler's signal has been aborted.
    if (attempt === undefined) return;
    let isAnswered = false;
    const forget = this.#listener?.nextCalled(attempt, draft, (answer) => {
      isAnswered = true;
      this.#cancelNextCall.delete(ticket);
      this.#sendToThread({ type: "next-answer", ticket, answer });
    });
    if (!isAnswered && forget !== undefined) this.#cancelNextCall.set(ticket, forget);
  }

  #handleLoaded(loadedPackages: LoadedPackagesSummary, thread: HandlerThreadHandle): void {
    this.#loadedPackages = loadedPackages;
    this.#outgoing = new MessageBatcher((messages) => thread.sendMessages(messages), this.#ports.environment.defer);
    for (const message of this.#queuedUntilLoaded.splice(0)) this.#outgoing.add(message);
    this.#firstLoad.resolve(loadedPackages);
  }

  /** What the previous thread kept in memory is lost. */
  #reconcileResources(recalled: readonly string[]): void {
    const still = new Set(recalled);
    const lost = [...this.#referencedResources].filter((resource) => !still.has(resource));
    this.#referencedResources.clear();
    for (const resource of recalled) this.#referencedResources.add(resource);
    for (const resource of lost) this.#listener?.resourceRemoved(resource, "lost");
  }

  #withAttempt(name: { task: string; fence: number }, call: (attempt: LocalAttempt) => void): void {
    const attempt = this.#attempts.get(attemptKeyText(name));
    if (attempt !== undefined) call(attempt);
  }

  #completeAttempt(attempt: LocalAttempt): void {
    this.#attempts.delete(attemptKeyText(attempt));
    attempt.stopSignal.onStop = null;
    this.#listener?.handlerReturned(attempt);
  }

  #handleThreadExit(reason: string): void {
    this.#thread = null;
    this.#outgoing = null;
    this.#heapPct = null;
    this.#pendingPing = null;
    this.#listenedVendorTypes = new Set();
    this.#metrics = {};
    this.#cancelNextCall.clear();
    for (const reload of this.#pendingReloads.splice(0)) reload.reject(new Error(`the handler thread ended: ${reason}`));
    // A terminated thread could not do it.
    for (const pid of this.#processGroups) {
      killProcessGroup(pid, "SIGKILL");
      this.#ports.watchdog?.unwatchGroup(pid);
    }
    this.#processGroups.clear();
    if (this.#isClosed) return this.#threadExit.resolve();
    this.#firstLoad.reject(new Error(`the handler thread crashed while loading packages: ${reason}`));
    this.#listener?.problemReported({ message: "the handler thread crashed and is being restarted", cause: reason });
    const { crashes, pauseMs } = this.#crashes.add(this.#ports.environment.now());
    this.#cancelRestart = this.#ports.environment.after(pauseMs, () => this.#spawnThread());
    this.#failLostAttempts(reason);
    if (crashes === restartPolicy.crashesMax) this.#listener?.healthChanged();
  }

  /** A single running attempt caused the crash and fails. Of several the culprit is unknown: they go back to the scheduler, which counts them. */
  #failLostAttempts(reason: string): void {
    const waiting = new Set(
      this.#queuedUntilLoaded.flatMap((message) =>
        message.type === "start" ? [attemptKeyText({ task: message.dispatch.task_id, fence: message.fence })] : [],
      ),
    );
    const lost = [...this.#attempts.values()].filter((attempt) => !waiting.has(attemptKeyText(attempt)));
    // The reason may be text of a handler.
    const maskedReason = lost.reduce(
      (text, { dispatch }) => createSecretMask(dispatch.parameters)?.maskText(text) ?? text,
      reason,
    );
    const message = `the handler thread crashed while this task was running: ${maskedReason}`;
    const outcome =
      lost.length === 1 ? errorOutcome(message, "worker.host") : errorOutcome(message, "worker.host", "E.RUNNER.CANCELLED");
    for (const attempt of lost) {
      this.#listener?.attemptFinished(attempt, outcome);
      this.#completeAttempt(attempt);
    }
  }
}
