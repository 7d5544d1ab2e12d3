// The socket of a worker of an older dialect: one that does not open in time is given up, and what an older socket still says is nobody's.
// What is said on it is in first-link.ts and v1-link.ts.

import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import type { LegacyLinkOptions } from "./legacy-worker.ts";

const openWaitMs = 10_000;

export interface LegacySocketHandlers {
  /** Whether this is still the socket that the worker listens to. */
  isCurrent(connection: SimulatedConnection): boolean;
  opened(connection: SimulatedConnection): void;
  text(text: string): void;
  pong(): void;
  lost(): void;
}

export function dialLegacySocket(
  { network, identity, eventLoop, chooseScheduler }: LegacyLinkOptions,
  handlers: LegacySocketHandlers,
): SimulatedConnection {
  const connection: SimulatedConnection = network.dial(identity, eventLoop, chooseScheduler(), {
    opened: () => {
      stopWaiting();
      if (handlers.isCurrent(connection)) handlers.opened(connection);
    },
    text: (text) => {
      if (handlers.isCurrent(connection)) handlers.text(text);
    },
    ping: () => connection.worker.pong(),
    pong: () => handlers.pong(),
    drained: () => undefined,
    closed: () => {
      stopWaiting();
      if (handlers.isCurrent(connection)) handlers.lost();
    },
  });
  const stopWaiting = eventLoop.after(openWaitMs, () => connection.worker.terminate());
  return connection;
}
