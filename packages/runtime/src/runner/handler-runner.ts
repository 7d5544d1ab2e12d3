// Runs the handlers of a worker: in the same thread (here) or in one of its own (thread-runner.ts).

import { getHeapStatistics } from "node:v8";
import type { FeedbackInput, IncomingVendorFrame } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import type { HandlerExecutorPorts } from "../handlers/handler-executor.ts";
import { HandlerHost, type HandlerHostSettings } from "../handlers/handler-host.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";
import type { LoadedPackages, LoadedPackagesSummary } from "../handlers/package-loader.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import type { ResourcePorts, ResourceRemovedReason, ResourceReport } from "../resources/resource.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { ProcessWatchdog } from "../system/process-watchdog.ts";

/** What a runner reports, once the worker has started. */
export interface HandlerRunnerListener extends Pick<HandlerExecutorPorts, "attemptFinished" | "handlerReturned"> {
  feedbackReceived(attempt: LocalAttempt, input: FeedbackInput): void;
  /** A middleware calls the next of its chain; it is answered at most once. The function returned takes the call back. */
  nextCalled(attempt: LocalAttempt, draft: MiddlewareCallDraft, answer: (answer: MiddlewareCallAnswer) => void): () => void;
  /** Gives false where the link takes no more. */
  vendorFrameSent(draft: OutgoingVendorFrame): boolean;
  resourceRemoved(resource: string, reason: ResourceRemovedReason): void;
  problemReported(problem: { readonly message: string; readonly cause: unknown }): void;
  healthChanged(): void;
}

export interface HandlerRunner {
  readonly loadedPackages: LoadedPackagesSummary;
  start(attempt: LocalAttempt): void;
  /** False: nobody listens to its type. */
  deliverVendorFrame(frame: IncomingVendorFrame): boolean;
  /** Why nothing should be started now, in sentences. */
  readonly problems: readonly string[];
  readonly metrics: Readonly<Record<string, number>>;
  /** What is kept for later tasks; undefined where nothing was, so far. */
  readonly resourceReport: ResourceReport | undefined;
  /** How full the memory of the handlers' thread is, in percent; null where it is not known. */
  readonly heapPct: number | null;
  /** For how long the handlers' thread has not answered, the sign that a handler blocks it; null where they have none of their own. */
  readonly lagMs: number | null;
  /** After `close`: the thread is stuck in a system call; only the end of the process ends it. */
  readonly isStuck: boolean;
  readonly referencedResources: Iterable<string>;
  /** Packages were installed or removed: looks again. Rejects where that is not possible. */
  reloadPackages(): Promise<void>;
  /** Ends whatever still runs; resolves once it is gone. */
  close(): Promise<void>;
}

export interface InProcessRunnerOptions extends HandlerHostSettings {
  readonly loadedPackages: LoadedPackages;
  readonly environment: Pick<WorkerEnvironment, "now" | "after" | "wallClock">;
  /** Ends the handlers' processes where this process no longer can. */
  readonly watchdog?: Pick<ProcessWatchdog, "watchGroup" | "unwatchGroup" | "close">;
  readonly transferFile?: ResourcePorts["transferFile"];
}

/** Handlers in the thread of the link: one that blocks it blocks the heartbeats too. */
export function createInProcessRunner(listener: HandlerRunnerListener, options: InProcessRunnerOptions): HandlerRunner {
  const { loadedPackages, environment, watchdog, transferFile } = options;
  const { now, after, wallClock } = environment;
  const reportProblem: HandlerRunnerListener["problemReported"] = (problem) => listener.problemReported(problem);
  const host = new HandlerHost(options, loadedPackages, {
    now,
    after,
    resources: {
      wallClock,
      after,
      resourceRemoved: (resource, reason) => listener.resourceRemoved(resource, reason),
      ...(transferFile !== undefined && { transferFile }),
    },
    attemptFinished: (attempt, outcome) =>
      listener.attemptFinished(attempt, { type: "written", ...host.encodeOutcome(attempt, outcome) }),
    callNext: (attempt, draft, answer) => listener.nextCalled(attempt, draft, answer),
    groupStarted: (pid) => watchdog?.watchGroup(pid),
    groupEnded: (pid) => watchdog?.unwatchGroup(pid),
    handlerReturned: (attempt) => listener.handlerReturned(attempt),
    sendFeedback: (attempt, input) => listener.feedbackReceived(attempt, input),
    reportProblem,
  });
  host.vendorFrames.connect({
    sendFrame: async (frame) => listener.vendorFrameSent(frame),
    listenedTypesChanged: () => {},
    reportProblem,
  });
  return {
    loadedPackages,
    start: (attempt) => host.executor.start(attempt),
    deliverVendorFrame: (frame) => host.vendorFrames.deliver(frame),
    problems: [],
    get metrics() {
      return host.resources.metrics();
    },
    get resourceReport() {
      return host.reportResources();
    },
    get heapPct() {
      const { used_heap_size, heap_size_limit } = getHeapStatistics();
      return (used_heap_size / heap_size_limit) * 100;
    },
    lagMs: null,
    isStuck: false,
    get referencedResources() {
      return host.resources.referencedIds();
    },
    reloadPackages: async () => loadedPackages.reload?.(),
    close: async () => {
      await loadedPackages.close?.();
      watchdog?.close();
    },
  };
}
