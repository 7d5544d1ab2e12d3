// Starts the handler thread and passes its messages on. What they mean, and what to do when it ends, is thread-runner.ts.

import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { FromHandlerThread, HandlerThreadSettings, ToHandlerThread } from "./thread-messages.ts";

export interface HandlerThreadHandle {
  sendMessages(messages: readonly ToHandlerThread[]): void;
  /** Ends the thread whatever it does, also in the middle of a loop. Resolves once it is gone; a call into the system is waited for. */
  terminate(): Promise<void>;
  /** How full its memory is, in percent of what it may have; null where it does not answer, as while it is blocked. */
  heapPct(): Promise<number | null>;
}

export interface HandlerThreadListener {
  messagesReceived(messages: readonly FromHandlerThread[]): void;
  /** It is gone, and why. Called once, after its last messages. */
  threadExited(reason: string): void;
}

export function spawnHandlerThread(settings: HandlerThreadSettings, listener: HandlerThreadListener): HandlerThreadHandle {
  const { port1: near, port2: far } = new MessageChannel();
  const thread = new Worker(new URL("./handler-thread-main.ts", import.meta.url), {
    workerData: { port: far, settings },
    transferList: [far],
    name: "handlers",
    ...(settings.heapMbMax !== undefined && { resourceLimits: { maxOldGenerationSizeMb: settings.heapMbMax } }),
  });
  const gone = Promise.withResolvers<void>();
  let reason = "";
  near.on("message", (messages: readonly FromHandlerThread[]) => listener.messagesReceived(messages));
  thread.on("error", (cause: unknown) => {
    reason = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  });
  thread.on("exit", (code) => {
    // Its end may overtake its last messages, among them results that must not be lost.
    for (let last = receiveMessageOnPort(near); last; last = receiveMessageOnPort(near))
      listener.messagesReceived(last.message as FromHandlerThread[]);
    near.close();
    gone.resolve();
    listener.threadExited(reason === "" ? `it ended with code ${code}` : reason);
  });
  return {
    sendMessages: (messages) => near.postMessage(messages),
    terminate: async () => {
      void thread.terminate();
      await gone.promise;
    },
    heapPct: async () => {
      try {
        const { used_heap_size, heap_size_limit } = await thread.getHeapStatistics();
        return heap_size_limit > 0 ? (used_heap_size / heap_size_limit) * 100 : null;
      } catch {
        // It has just ended, which `threadExited` reports.
        return null;
      }
    },
  };
}
