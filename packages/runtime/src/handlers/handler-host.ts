// Everything that handlers need in the thread they run in: executor, kept resources, vendor frames. Who reports what they do is runner/.

import { Fault, fault } from "@astraflow/protocol";
import type { FeedbackInput } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { readFeedbackText } from "../attempts/feedback.ts";
import { type AttemptOutcome, type EncodedOutcome, encodeOutcome, type ResultSpill } from "../attempts/outcome.ts";
import type { ResourcePorts, ResourceReport, ResourceSettings } from "../resources/resource.ts";
import { ResourceFiles } from "../resources/resource-files.ts";
import { ResourceRegistry } from "../resources/resource-registry.ts";
import { HandlerExecutor, type HandlerExecutorPorts } from "./handler-executor.ts";
import type { LoadedPackages } from "./package-loader.ts";
import { VendorFrameHub } from "./vendor-frames.ts";

export interface HandlerHostSettings {
  readonly tenant: string;
  /** Parent of the attempts' own directories. */
  readonly workRoot: string;
  readonly resources: ResourceSettings;
  readonly resourceDir: string;
  /** What an attempt may write as feedback, chunks of output included, before it is ended. */
  readonly outputBytesMax?: number;
}

/** More is a loop that prints, not a log that somebody reads. */
export const outputBytesMaxDefault = 64 * 1024 ** 2;

export interface HandlerHostPorts extends Omit<HandlerExecutorPorts, "sendFeedback" | "wallClock"> {
  /** For the resources; their own timer, because looking at them is no reason for a thread to stay. */
  readonly resources: Omit<ResourcePorts, "reportProblem">;
  /** Feedback that can be written as JSON, and its text. */
  sendFeedback(attempt: LocalAttempt, input: FeedbackInput, text: string): void;
}

export class HandlerHost {
  readonly resources: ResourceRegistry;
  readonly vendorFrames: VendorFrameHub;
  readonly executor: HandlerExecutor;
  readonly #ports: HandlerHostPorts;
  readonly #resultSpill: ResultSpill;
  readonly #outputBytesMax: number;
  #hasKept = false;
  readonly #outputBytes = new WeakMap<LocalAttempt, number>();

  constructor(settings: HandlerHostSettings, loadedPackages: LoadedPackages, ports: HandlerHostPorts) {
    const { tenant, workRoot, resourceDir } = settings;
    this.#ports = ports;
    this.#outputBytesMax = settings.outputBytesMax ?? outputBytesMaxDefault;
    this.vendorFrames = loadedPackages.vendorFrames ?? new VendorFrameHub();
    const resources = new ResourceRegistry(
      { ...ports.resources, reportProblem: ports.reportProblem },
      new ResourceFiles(resourceDir, workRoot),
      settings.resources,
    );
    resources.restoreFiles();
    this.resources = resources;
    // Large values of results become resources of the run.
    this.#resultSpill = {
      inlineBytesMax: settings.resources.inlineBytesMax,
      keep: (id, text, scope) => resources.artifact(resources.registerJson(id, text, { scope }).id),
    };
    this.executor = new HandlerExecutor(
      {
        ...ports,
        wallClock: ports.resources.wallClock,
        sendFeedback: (attempt, input) => this.#sendFeedback(attempt, input),
      },
      { tenant, handlers: loadedPackages.handlers, ext: this.vendorFrames.handlerApi, resources, workRoot },
    );
  }

  /** Undefined until something is kept: most workers never keep anything. */
  reportResources(): ResourceReport | undefined {
    this.#hasKept ||= this.resources.size > 0;
    return this.#hasKept ? this.resources.report() : undefined;
  }

  encodeOutcome(attempt: LocalAttempt, outcome: AttemptOutcome): EncodedOutcome {
    return encodeOutcome(attempt, outcome, this.#resultSpill);
  }

  /** Feedback is merged and written later, where its origin is no longer known: what cannot be sent is found here. */
  #sendFeedback(attempt: LocalAttempt, input: FeedbackInput): void {
    let text: string | undefined;
    try {
      text = JSON.stringify(input);
    } catch (cause) {
      const message = `feedback of task ${attempt.task} cannot be written as JSON and was dropped`;
      return this.#ports.reportProblem({ message, cause });
    }
    const read = readFeedbackText(text);
    if (read instanceof Fault) return this.executor.failAttempt(attempt, read);
    const bytes = (this.#outputBytes.get(attempt) ?? 0) + (text as string).length;
    this.#outputBytes.set(attempt, bytes);
    if (bytes <= this.#outputBytesMax) return this.#ports.sendFeedback(attempt, read, text as string);
    const message = `the task wrote more than the ${this.#outputBytesMax} bytes of output and feedback that it may`;
    this.executor.failAttempt(attempt, fault("E.RUNNER.OUTPUT", message));
  }
}
