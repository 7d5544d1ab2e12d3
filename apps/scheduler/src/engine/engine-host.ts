// Where the engine lives: in this thread, or in one of its own. Both hosts take batches of plain commands and give back batches of
// plain effects, so that doors cannot tell them apart. What the engine is made of is in engine-start.ts.

import { setTimeout as pause } from "node:timers/promises";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { CommandRequest, EngineProblem } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import { releasePausedThreads } from "../platform/failpoints.ts";
import { type EngineHostGauge, type EngineListeners, type EngineStartOptions, startEngine } from "./engine-start.ts";

export interface EngineHost {
  push(items: readonly CommandRequest[]): void;
  /** The engine's last word about itself; with a thread up to `gaugeIntervalMs` old. */
  gauge(): EngineHostGauge;
  stop(): Promise<void>;
  /** Settles only when the engine dies on its own, or is replaced: with the reason. Nothing can be done then but to end the process. */
  readonly died: Promise<Error>;
}

/** What the doors hear of the engine; its end is `died` of the host. */
export type EngineHostListeners = Omit<EngineListeners, "onReplaced">;

export interface EngineHostOptions extends EngineStartOptions {
  readonly threads: number;
}

/** How often the thread says how it is. Readiness is judged from these words, so it must be well below that limit. */
export const gaugeIntervalMs = 250;

/** How long a thread that has said its last word may take to end by itself. Ended from outside while it closes, it may take us along. */
const threadExitMs = 2_000;

/** Into the thread. */
export type MessageToEngine = { readonly type: "push"; readonly items: readonly CommandRequest[] } | { readonly type: "stop" };

/** Out of the thread. Errors do not cross threads whole, so they travel as data. */
export type MessageFromEngine =
  | { readonly type: "started"; readonly gauge: EngineHostGauge }
  | {
      readonly type: "refused" | "replaced";
      readonly code: string | null;
      readonly message: string;
      readonly details: Fault["details"];
    }
  | { readonly type: "effects"; readonly effects: Parameters<EngineListeners["onEffects"]>[0] }
  | { readonly type: "gauge"; readonly gauge: EngineHostGauge }
  | { readonly type: "problem"; readonly problem: EngineProblem }
  | { readonly type: "stopped" };

export function startEngineHost(options: EngineHostOptions, listeners: EngineHostListeners): Promise<EngineHost> {
  return options.threads === 0 ? startInMainThread(options, listeners) : startInWorkerThread(options, listeners);
}

async function startInMainThread(options: EngineHostOptions, listeners: EngineHostListeners): Promise<EngineHost> {
  const died = Promise.withResolvers<Error>();
  const engine = await startEngine(options, { ...listeners, onReplaced: died.resolve }, null);
  let batch: CommandRequest[] = [];
  // Everything the sockets bring in one round of the event loop makes one batch: a turn, and its fsync, serves them all.
  const flush = () => {
    const items = batch;
    batch = [];
    engine.push(items);
  };
  return {
    push(items) {
      if (batch.length === 0) setImmediate(flush);
      for (const item of items) batch.push(item);
    },
    gauge: engine.gauge,
    stop() {
      flush();
      return engine.stop();
    },
    // Without a thread an engine that breaks takes the process with it by itself: the error is nobody's.
    died: died.promise,
  };
}

function toError({ code, message, details }: Extract<MessageFromEngine, { type: "refused" | "replaced" }>): Error {
  return code === null ? new Error(message) : new Fault(code as FaultCode, message, details);
}

async function startInWorkerThread(options: EngineHostOptions, listeners: EngineHostListeners): Promise<EngineHost> {
  const pauseFlag = new Int32Array(new SharedArrayBuffer(4));
  if (options.failpoints.some((point) => point.action === "pause")) process.on("SIGCONT", () => releasePausedThreads(pauseFlag));
  const { port1: hostPort, port2: threadPort } = new MessageChannel();
  const thread = new Worker(new URL("./engine-thread.ts", import.meta.url), {
    workerData: { options, gate: pauseFlag, port: threadPort },
    transferList: [threadPort],
    name: "engine",
    // With the usual young generation a thread keeps some fifty megabytes of garbage it need not; it is no faster for it.
    resourceLimits: { maxYoungGenerationSizeMb: 24 },
    // What the thread prints must not wait for this thread's event loop.
    stdout: false,
    stderr: false,
  });

  let gauge: EngineHostGauge | undefined;
  let isStopping = false;
  const stopped = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const died = Promise.withResolvers<Error>();
  const exited = Promise.withResolvers<void>();
  const sendToThread = (message: MessageToEngine) => hostPort.postMessage(message);

  const handleMessage = (message: MessageFromEngine) => {
    switch (message.type) {
      case "effects":
        return listeners.onEffects(message.effects);
      case "gauge":
        gauge = message.gauge;
        return;
      case "problem":
        return listeners.onProblem(message.problem);
      case "started":
        gauge = message.gauge;
        return started.resolve();
      case "refused":
        return started.reject(toError(message));
      case "replaced":
        return died.resolve(toError(message));
      case "stopped":
        return stopped.resolve();
    }
  };
  hostPort.on("message", handleMessage);
  let crash: Error | undefined;
  thread.on("error", (cause) => {
    crash = cause instanceof Error ? cause : new Error(String(cause));
  });
  thread.on("exit", (code) => {
    // Its end may overtake its last words, which say why.
    for (let last = receiveMessageOnPort(hostPort); last; last = receiveMessageOnPort(hostPort))
      handleMessage(last.message as MessageFromEngine);
    hostPort.close();
    exited.resolve();
    const end = crash ?? new Error(`the engine's thread ended with code ${code}`);
    started.reject(end);
    if (isStopping) stopped.resolve();
    else died.resolve(end);
  });

  const endThread = async () => {
    await Promise.race([exited.promise, pause(threadExitMs, undefined, { ref: false })]);
    await thread.terminate();
  };
  try {
    await started.promise;
  } catch (cause) {
    await endThread();
    throw cause;
  }
  return {
    push: (items) => sendToThread({ type: "push", items }),
    gauge() {
      if (!gauge) throw new Error("the engine's thread has started without saying how it is");
      return gauge;
    },
    async stop() {
      isStopping = true;
      sendToThread({ type: "stop" });
      await stopped.promise;
      await endThread();
    },
    died: died.promise,
  };
}
