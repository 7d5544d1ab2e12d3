// Where the engine lives: in this thread, or in one of its own. Both hosts take batches of plain commands and give back batches of
// plain effects, so that doors cannot tell them apart. What the engine is made of is in engine-world.ts.

import { setTimeout as pause } from "node:timers/promises";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { CommandRequest, EngineProblem } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import { type EngineEars, type EngineOptions, type HostGauge, runEngine } from "./engine-world.ts";
import { openGate } from "./failpoints.ts";

export interface EngineHost {
  push(items: readonly CommandRequest[]): void;
  /** The engine's last word about itself; with a thread up to `gaugeMs` old. */
  gauge(): HostGauge;
  stop(): Promise<void>;
  /** Settles only when the engine dies on its own, or is replaced: with the reason. Nothing can be done then but to end the process. */
  readonly died: Promise<Error>;
}

/** What the doors hear of the engine; its end is `died` of the host. */
export type HostEars = Omit<EngineEars, "replaced">;

export interface HostOptions extends EngineOptions {
  readonly threads: number;
}

/** How often the thread says how it is. Readiness is judged from these words, so it must be well below that limit. */
export const gaugeMs = 250;

/** How long a thread that has said its last word may take to end by itself. Ended from outside while it closes, it may take us along. */
const threadEndMs = 2_000;

/** Into the thread. */
export type ToEngine = { readonly type: "push"; readonly items: readonly CommandRequest[] } | { readonly type: "stop" };

/** Out of the thread. Errors do not cross threads whole, so they travel as data. */
export type FromEngine =
  | { readonly type: "started"; readonly gauge: HostGauge }
  | {
      readonly type: "refused" | "replaced";
      readonly code: string | null;
      readonly message: string;
      readonly details: Fault["details"];
    }
  | { readonly type: "effects"; readonly effects: Parameters<EngineEars["hear"]>[0] }
  | { readonly type: "gauge"; readonly gauge: HostGauge }
  | { readonly type: "problem"; readonly problem: EngineProblem }
  | { readonly type: "stopped" };

export function startHost(options: HostOptions, ears: HostEars): Promise<EngineHost> {
  return options.threads === 0 ? startInThread(options, ears) : startOwnThread(options, ears);
}

async function startInThread(options: HostOptions, ears: HostEars): Promise<EngineHost> {
  const died = Promise.withResolvers<Error>();
  const engine = await runEngine(options, { ...ears, replaced: died.resolve }, null);
  let waiting: CommandRequest[] = [];
  // Everything the sockets bring in one round of the event loop makes one batch: a turn, and its fsync, serves them all.
  const flush = () => {
    const items = waiting;
    waiting = [];
    engine.push(items);
  };
  return {
    push(items) {
      if (waiting.length === 0) setImmediate(flush);
      for (const item of items) waiting.push(item);
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

function asError({ code, message, details }: Extract<FromEngine, { type: "refused" | "replaced" }>): Error {
  return code === null ? new Error(message) : new Fault(code as FaultCode, message, details);
}

async function startOwnThread(options: HostOptions, ears: HostEars): Promise<EngineHost> {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  if (options.failpoints.some((point) => point.action === "pause")) process.on("SIGCONT", () => openGate(gate));
  const { port1: near, port2: far } = new MessageChannel();
  const thread = new Worker(new URL("./engine-thread.ts", import.meta.url), {
    workerData: { options, gate, port: far },
    transferList: [far],
    name: "engine",
    // With the usual young generation a thread keeps some fifty megabytes of garbage it need not; it is no faster for it.
    resourceLimits: { maxYoungGenerationSizeMb: 24 },
    // What the thread prints must not wait for this thread's event loop.
    stdout: false,
    stderr: false,
  });

  let gauge: HostGauge | undefined;
  let isStopping = false;
  const stopped = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const died = Promise.withResolvers<Error>();
  const exited = Promise.withResolvers<void>();
  const say = (word: ToEngine) => near.postMessage(word);

  const hear = (word: FromEngine) => {
    switch (word.type) {
      case "effects":
        return ears.hear(word.effects);
      case "gauge":
        gauge = word.gauge;
        return;
      case "problem":
        return ears.report(word.problem);
      case "started":
        gauge = word.gauge;
        return started.resolve();
      case "refused":
        return started.reject(asError(word));
      case "replaced":
        return died.resolve(asError(word));
      case "stopped":
        return stopped.resolve();
    }
  };
  near.on("message", hear);
  let crash: Error | undefined;
  thread.on("error", (cause) => {
    crash = cause instanceof Error ? cause : new Error(String(cause));
  });
  thread.on("exit", (code) => {
    // Its end may overtake its last words, which say why.
    for (let last = receiveMessageOnPort(near); last; last = receiveMessageOnPort(near)) hear(last.message as FromEngine);
    near.close();
    exited.resolve();
    const end = crash ?? new Error(`the engine's thread ended with code ${code}`);
    started.reject(end);
    if (isStopping) stopped.resolve();
    else died.resolve(end);
  });

  const endThread = async () => {
    await Promise.race([exited.promise, pause(threadEndMs, undefined, { ref: false })]);
    await thread.terminate();
  };
  try {
    await started.promise;
  } catch (cause) {
    await endThread();
    throw cause;
  }
  return {
    push: (items) => say({ type: "push", items }),
    gauge() {
      if (!gauge) throw new Error("the engine's thread has started without saying how it is");
      return gauge;
    },
    async stop() {
      isStopping = true;
      say({ type: "stop" });
      await stopped.promise;
      await endThread();
    },
    died: died.promise,
  };
}
