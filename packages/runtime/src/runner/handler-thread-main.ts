// The thread in which handlers run; it may block, crash or run out of memory. Started by spawn-handler-thread.ts, imported by no file.

import { type MessagePort, workerData } from "node:worker_threads";
import { errorMessage, fault } from "@astraflow/protocol";
import type { StoredFile } from "@astraflow/sdk";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import type { AttemptOutcome } from "../attempts/outcome.ts";
import { HandlerHost } from "../handlers/handler-host.ts";
import { captureOutput } from "../handlers/handler-output.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";
import { type LoadedPackages, loadPackages } from "../handlers/package-loader.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import { HostSet } from "../hosts/host-set.ts";
import type { FileTransfer } from "../resources/file-transfer.ts";
import { MessageBatcher } from "../system/message-batcher.ts";
import { attemptKeyText, type FromHandlerThread, type HandlerThreadSettings, type ToHandlerThread } from "./thread-messages.ts";

/** A handler that keeps the thread for longer than this blocks it: messages of others are posted before its type is called again. */
const blockingThresholdMs = 2;

class HandlerThread {
  readonly #port: MessagePort;
  readonly #outgoing: MessageBatcher<FromHandlerThread>;
  readonly #host: HandlerHost;
  readonly #loadedPackages: LoadedPackages;
  readonly #attempts = new Map<string, LocalAttempt>();
  readonly #pendingVendorSends = new Map<number, (isTaken: boolean) => void>();
  readonly #pendingTransfers = new Map<number, PromiseWithResolvers<StoredFile>>();
  readonly #pendingNextCalls = new Map<number, (answer: MiddlewareCallAnswer) => void>();
  #requestCount = 0;
  readonly #blockingNodeTypes = new Set<string>();
  /** Not posted yet: where the handler returns with its outcome, one message reports both. */
  #pendingOutcome: { readonly attempt: LocalAttempt; readonly outcome: AttemptOutcome } | null = null;

  constructor(port: MessagePort, settings: HandlerThreadSettings, loadedPackages: LoadedPackages) {
    const outgoing = new MessageBatcher<FromHandlerThread>((messages) => port.postMessage(messages), setImmediate);
    this.#outgoing = outgoing;
    this.#loadedPackages = loadedPackages;
    this.#port = port;
    const reportProblem = ({ message, cause }: { message: string; cause: unknown }) =>
      outgoing.add({ type: "report", message, cause: String(cause) });
    this.#host = new HandlerHost(settings, loadedPackages, {
      now: () => performance.now(),
      after,
      resources: {
        wallClock: () => Date.now(),
        // A look at what is kept is no reason for the thread to stay.
        after: (ms, call) => after(ms, call, true),
        resourceReferenced: (resource) => outgoing.add({ type: "announced", resource }),
        resourceRemoved: (resource, reason) => outgoing.add({ type: "removed", resource, reason }),
        transferFile: (transfer) => this.#transferFile(transfer),
      },
      callNext: (attempt, draft, answer) => this.#callNext(attempt, draft, answer),
      groupStarted: (pid) => outgoing.addUrgent({ type: "spawned", pid }),
      groupEnded: (pid) => outgoing.add({ type: "reaped", pid }),
      attemptFinished: (attempt, outcome) => {
        this.#sendPendingOutcome(false);
        this.#pendingOutcome = { attempt, outcome };
        // An attempt that is out of time is reported although its handler has not returned.
        queueMicrotask(() => this.#sendPendingOutcome(false));
      },
      handlerReturned: (attempt) => this.#handlerReturned(attempt),
      sendFeedback: ({ task, fence }, _, text) => outgoing.addUrgent({ type: "feedback", task, fence, input: text }),
      reportProblem,
    });
    const { resources, vendorFrames } = this.#host;
    const { packages, problems } = loadedPackages;
    outgoing.add({ type: "loaded", packages: { packages, problems }, referencedResources: resources.referencedIds() });
    vendorFrames.connect({
      sendFrame: (frame) => this.#sendVendorFrame(frame),
      listenedTypesChanged: (types) => outgoing.add({ type: "listening", types }),
      reportProblem,
    });
    port.on("message", (messages: readonly ToHandlerThread[]) => {
      // Each row takes the messages of its own type.
      for (const message of messages) this.#handlers[message.type](message as never);
    });
    // A handler that ends the thread must not take the messages of others with it.
    process.on("exit", () => this.#outgoing.flush());
  }

  readonly #handlers: { readonly [T in ToHandlerThread["type"]]: (message: Extract<ToHandlerThread, { type: T }>) => void } = {
    start: ({ dispatch, fence }) => this.#startAttempt(createAttempt(dispatch, fence, 0)),
    stop: (message) => this.#attempts.get(attemptKeyText(message))?.stopSignal.stop(new Error(message.reason)),
    ext: ({ frame }) => void this.#host.vendorFrames.deliver(frame),
    "ext-answer": ({ ticket, isTaken }) => {
      this.#pendingVendorSends.get(ticket)?.(isTaken);
      this.#pendingVendorSends.delete(ticket);
    },
    "next-answer": ({ ticket, answer }) => {
      const resolve = this.#pendingNextCalls.get(ticket);
      this.#pendingNextCalls.delete(ticket);
      resolve?.(answer);
    },
    "transfer-answer": ({ ticket, ...answer }) => {
      const pending = this.#pendingTransfers.get(ticket);
      this.#pendingTransfers.delete(ticket);
      if ("stored" in answer) pending?.resolve(answer.stored);
      else pending?.reject(fault(answer.error.code, answer.error.message));
    },
    reload: () => void this.#reload(),
    ping: ({ ping }) => {
      const report = this.#host.reportResources();
      const resources = this.#host.resources.metrics();
      this.#outgoing.add({ type: "pong", ping, resources, ...(report !== undefined && { report }) });
    },
    end: () => void this.#end(),
  };

  async #end(): Promise<void> {
    this.#outgoing.flush();
    // Hosts keep the thread, as the port does.
    await this.#loadedPackages.close?.();
    this.#port.close();
  }

  async #reload(): Promise<void> {
    let problem: { problem?: string } = {};
    try {
      await this.#loadedPackages.reload?.();
    } catch (thrown) {
      problem = { problem: errorMessage(thrown) };
    }
    const { packages, problems } = this.#loadedPackages;
    this.#outgoing.add({ type: "reloaded", packages: { packages, problems }, ...problem });
  }

  #startAttempt(attempt: LocalAttempt): void {
    const { node_type } = attempt.dispatch;
    if (this.#blockingNodeTypes.has(node_type)) this.#outgoing.flush();
    attempt.phase = "running";
    this.#attempts.set(attemptKeyText(attempt), attempt);
    const since = performance.now();
    this.#host.executor.start(attempt);
    this.#sendPendingOutcome(false);
    if (performance.now() - since < blockingThresholdMs) return;
    this.#blockingNodeTypes.add(node_type);
    this.#outgoing.flush();
  }

  #handlerReturned({ task, fence }: LocalAttempt): void {
    this.#attempts.delete(attemptKeyText({ task, fence }));
    const pending = this.#pendingOutcome?.attempt;
    if (pending?.task === task && pending.fence === fence) this.#sendPendingOutcome(true);
    else this.#outgoing.add({ type: "settled", task, fence });
  }

  #sendPendingOutcome(isSettled: boolean): void {
    if (this.#pendingOutcome === null) return;
    const { attempt, outcome } = this.#pendingOutcome;
    const { task, fence } = attempt;
    this.#pendingOutcome = null;
    this.#outgoing.add({ type: "finished", task, fence, outcome: this.#host.encodeOutcome(attempt, outcome), isSettled });
  }

  #callNext(
    { task, fence }: LocalAttempt,
    draft: MiddlewareCallDraft,
    answer: (answer: MiddlewareCallAnswer) => void,
  ): () => void {
    const ticket = this.#requestCount++;
    this.#pendingNextCalls.set(ticket, answer);
    this.#outgoing.addUrgent({ type: "next", ticket, task, fence, draft });
    return () => {
      if (this.#pendingNextCalls.delete(ticket)) this.#outgoing.add({ type: "next-forget", ticket });
    };
  }

  #transferFile(transfer: FileTransfer): Promise<StoredFile> {
    const ticket = this.#requestCount++;
    const pending = Promise.withResolvers<StoredFile>();
    this.#pendingTransfers.set(ticket, pending);
    this.#outgoing.addUrgent({ type: "transfer", ticket, transfer });
    return pending.promise;
  }

  #sendVendorFrame(draft: OutgoingVendorFrame): Promise<boolean> {
    const ticket = this.#requestCount++;
    return new Promise((resolve) => {
      this.#pendingVendorSends.set(ticket, resolve);
      this.#outgoing.addUrgent({ type: "ext", ticket, draft });
    });
  }
}

function after(ms: number, call: () => void, isUnref = false): () => void {
  const timer = setTimeout(call, ms);
  if (isUnref) timer.unref();
  return () => clearTimeout(timer);
}

const { port, settings } = workerData as { port: MessagePort; settings: HandlerThreadSettings };
// Standard output belongs to the worker's own process.
captureOutput((channel, text) => {
  const report: FromHandlerThread = {
    type: "report",
    message: `a package printed to ${channel} outside of any task`,
    cause: text,
  };
  port.postMessage([report]);
});
const post = (message: FromHandlerThread): void => port.postMessage([message]);
const hosting =
  settings.hosting &&
  new HostSet(
    {
      environment: { now: () => performance.now(), after, defer: (call) => void setImmediate(call) },
      groupStarted: (pid) => post({ type: "spawned", pid }),
      groupEnded: (pid) => post({ type: "reaped", pid }),
      reportProblem: ({ message, cause }) => post({ type: "report", message, cause: String(cause) }),
    },
    settings.hosting,
  );
// Listening only once all is loaded: what comes meanwhile waits in the port.
new HandlerThread(port, settings, await loadPackages(settings.packagesDir, hosting));
