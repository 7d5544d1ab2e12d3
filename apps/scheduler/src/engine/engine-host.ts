// Runs the engine in this thread or in a worker thread. Both hosts take and return batches of plain data, so the doors need not know which.

import { setTimeout as pause } from "node:timers/promises";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { CommandRequest, EngineProblem } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import type { SweepReport } from "@astraflow/services";
import { releasePausedThreads } from "../platform/failpoints.ts";
import {
  type EngineHostGauge,
  type EngineListeners,
  type EngineStartOptions,
  type RunningEngine,
  startEngine,
} from "./engine-start.ts";

/** From a thread the gauge is up to `gaugeIntervalMs` old. */
export interface EngineHost extends RunningEngine {
  /** Resolves with the reason when the engine dies or is replaced. Then the process has to end. */
  readonly died: Promise<Error>;
}

/** What the engine reports to the doors; its end is reported by `died`. */
export type EngineHostListeners = Omit<EngineListeners, "onReplaced">;

export interface EngineHostOptions extends EngineStartOptions {
  readonly threads: number;
}

/** How often the thread sends its gauge. Readiness is derived from it, so it must be well below the limit there. */
export const gaugeIntervalMs = 250;

/** How long a stopped thread may take to exit. Terminated while it closes, it may crash the process. */
const threadExitMs = 2_000;

/** Messages to the thread. */
export type MessageToEngine = { readonly type: "push"; readonly items: readonly CommandRequest[] } | { readonly type: "stop" };

/** Messages from the thread. Errors do not survive the transfer, so they are sent as data. */
export type MessageFromEngine =
  | { readonly type: "started"; readonly gauge: EngineHostGauge }
  | ({ readonly type: "refused" | "replaced"; readonly code: string | null } & Pick<Fault, "message" | "details">)
  | { readonly type: "effects"; readonly effects: Parameters<EngineListeners["onEffects"]>[0] }
  | { readonly type: "gauge"; readonly gauge: EngineHostGauge }
  | { readonly type: "problem"; readonly problem: EngineProblem }
  | { readonly type: "swept"; readonly report: SweepReport }
  | { readonly type: "stopped" };

export function startEngineHost(options: EngineHostOptions, listeners: EngineHostListeners): Promise<EngineHost> {
  return options.threads === 0 ? startInMainThread(options, listeners) : new EngineThread(options, listeners).start();
}

async function startInMainThread(options: EngineHostOptions, listeners: EngineHostListeners): Promise<EngineHost> {
  const died = Promise.withResolvers<Error>();
  const engine = await startEngine(options, { ...listeners, onReplaced: died.resolve }, null);
  let batch: CommandRequest[] = [];
  // Everything that arrives in one round of the event loop becomes one batch: one turn, with one fsync, handles all of it.
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
    // Without a thread an error of the engine is uncaught and ends the process by itself.
    died: died.promise,
  };
}

function toError({ code, message, details }: Extract<MessageFromEngine, { type: "refused" | "replaced" }>): Error {
  return code === null ? new Error(message) : new Fault(code as FaultCode, message, details);
}

/** The engine in a worker thread. Started by `start`, which rejects if the engine refuses to start. */
class EngineThread implements EngineHost {
  readonly #listeners: EngineHostListeners;
  readonly #thread: Worker;
  readonly #port: MessagePort;
  readonly #started = Promise.withResolvers<void>();
  readonly #stopped = Promise.withResolvers<void>();
  readonly #exited = Promise.withResolvers<void>();
  readonly #died = Promise.withResolvers<Error>();
  #gauge: EngineHostGauge | null = null;
  #isStopping = false;

  constructor(options: EngineHostOptions, listeners: EngineHostListeners) {
    this.#listeners = listeners;
    const pauseFlag = new Int32Array(new SharedArrayBuffer(4));
    if (options.failpoints.some((point) => point.action === "pause"))
      process.on("SIGCONT", () => releasePausedThreads(pauseFlag));
    const { port1: hostPort, port2: threadPort } = new MessageChannel();
    this.#port = hostPort;
    this.#thread = new Worker(new URL("./engine-thread.ts", import.meta.url), {
      workerData: { options, gate: pauseFlag, port: threadPort },
      transferList: [threadPort],
      name: "engine",
      // With the default young generation a thread keeps some fifty megabytes of garbage and is no faster for it.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
      // What the thread prints must not wait for the event loop of this thread.
      stdout: false,
      stderr: false,
    });
    let crash: Error | undefined;
    hostPort.on("message", (message: MessageFromEngine) => this.#handleMessage(message));
    this.#thread.on("error", (cause) => {
      crash = cause instanceof Error ? cause : new Error(String(cause));
    });
    this.#thread.on("exit", (code) => this.#handleExit(crash ?? new Error(`the engine's thread ended with code ${code}`)));
  }

  get died(): Promise<Error> {
    return this.#died.promise;
  }

  async start(): Promise<EngineHost> {
    try {
      await this.#started.promise;
      return this;
    } catch (cause) {
      await this.#endThread();
      throw cause;
    }
  }

  push(items: readonly CommandRequest[]): void {
    this.#send({ type: "push", items });
  }

  gauge(): EngineHostGauge {
    if (this.#gauge === null) throw new Error("the engine's thread has started without a gauge");
    return this.#gauge;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#send({ type: "stop" });
    await this.#stopped.promise;
    await this.#endThread();
  }

  #send(message: MessageToEngine): void {
    this.#port.postMessage(message);
  }

  #handleMessage(message: MessageFromEngine): void {
    switch (message.type) {
      case "effects":
        return this.#listeners.onEffects(message.effects);
      case "problem":
        return this.#listeners.onProblem(message.problem);
      case "swept":
        return this.#listeners.onSwept(message.report);
      case "gauge":
        this.#gauge = message.gauge;
        return;
      case "started":
        this.#gauge = message.gauge;
        return this.#started.resolve();
      case "refused":
        return this.#started.reject(toError(message));
      case "replaced":
        return this.#died.resolve(toError(message));
      case "stopped":
        return this.#stopped.resolve();
    }
  }

  #handleExit(reason: Error): void {
    // The exit may overtake the last messages, which say why.
    for (let last = receiveMessageOnPort(this.#port); last; last = receiveMessageOnPort(this.#port))
      this.#handleMessage(last.message as MessageFromEngine);
    this.#port.close();
    this.#exited.resolve();
    this.#started.reject(reason);
    if (this.#isStopping) this.#stopped.resolve();
    else this.#died.resolve(reason);
  }

  async #endThread(): Promise<void> {
    await Promise.race([this.#exited.promise, pause(threadExitMs, undefined, { ref: false })]);
    await this.#thread.terminate();
  }
}
