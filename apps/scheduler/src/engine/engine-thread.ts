// The entry point of the engine's thread: turns messages into calls and calls into messages. Started by engine-host.ts.

import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { CommandRequest, EngineProblem } from "@astraflow/engine";
import { errorMessage, Fault } from "@astraflow/protocol";
import { gaugeIntervalMs, type MessageFromEngine, type MessageToEngine } from "./engine-host.ts";
import { type EngineStartOptions, type RunningEngine, startEngine } from "./engine-start.ts";

interface EngineThreadData {
  readonly options: EngineStartOptions;
  readonly gate: Int32Array<SharedArrayBuffer>;
  readonly port: MessagePort;
}

const { options, gate: pauseFlag, port } = workerData as EngineThreadData;
const sendToHost = (message: MessageFromEngine) => port.postMessage(message);

/** A cause may hold anything, also functions, which a message cannot carry. */
function toPlainProblem(problem: EngineProblem): EngineProblem {
  const { code, message, details, cause } = problem;
  const why = cause instanceof Error ? (cause.stack ?? cause.message) : cause === undefined ? undefined : String(cause);
  return { code, message, details: JSON.parse(JSON.stringify(details)), ...(why !== undefined && { cause: why }) };
}

/** Takes all waiting messages at once. Delivered one by one, each would start a turn of its own, and every turn costs an fsync. */
function drainMessages(first: MessageToEngine): { items: CommandRequest[]; isStop: boolean } {
  const items: CommandRequest[] = [];
  let isStop = false;
  for (let message: MessageToEngine | undefined = first; message; message = receiveMessageOnPort(port)?.message) {
    if (message.type === "stop") isStop = true;
    else for (const item of message.items) items.push(item);
  }
  return { items, isStop };
}

async function stopEngine(engine: RunningEngine): Promise<void> {
  await engine.stop();
  sendToHost({ type: "stopped" });
  port.close();
}

try {
  const engine = await startEngine(
    options,
    {
      onEffects: (effects) => sendToHost({ type: "effects", effects }),
      onProblem: (problem) => sendToHost({ type: "problem", problem: toPlainProblem(problem) }),
      onSwept: (report) => sendToHost({ type: "swept", report }),
      onReplaced: ({ code, message, details }) => sendToHost({ type: "replaced", code, message, details }),
    },
    pauseFlag,
  );
  const pulse = setInterval(() => sendToHost({ type: "gauge", gauge: engine.gauge() }), gaugeIntervalMs);
  port.on("message", (first: MessageToEngine) => {
    const { items, isStop } = drainMessages(first);
    if (items.length > 0) engine.push(items);
    if (!isStop) return;
    clearInterval(pulse);
    // A rejection is uncaught and ends the thread, which the host notices.
    void stopEngine(engine);
  });
  sendToHost({ type: "started", gauge: engine.gauge() });
} catch (cause) {
  const { code, details } = cause instanceof Fault ? cause : { code: null, details: undefined };
  sendToHost({ type: "refused", code, message: errorMessage(cause), details });
  port.close();
}
