// A Node host from inside: reads the frames of the worker, calls handlers, and reports what they do.

import path from "node:path";
import type { Duplex } from "node:stream";
import {
  type DispatchPayload,
  errorMessage,
  Fault,
  fault,
  isFaultCode,
  isRecord,
  type JsonObject,
  type Manifest,
  readManifest,
} from "@astraflow/protocol";
import type { HandlerVendorFrames } from "@astraflow/sdk";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import { readReturnedOutcome } from "../attempts/outcome.ts";
import { AttemptContext, type AttemptContextPorts } from "../handlers/attempt-context.ts";
import { readPackageStack } from "../handlers/error-stack.ts";
import type { RegisteredHandler } from "../handlers/handler.ts";
import { callWithOutput } from "../handlers/handler-output.ts";
import type { MiddlewareCallAnswer } from "../handlers/middleware-call.ts";
import { loadNodeHandlers } from "../handlers/node-handlers.ts";
import { manifestName, readManifestFile } from "../handlers/package-files.ts";
import { VendorFrameHub } from "../handlers/vendor-frames.ts";
import type { FromHost, HostedAttempt, HostRequest, RequestError, ToHost } from "./host-frames.ts";
import { hostProtocolVersion } from "./host-frames.ts";
import { HostOutbox } from "./host-outbox.ts";
import { type BlockingRequest, RemoteResources } from "./remote-resources.ts";

export interface NodeHostPorts {
  readonly channel: Duplex;
  readonly request: BlockingRequest;
  now(): number;
  wallClock(): number;
  after(ms: number, call: () => void): () => void;
  defer(call: () => void): void;
  /** From now on the process may use so much processor time; the answer grants as much again. */
  limitProcessorTime(seconds: number): () => void;
  /** The worker wants no more, or is gone. */
  exit(): void;
}

interface RunningCall {
  readonly attempt: LocalAttempt;
  readonly context: AttemptContext;
}

type Answer = { readonly value: unknown } | { readonly error: RequestError };

export class NodeHost {
  readonly #ports: NodeHostPorts;
  readonly #outbox: HostOutbox;
  readonly #resources: RemoteResources;
  readonly #vendorFrames = new VendorFrameHub();
  readonly #calls = new Map<number, RunningCall>();
  readonly #pendingRequests = new Map<number, (answer: Answer) => void>();
  #handlers: ReadonlyMap<string, RegisteredHandler> = new Map();
  #packageName = "";
  #packageVersion = "";
  #requestCount = 0;
  #isEnding = false;
  #renewProcessorTime = () => {};

  constructor(ports: NodeHostPorts, pendingFeedbackMax: number) {
    this.#ports = ports;
    this.#resources = new RemoteResources(ports.request, (call, operation, args) =>
      this.#request({ method: "resource", operation, arguments: args as JsonObject }, call),
    );
    this.#outbox = new HostOutbox(ports.channel, {
      defer: ports.defer,
      pendingFeedbackMax,
      feedbackDropped: (count) => this.#report("feedback was dropped because too much waits for the worker", `${count} frames`),
    });
  }

  handleFrame(frame: ToHost): void {
    switch (frame.type) {
      case "hello":
        return void this.#open(frame);
      case "start":
        return this.#start(frame.call, frame.attempt);
      case "cancel":
        return this.#calls.get(frame.call)?.attempt.stopSignal.stop(new Error(frame.reason));
      case "answer": {
        const settle = this.#pendingRequests.get(frame.request);
        this.#pendingRequests.delete(frame.request);
        return settle?.(frame);
      }
      case "dropped":
        return this.#handleDropped(frame.value, frame.reason);
      case "ext":
        return void this.#vendorFrames.deliver(frame.frame);
      case "ping":
        return this.#send({ type: "pong", ping: frame.ping });
      case "end":
        this.#isEnding = true;
        return this.#exitIfIdle();
    }
  }

  /** What a handler prints outside any call, and what it leaves behind when it ends the process. */
  reportOutput(channel: "stdout" | "stderr", text: string): void {
    this.#send({ type: "output", channel, text });
  }

  flush(): void {
    this.#outbox.flush();
  }

  #send(frame: FromHost): void {
    this.#outbox.send(frame);
  }

  #report(message: string, cause: unknown): void {
    this.#send({ type: "report", message, cause: String(cause) });
  }

  async #open(hello: Extract<ToHost, { type: "hello" }>): Promise<void> {
    const { name, version, dir } = hello.package;
    this.#packageName = name;
    this.#packageVersion = version;
    const runtime = `node ${process.versions.node}`;
    const refuse = (message: string): void =>
      this.#send({ type: "ready", runtime, handlers: [], problems: [{ code: "E.PKG.INVALID", message }] });
    if (hello.protocol !== hostProtocolVersion) return refuse(`this host speaks protocol ${hostProtocolVersion}`);
    const manifest = await readPackageManifest(dir);
    if (manifest instanceof Fault) return refuse(manifest.message);
    this.#vendorFrames.connect({
      sendFrame: (draft) => this.#request({ method: "ext", draft }) as Promise<boolean>,
      listenedTypesChanged: (types) => this.#send({ type: "listening", types }),
      reportProblem: ({ message, cause }) => this.#report(message, cause),
    });
    const { cpuSecondsMax } = hello.settings;
    if (cpuSecondsMax !== undefined) this.#renewProcessorTime = this.#ports.limitProcessorTime(cpuSecondsMax);
    const { handlers, problems } = await loadNodeHandlers(dir, manifest, this.#vendorFrames);
    this.#handlers = handlers;
    const found = problems.map(({ code, message }) => ({ code, message }));
    this.#send({ type: "ready", runtime, handlers: [...handlers.keys()], problems: found });
  }

  #start(call: number, hosted: HostedAttempt): void {
    const found = this.#handlers.get(hosted.nodeType);
    if (found === undefined) {
      const message = `package ${this.#packageName} ${this.#packageVersion} has no handler for ${hosted.nodeType}`;
      return this.#outbox.sendLast(call, { type: "error", call, code: "E.CMD.UNKNOWN", message });
    }
    const running = this.#createCall(call, hosted);
    const { context } = running;
    this.#calls.set(call, running);
    this.#renewProcessorTime();
    const print = (channel: "stdout" | "stderr", text: string): void => context.feedback.emitText(text, { channel });
    const succeed = (value: unknown): void => this.#finish(call, running, () => describeResult(call, value));
    const fail = (thrown: unknown): void => this.#finish(call, running, () => describeThrown(call, thrown, found.packageDir));
    try {
      const returned = callWithOutput(print, () => found.handler(context));
      if (isThenable(returned)) returned.then(succeed, fail);
      else succeed(returned);
    } catch (thrown) {
      fail(thrown);
    }
  }

  #createCall(call: number, hosted: HostedAttempt): RunningCall {
    const attempt = createAttempt(this.#describeDispatch(hosted), 0, 0);
    const ports: AttemptContextPorts = {
      after: this.#ports.after,
      wallClock: this.#ports.wallClock,
      groupStarted: (pid) => this.#send({ type: "group", pid, isAlive: true }),
      groupEnded: (pid) => this.#send({ type: "group", pid, isAlive: false }),
      sendFeedback: (_, input) => this.#sendFeedback(call, hosted.taskId, input),
      callNext: (_, { argumentsJson }, answer) => {
        const args = JSON.parse(argumentsJson) as Omit<Extract<HostRequest, { method: "next" }>, "method">;
        void this.#ask({ method: "next", ...args }, call).then((given) => answer(toMiddlewareAnswer(given)));
        return () => {};
      },
    };
    const leased = hosted.leased.map((resource) => this.#resources.restore(resource));
    const settings = {
      tenant: hosted.tenant,
      ext: this.#createVendorApi(call),
      resources: this.#resources.forCall(call),
      workRoot: path.dirname(hosted.dataDir),
    };
    return { attempt, context: new HostedContext(attempt, { config: hosted.config, leased }, settings, ports, hosted) };
  }

  #describeDispatch(hosted: HostedAttempt): DispatchPayload {
    const { hostNodeId, chainIndex, middlewareChain, resourceRefs, metadata } = hosted;
    return {
      constraints: {},
      ...metadata,
      run_id: hosted.runId,
      task_id: hosted.taskId,
      node_id: hosted.nodeId,
      node_type: hosted.nodeType,
      package_name: this.#packageName,
      package_version: this.#packageVersion,
      parameters: hosted.params,
      attempt: hosted.attempt,
      middleware_chain: [...middlewareChain],
      resource_refs: [...resourceRefs],
      ...(hostNodeId !== undefined && { host_node_id: hostNodeId }),
      ...(chainIndex !== undefined && { chain_index: chainIndex }),
    } as unknown as DispatchPayload;
  }

  /** Sent in the name of the call, so that its secrets are masked. */
  #createVendorApi(call: number): HandlerVendorFrames {
    return {
      on: (type, listener) => this.#vendorFrames.handlerApi.on(type, listener),
      send: async (type, payload, { corr } = {}) => {
        const draft = { type, payload: JSON.stringify(payload), corr };
        return (await this.#request({ method: "ext", draft }, call)) as boolean;
      },
    };
  }

  #sendFeedback(call: number, task: string, input: unknown): void {
    try {
      const text = JSON.stringify(input) as string | undefined;
      if (text === undefined) throw new Error("it is not an object");
      this.#outbox.sendFeedback(call, `{"type":"feedback","call":${call},"input":${text}}`);
    } catch (cause) {
      this.#report(`feedback of task ${task} cannot be written as JSON and was dropped`, cause);
    }
  }

  #finish(call: number, { context }: RunningCall, describe: () => string): void {
    this.#calls.delete(call);
    context.killChildProcesses();
    const usedDataDir = context.createdWorkDir !== undefined;
    const text = describe();
    this.#outbox.sendLast(call, usedDataDir ? `${text.slice(0, -1)},"usedDataDir":true}` : text);
    this.#exitIfIdle();
  }

  #handleDropped(number: number, reason: string): void {
    try {
      this.#resources.handleDropped(number, reason);
    } catch (cause) {
      this.#report("a resource could not be cleaned up", cause);
    }
  }

  async #request(request: HostRequest, call?: number): Promise<unknown> {
    const answer = await this.#ask(request, call);
    if (!("error" in answer)) return answer.value;
    const { code, message } = answer.error;
    throw isFaultCode(code) ? fault(code, message) : new Error(message);
  }

  #ask(request: HostRequest, call?: number): Promise<Answer> {
    const id = this.#requestCount++;
    return new Promise((resolve) => {
      this.#pendingRequests.set(id, resolve);
      this.#send({ type: "request", request: id, ...(call !== undefined && { call }), ...request });
      this.#outbox.flush();
    });
  }

  #exitIfIdle(): void {
    if (this.#isEnding && this.#calls.size === 0) this.#ports.exit();
  }
}

/** The worker has decided where the directory is, and when the time is up. */
class HostedContext extends AttemptContext {
  readonly #dataDir: string;
  override readonly deadline: number | undefined;
  override readonly idempotencyKey: string;

  constructor(
    attempt: LocalAttempt,
    given: ConstructorParameters<typeof AttemptContext>[1],
    settings: ConstructorParameters<typeof AttemptContext>[2],
    ports: AttemptContextPorts,
    hosted: HostedAttempt,
  ) {
    super(attempt, given, settings, ports);
    this.#dataDir = hosted.dataDir;
    this.deadline = hosted.deadline;
    this.idempotencyKey = hosted.idempotencyKey;
  }

  override get workDirPath(): string {
    return this.#dataDir;
  }
}

async function readPackageManifest(dir: string): Promise<Manifest | Fault> {
  const manifestJson = await readManifestFile(path.join(dir, manifestName));
  return manifestJson instanceof Fault ? manifestJson : readManifest(manifestJson);
}

function describeResult(call: number, value: unknown): string {
  try {
    if (isRecord(value)) return `{"type":"result","call":${call},"value":${JSON.stringify(value)}}`;
  } catch (thrown) {
    const message = `the result cannot be written as JSON: ${errorMessage(thrown)}`;
    return JSON.stringify({ type: "error", call, message });
  }
  // Says what is wrong with it.
  const outcome = readReturnedOutcome(value, 0);
  return JSON.stringify({ type: "error", call, message: outcome.type === "error" ? outcome.message : "" });
}

function describeThrown(call: number, thrown: unknown, packageDir: string | undefined): string {
  const stack = readPackageStack(thrown, packageDir);
  const message = thrown instanceof Error ? thrown.message || thrown.name : `the handler threw ${describeNonError(thrown)}`;
  return JSON.stringify({
    type: "error",
    call,
    message,
    ...(thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" && { code: thrown.code }),
    ...(stack !== undefined && { stack }),
  });
}

function describeNonError(thrown: unknown): string {
  return typeof thrown === "string" ? JSON.stringify(thrown.slice(0, 200)) : `a ${typeof thrown}`;
}

function toMiddlewareAnswer(answer: Answer): MiddlewareCallAnswer {
  if (!("error" in answer)) return { result: answer.value as never };
  const { code, message, trace = {} } = answer.error;
  return { error: { code, message }, trace };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
