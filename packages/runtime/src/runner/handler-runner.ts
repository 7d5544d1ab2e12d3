// Who calls the handlers, as the link's side of the worker sees it: in the same thread (here) or in one of its own (host.ts).

import type { LocalAttempt } from "../attempts/attempt.ts";
import type { FeedbackInput } from "../attempts/feedback.ts";
import { type AttemptOutcome, encodeOutcome, type ResultSpill } from "../attempts/outcome.ts";
import { HandlerExecutor } from "../handlers/handler-executor.ts";
import type { NextCallAnswer, NextCallDraft } from "../handlers/next-call.ts";
import type { LoadedPackages } from "../handlers/package-loader.ts";
import { type IncomingVendorFrame, type OutgoingVendorFrame, VendorFrameHub } from "../handlers/vendor-frames.ts";
import type { ResourceRemovedReason, ResourceSettings } from "../resources/resource.ts";
import { ResourceFiles } from "../resources/resource-files.ts";
import { ResourceRegistry } from "../resources/resource-registry.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { ProcessWatchdog } from "../system/process-watchdog.ts";

/** What a runner says. None of it is said before the worker has begun. */
export interface HandlerRunnerListener {
  /** The outcome of an attempt is known. Exactly once per start. */
  attemptFinished(attempt: LocalAttempt, outcome: AttemptOutcome): void;
  /** Its handler has come back, after `finished` or at once. */
  handlerReturned(attempt: LocalAttempt): void;
  feedbackReceived(attempt: LocalAttempt, input: FeedbackInput): void;
  /** A middleware calls the next of its chain; the answer is said at most once. What is returned takes the call back. */
  nextCalled(attempt: LocalAttempt, draft: NextCallDraft, answer: (answer: NextCallAnswer) => void): () => void;
  /** Gives false where the link takes no more. */
  vendorFrameSent(draft: OutgoingVendorFrame): boolean;
  /** A resource that a result has named is no longer kept. */
  resourceRemoved(resource: string, reason: ResourceRemovedReason): void;
  problemReported(problem: { readonly message: string; readonly cause: unknown }): void;
  /** `problems` are others now. */
  healthChanged(): void;
}

export interface HandlerRunner {
  start(attempt: LocalAttempt): void;
  /** A vendor's frame. False: nobody listens to its type. */
  deliverVendorFrame(frame: IncomingVendorFrame): boolean;
  /** Why nothing should be started here now, in sentences. */
  readonly problems: readonly string[];
  /** Numbers for the heartbeat. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Resources that results have named and that are still kept. */
  readonly referencedResources: Iterable<string>;
  /** Ends what still runs, one way or the other; resolves once it is gone. */
  close(): Promise<void>;
}

export interface InProcessRunnerOptions {
  readonly tenant: string;
  readonly loadedPackages: LoadedPackages;
  readonly workRoot: string;
  readonly resources: ResourceSettings;
  readonly resourceDir: string;
  readonly environment: Pick<WorkerEnvironment, "now" | "after" | "wallClock">;
  /** Ends the handlers' processes where this process cannot any more. */
  readonly watchdog?: ProcessWatchdog;
}

/** Handlers beside the link: one that blocks the loop blocks the heartbeat too. */
export function createInProcessRunner(listener: HandlerRunnerListener, options: InProcessRunnerOptions): HandlerRunner {
  const { tenant, loadedPackages, workRoot, environment, watchdog } = options;
  const folder = new ResourceFiles(options.resourceDir, workRoot);
  const resources = new ResourceRegistry(
    {
      wallClock: environment.wallClock,
      after: environment.after,
      reportProblem: listener.problemReported,
      resourceRemoved: listener.resourceRemoved,
    },
    folder,
    options.resources,
  );
  resources.restoreFiles();
  const spill = spillToResources(resources);
  const hub = loadedPackages.vendorFrames ?? new VendorFrameHub();
  hub.connect({
    sendFrame: async (draft) => listener.vendorFrameSent(draft),
    listenedTypesChanged: () => {},
    reportProblem: listener.problemReported,
  });
  const executor = new HandlerExecutor(
    {
      now: environment.now,
      after: environment.after,
      attemptFinished(attempt, outcome) {
        const { type: frame, payload } = encodeOutcome(attempt, outcome, spill);
        listener.attemptFinished(attempt, { type: "written", frameType: frame, payload });
      },
      callNext: listener.nextCalled,
      groupStarted: (pid) => watchdog?.watchGroup(pid),
      groupEnded: (pid) => watchdog?.unwatchGroup(pid),
      handlerReturned: listener.handlerReturned,
      sendFeedback(attempt, input) {
        // Merged with others and written later, where nobody could tell whose it was.
        try {
          JSON.stringify(input);
        } catch (cause) {
          return listener.problemReported({
            message: `feedback of task ${attempt.task} cannot be written as JSON and was dropped`,
            cause,
          });
        }
        listener.feedbackReceived(attempt, input);
      },
      reportProblem: listener.problemReported,
    },
    { tenant, handlers: loadedPackages.handlers, ext: hub.handlerApi, resources, workRoot },
  );
  return {
    start: (attempt) => executor.start(attempt),
    deliverVendorFrame: (frame) => hub.deliver(frame),
    problems: [],
    get metrics() {
      return resources.metrics();
    },
    get referencedResources() {
      return resources.referencedIds();
    },
    close: async () => watchdog?.close(),
  };
}

/** Large values of results become resources of the run. */
export function spillToResources(resources: ResourceRegistry): ResultSpill {
  return {
    inlineBytesMax: resources.settings.inlineBytesMax,
    keep: (id, text, scope) => resources.artifact(resources.registerJson(id, text, { scope }).id),
  };
}
