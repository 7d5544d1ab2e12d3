// The attempts that run in one process of a host: what its frames mean for the context of each.

import { errorMessage, Fault, fault, isFaultCode, type JsonObject } from "@astraflow/protocol";
import { type HandlerVendorFrames, NextError } from "@astraflow/sdk";
import type { AttemptContext } from "../handlers/attempt-context.ts";
import { HostedError } from "../handlers/error-stack.ts";
import { createSecretMask } from "../handlers/secret-mask.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import type { FromHost, HostedAttempt, HostedPackage, RequestError, ToHost } from "./host-frames.ts";
import { HostResources, toHostedResource } from "./host-resources.ts";

export interface HostCallsPorts {
  readonly package: HostedPackage;
  readonly cancelGraceMs: number;
  after(ms: number, call: () => void): () => void;
  /** A cancelled attempt goes on. */
  cancelIgnored(task: string): void;
  /** A vendor frame of no task. */
  sendVendorFrame(draft: OutgoingVendorFrame): Promise<boolean>;
  callEnded(): void;
}

type CallFrame = Extract<FromHost, { type: "feedback" | "result" | "error" | "request" }>;

interface HostedCall {
  readonly context: AttemptContext;
  readonly outcome: PromiseWithResolvers<unknown>;
  isCancelled: boolean;
  cancelTimer: () => void;
  readonly stop: () => void;
}

export class HostCalls {
  readonly #send: (frame: ToHost) => void;
  readonly #ports: HostCallsPorts;
  readonly #calls = new Map<number, HostedCall>();
  readonly #resources: HostResources;
  #callCount = 0;

  constructor(send: (frame: ToHost) => void, ports: HostCallsPorts) {
    this.#send = send;
    this.#ports = ports;
    this.#resources = new HostResources(send);
  }

  get runningCount(): number {
    return this.#calls.size;
  }

  /** Those whose outcome is still of use. */
  get wantedCount(): number {
    return [...this.#calls.values()].filter(({ isCancelled }) => !isCancelled).length;
  }

  start(context: AttemptContext, nodeType: string): Promise<unknown> {
    const call = this.#callCount++;
    const entry: HostedCall = {
      context,
      outcome: Promise.withResolvers(),
      isCancelled: false,
      cancelTimer: () => {},
      stop: () => this.#cancel(call, entry),
    };
    this.#calls.set(call, entry);
    context.signal.addEventListener("abort", entry.stop, { once: true });
    this.#send({ type: "start", call, attempt: describeAttempt(context, nodeType) });
    return entry.outcome.promise;
  }

  handleFrame(frame: CallFrame): void {
    const entry = frame.call === undefined ? undefined : this.#calls.get(frame.call);
    if (frame.type === "request" && frame.method === "ext" && frame.call === undefined)
      return void this.#answer(frame.request, () => this.#ports.sendVendorFrame(frame.draft));
    if (entry === undefined) {
      // It has ended, and its adapter goes on: nobody takes its feedback.
      if (frame.type === "request") this.#answerError(frame.request, fault("E.RUNNER.CANCELLED", "the task has ended"));
      return;
    }
    switch (frame.type) {
      case "feedback":
        return entry.context.feedback.send(frame.input);
      case "result":
        return this.#end(frame, entry, ({ resolve, reject }) =>
          hasOverflow(frame.value) ? reject(fault("E.FRAME.INVALID", overflowMessage)) : resolve(frame.value),
        );
      case "error":
        return this.#end(frame, entry, ({ reject }) => reject(readHostError(frame)));
      case "request":
        return void this.#answer(frame.request, () => this.#carryOut(frame, entry.context));
    }
  }

  /** Output that belongs to nobody by itself: where a single attempt runs it is its own. */
  giveOutput(channel: "stdout" | "stderr", text: string): boolean {
    const [only, ...others] = this.#calls.values();
    if (only === undefined || others.length > 0) return false;
    only.context.feedback.emitText(text, { channel });
    return true;
  }

  /** The process is gone. */
  failAll(why: Error): void {
    for (const [call, entry] of this.#calls) this.#end({ call, usedDataDir: true }, entry, ({ reject }) => reject(why));
    this.#resources.releaseAll();
  }

  /** A text of the host without the secrets of any attempt that runs in it. */
  maskSecrets(text: string): string {
    return [...this.#calls.values()].reduce(
      (masked, { context }) => createSecretMask(context.params)?.maskText(masked) ?? masked,
      text,
    );
  }

  #cancel(call: number, entry: HostedCall): void {
    entry.isCancelled = true;
    this.#send({ type: "cancel", call, reason: errorMessage(entry.context.signal.reason) });
    entry.cancelTimer = this.#ports.after(this.#ports.cancelGraceMs, () => this.#ports.cancelIgnored(entry.context.taskId));
    // A host that is only waiting for others may go now.
    this.#ports.callEnded();
  }

  #end(
    { call, usedDataDir }: { readonly call: number; readonly usedDataDir?: boolean },
    entry: HostedCall,
    settle: (outcome: HostedCall["outcome"]) => void,
  ): void {
    this.#calls.delete(call);
    entry.cancelTimer();
    entry.context.signal.removeEventListener("abort", entry.stop);
    // So that it is removed with the attempt.
    if (usedDataDir === true) entry.context.adoptWorkDir();
    settle(entry.outcome);
    this.#ports.callEnded();
  }

  async #answer(request: number, carryOut: () => unknown): Promise<void> {
    try {
      this.#send({ type: "answer", request, value: await carryOut() });
    } catch (thrown) {
      this.#answerError(request, thrown);
    }
  }

  #carryOut(frame: Extract<FromHost, { type: "request" }>, context: AttemptContext): unknown {
    switch (frame.method) {
      case "next":
        return context.next(frame.payload, frame.hostCtx, frame.middlewareCtx, frame.timeoutMs);
      case "resource":
        return this.#resources.carryOut(context.resources, frame.operation, frame.arguments);
      case "ext":
        return sendVendorFrame(context.ext, frame.draft);
    }
  }

  #answerError(request: number, thrown: unknown): void {
    this.#send({ type: "answer", request, error: describeError(thrown) });
  }
}

export function sendVendorFrame(frames: HandlerVendorFrames, { type, corr, payload }: OutgoingVendorFrame): Promise<boolean> {
  return frames.send(type, JSON.parse(payload) as JsonObject, corr === undefined ? {} : { corr });
}

const overflowMessage = "the result cannot be sent: it has a number that is too large";

/** A number that JSON can write and nobody can read became infinite, and would be sent as null. */
function hasOverflow(value: unknown): boolean {
  // A list, not recursion: how deep a value is, nobody has checked yet.
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one === "number" && !Number.isFinite(one)) return true;
    if (typeof one === "object" && one !== null) for (const part of Object.values(one)) open.push(part);
  }
  return false;
}

function describeError(thrown: unknown): RequestError {
  const message = errorMessage(thrown);
  if (thrown instanceof NextError) return { code: thrown.code, message, trace: thrown.trace };
  return { code: thrown instanceof Fault ? thrown.code : "E.RUNNER.FAILURE", message };
}

/** What its handler has thrown: as an error of its package, with the place in it. */
function readHostError({ code, message, stack }: Extract<FromHost, { type: "error" }>): Error {
  if (code !== undefined && isFaultCode(code)) return fault(code, message);
  return stack === undefined ? new Error(message) : new HostedError(message, stack);
}

function describeAttempt(context: AttemptContext, nodeType: string): HostedAttempt {
  const { deadline, hostNodeId, chainIndex } = context;
  return {
    runId: context.runId,
    taskId: context.taskId,
    nodeId: context.nodeId,
    nodeType,
    tenant: context.tenant,
    attempt: context.attempt,
    params: context.params,
    config: context.config,
    metadata: context.metadata,
    dataDir: context.workDirPath,
    idempotencyKey: context.idempotencyKey,
    ...(deadline !== undefined && { deadline }),
    ...(hostNodeId !== undefined && { hostNodeId }),
    middlewareChain: context.middlewareChain,
    ...(chainIndex !== undefined && { chainIndex }),
    resourceRefs: context.resourceRefs,
    leased: context.leased.map(toHostedResource),
  };
}
