// The thread in which user code runs: loads the packages, calls their handlers, and says what came of it. It may block, crash or run out
// of memory; the link lives in another thread and notices. Started by spawn-handler-thread.ts; no room imports this file.

import { type MessagePort, workerData } from "node:worker_threads";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import { type AttemptOutcome, encodeOutcome, type ResultSpill } from "../attempts/outcome.ts";
import { HandlerExecutor } from "../handlers/handler-executor.ts";
import type { NextCallAnswer, NextCallDraft } from "../handlers/next-call.ts";
import { type LoadedPackages, loadPackages } from "../handlers/package-loader.ts";
import { type OutgoingVendorFrame, VendorFrameHub } from "../handlers/vendor-frames.ts";
import type { ResourceRemovedReason } from "../resources/resource.ts";
import { ResourceFiles } from "../resources/resource-files.ts";
import { ResourceRegistry } from "../resources/resource-registry.ts";
import { spillToResources } from "./handler-runner.ts";
import {
  type AttemptKey,
  attemptKeyText,
  type FromHandlerThread,
  type HandlerThreadSettings,
  type LoadedPackagesSummary,
  MessageBatcher,
  type ToHandlerThread,
} from "./thread-messages.ts";

/** A handler that keeps the thread for longer than this before it returns is one that blocks: what others have said leaves before it. */
const blockingThresholdMs = 2;

class HandlerThread {
  readonly #outgoing: MessageBatcher<FromHandlerThread>;
  readonly #executor: HandlerExecutor;
  readonly #vendorFrames: VendorFrameHub;
  readonly #attempts = new Map<string, LocalAttempt>();
  readonly #pendingVendorSends = new Map<number, (isTaken: boolean) => void>();
  readonly #pendingNextCalls = new Map<number, (answer: NextCallAnswer) => void>();
  readonly #resources: ResourceRegistry;
  readonly #resultSpill: ResultSpill;
  #requestCount = 0;
  /** Types of nodes that were seen blocking. */
  readonly #blockingNodeTypes = new Set<string>();
  /** Said and not yet in the mail: a handler that comes back with its outcome says both in one word. */
  #pendingOutcome: (AttemptKey & { outcome: AttemptOutcome; attempt: LocalAttempt }) | null = null;

  constructor(port: MessagePort, settings: HandlerThreadSettings, loadedPackages: LoadedPackages) {
    this.#outgoing = new MessageBatcher((messages) => port.postMessage(messages), setImmediate);
    this.#vendorFrames = loadedPackages.vendorFrames ?? new VendorFrameHub();
    const folder = new ResourceFiles(settings.resourceDir, settings.workRoot);
    const report = (problem: { message: string; cause: unknown }) => this.#reportProblem(problem);
    const announced = (resource: string) => this.#outgoing.add({ type: "announced", resource });
    const removed = (resource: string, reason: ResourceRemovedReason) =>
      this.#outgoing.add({ type: "removed", resource, reason });
    this.#resources = new ResourceRegistry(
      {
        wallClock: () => Date.now(),
        after: afterUnref,
        reportProblem: report,
        resourceReferenced: announced,
        resourceRemoved: removed,
      },
      folder,
      settings.resources,
    );
    this.#resources.restoreFiles();
    this.#resultSpill = spillToResources(this.#resources);
    this.#executor = new HandlerExecutor(
      {
        now: () => performance.now(),
        after,
        callNext: (attempt, draft, answer) => this.#callNext(attempt, draft, answer),
        groupStarted: (pid) => this.#outgoing.addUrgent({ type: "spawned", pid }),
        groupEnded: (pid) => this.#outgoing.add({ type: "reaped", pid }),
        attemptFinished: (attempt, outcome) => {
          this.#sendPendingOutcome(false);
          this.#pendingOutcome = { task: attempt.task, fence: attempt.fence, attempt, outcome };
          // One that is out of time is said although its handler is not back.
          queueMicrotask(() => this.#sendPendingOutcome(false));
        },
        handlerReturned: (attempt) => this.#handlerReturned(attempt),
        sendFeedback: (attempt, input) => this.#sendFeedback(attempt, input),
        reportProblem: report,
      },
      {
        tenant: settings.tenant,
        handlers: loadedPackages.handlers,
        ext: this.#vendorFrames.handlerApi,
        resources: this.#resources,
        workRoot: settings.workRoot,
      },
    );
    this.#outgoing.add({
      type: "loaded",
      packages: summarizePackages(loadedPackages),
      referencedResources: this.#resources.referencedIds(),
    });
    this.#vendorFrames.connect({
      sendFrame: (draft) => this.#sendVendorFrame(draft),
      listenedTypesChanged: (types) => this.#outgoing.add({ type: "listening", types }),
      reportProblem: (problem) => this.#reportProblem(problem),
    });
    port.on("message", (messages: readonly ToHandlerThread[]) => this.#handleMessages(messages, port));
    // A handler that ends the thread must not take along what others have said.
    process.on("exit", () => this.#outgoing.flush());
  }

  #handleMessages(messages: readonly ToHandlerThread[], port: MessagePort): void {
    for (const message of messages) {
      switch (message.type) {
        case "start":
          this.#startAttempt(createAttempt(message.dispatch, message.fence, 0));
          break;
        case "stop":
          this.#attempts.get(attemptKeyText(message))?.stopSignal.stop(new Error(message.reason));
          break;
        case "ext":
          this.#vendorFrames.deliver(message.frame);
          break;
        case "ext-answer":
          this.#pendingVendorSends.get(message.ticket)?.(message.isTaken);
          this.#pendingVendorSends.delete(message.ticket);
          break;
        case "next-answer": {
          const answer = this.#pendingNextCalls.get(message.ticket);
          this.#pendingNextCalls.delete(message.ticket);
          answer?.(message.answer);
          break;
        }
        case "ping":
          this.#outgoing.add({ type: "pong", ping: message.ping, resources: this.#resources.metrics() });
          break;
        case "end":
          this.#outgoing.flush();
          port.close();
      }
    }
  }

  #startAttempt(attempt: LocalAttempt): void {
    const { node_type } = attempt.dispatch;
    if (this.#blockingNodeTypes.has(node_type)) this.#outgoing.flush();
    attempt.phase = "running";
    this.#attempts.set(attemptKeyText(attempt), attempt);
    const since = performance.now();
    this.#executor.start(attempt);
    this.#sendPendingOutcome(false);
    if (performance.now() - since < blockingThresholdMs) return;
    this.#blockingNodeTypes.add(node_type);
    this.#outgoing.flush();
  }

  #handlerReturned({ task, fence }: LocalAttempt): void {
    this.#attempts.delete(attemptKeyText({ task, fence }));
    if (this.#pendingOutcome?.task === task && this.#pendingOutcome.fence === fence) this.#sendPendingOutcome(true);
    else this.#outgoing.add({ type: "settled", task, fence });
  }

  #sendPendingOutcome(isSettled: boolean): void {
    if (this.#pendingOutcome === null) return;
    const { task, fence, attempt, outcome } = this.#pendingOutcome;
    this.#pendingOutcome = null;
    const { type, payload } = encodeOutcome(attempt, outcome, this.#resultSpill);
    this.#outgoing.add({ type: "finished", task, fence, outcome: { frameType: type, payload }, isSettled });
  }

  #sendFeedback({ task, fence }: LocalAttempt, input: object): void {
    let text: string | undefined;
    try {
      text = JSON.stringify(input);
    } catch (cause) {
      return this.#reportProblem({ message: `feedback of task ${task} cannot be written as JSON and was dropped`, cause });
    }
    if (text !== undefined) this.#outgoing.addUrgent({ type: "feedback", task, fence, input: text });
  }

  #callNext({ task, fence }: LocalAttempt, draft: NextCallDraft, answer: (answer: NextCallAnswer) => void): () => void {
    const ticket = this.#requestCount++;
    this.#pendingNextCalls.set(ticket, answer);
    this.#outgoing.addUrgent({ type: "next", ticket, task, fence, draft });
    return () => {
      if (this.#pendingNextCalls.delete(ticket)) this.#outgoing.add({ type: "next-forget", ticket });
    };
  }

  #sendVendorFrame(draft: OutgoingVendorFrame): Promise<boolean> {
    const ticket = this.#requestCount++;
    return new Promise((resolve) => {
      this.#pendingVendorSends.set(ticket, resolve);
      this.#outgoing.addUrgent({ type: "ext", ticket, draft });
    });
  }

  #reportProblem({ message, cause }: { message: string; cause: unknown }): void {
    this.#outgoing.add({ type: "report", message, cause: String(cause) });
  }
}

function after(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms);
  return () => clearTimeout(timer);
}

/** A look at what is kept is no reason for the thread to stay. */
function afterUnref(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms).unref();
  return () => clearTimeout(timer);
}

function summarizePackages(loadedPackages: LoadedPackages): LoadedPackagesSummary {
  return {
    packages: loadedPackages.packages.map(({ name, version, dir, manifestJson: written, handlers }) => ({
      name,
      version,
      dir,
      manifestJson: written,
      nodeTypes: handlers.map(({ nodeType }) => nodeType),
    })),
    problems: loadedPackages.problems.map(({ dir, fault }) => ({ dir, code: fault.code, message: fault.message })),
  };
}

const { port, settings } = workerData as { port: MessagePort; settings: HandlerThreadSettings };
// Listening only once all is loaded: what comes meanwhile waits in the port.
new HandlerThread(port, settings, await loadPackages(settings.packagesDir));
