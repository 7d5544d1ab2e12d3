// The socket of a worker of an older dialect: one that does not open in time is given up, and what an older socket still says is nobody's.
// What is said on it is in first-link.ts and v1-link.ts.

import type { Connection } from "./connection.ts";
import type { OlderLinkOptions } from "./older-worker.ts";

const openWaitMs = 10_000;

export interface OlderEars {
  /** Whether this is still the socket that the worker listens to. */
  isCurrent(connection: Connection): boolean;
  opened(connection: Connection): void;
  text(text: string): void;
  pong(): void;
  lost(): void;
}

export function dialOlder({ network, face, life, choose }: OlderLinkOptions, ears: OlderEars): Connection {
  const connection: Connection = network.dial(face, life, choose(), {
    opened: () => {
      stopWaiting();
      if (ears.isCurrent(connection)) ears.opened(connection);
    },
    text: (text) => {
      if (ears.isCurrent(connection)) ears.text(text);
    },
    ping: () => connection.worker.pong(),
    pong: () => ears.pong(),
    drained: () => undefined,
    closed: () => {
      stopWaiting();
      if (ears.isCurrent(connection)) ears.lost();
    },
  });
  const stopWaiting = life.after(openWaitMs, () => connection.worker.terminate());
  return connection;
}
