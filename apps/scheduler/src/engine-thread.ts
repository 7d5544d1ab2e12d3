// The entry of the engine's own thread: turns messages into calls and calls into messages, nothing else. Started by engine-host.ts.

import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { CommandRequest, EngineProblem } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";
import { type FromEngine, gaugeMs, type ToEngine } from "./engine-host.ts";
import { type EngineOptions, type RunningEngine, runEngine } from "./engine-world.ts";

interface ThreadData {
  readonly options: EngineOptions;
  readonly gate: Int32Array<SharedArrayBuffer>;
  readonly port: MessagePort;
}

const { options, gate, port } = workerData as ThreadData;
const say = (word: FromEngine) => port.postMessage(word);

/** A cause may hold anything, functions included, which no message can carry. */
function portable(problem: EngineProblem): EngineProblem {
  const { code, message, details, cause } = problem;
  const why = cause instanceof Error ? (cause.stack ?? cause.message) : cause === undefined ? undefined : String(cause);
  return { code, message, details: JSON.parse(JSON.stringify(details)), ...(why !== undefined && { cause: why }) };
}

/**
 * All messages that wait are taken at once. Delivered one by one, each would start a turn of its own before the next could be seen,
 * and every turn costs an fsync.
 */
function takeWaiting(first: ToEngine): { items: CommandRequest[]; isStop: boolean } {
  const items: CommandRequest[] = [];
  let isStop = false;
  for (let word: ToEngine | undefined = first; word; word = receiveMessageOnPort(port)?.message) {
    if (word.type === "stop") isStop = true;
    else for (const item of word.items) items.push(item);
  }
  return { items, isStop };
}

async function stopEngine(engine: RunningEngine): Promise<void> {
  await engine.stop();
  say({ type: "stopped" });
  port.close();
}

try {
  const engine = await runEngine(
    options,
    {
      hear: (effects) => say({ type: "effects", effects }),
      report: (problem) => say({ type: "problem", problem: portable(problem) }),
      replaced: ({ code, message, details }) => say({ type: "replaced", code, message, details }),
    },
    gate,
  );
  const pulse = setInterval(() => say({ type: "gauge", gauge: engine.gauge() }), gaugeMs);
  port.on("message", (first: ToEngine) => {
    const { items, isStop } = takeWaiting(first);
    if (items.length > 0) engine.push(items);
    if (!isStop) return;
    clearInterval(pulse);
    // A rejection is nobody's and ends the thread, which is how the host hears of it.
    void stopEngine(engine);
  });
  say({ type: "started", gauge: engine.gauge() });
} catch (cause) {
  const { code, details } = cause instanceof Fault ? cause : { code: null, details: undefined };
  say({ type: "refused", code, message: cause instanceof Error ? cause.message : String(cause), details });
  port.close();
}
