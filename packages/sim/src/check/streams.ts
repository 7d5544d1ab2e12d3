// Which session a frame on the wire is of. A session outlives its sockets, so its numbers must be followed over all of them: a socket
// is of the session that its worker asked to resume, or that the scheduler accepted on it.

import type { FrameSeen } from "../observation.ts";

interface Socket {
  /** As the worker numbers what it sends, and as the scheduler does. The worker knows of an accept when it has arrived. */
  up: string;
  down: string;
}

export class Streams {
  readonly #sockets = new Map<string, Socket>();

  /** Asked once for every frame, when it is sent. */
  of(seen: FrameSeen, type: string, payload: Readonly<Record<string, unknown>>): string {
    const socket = this.#of(seen.connection);
    if (seen.toward === "scheduler") {
      if (type === "control.resume") socket.up = socket.down = String(payload["session_id"]);
      return socket.up;
    }
    if (type === "control.session.accept") socket.down = String(payload["session_id"]);
    return socket.down;
  }

  arrived({ connection }: FrameSeen, type: string, payload: Readonly<Record<string, unknown>>): void {
    if (type === "control.session.accept") this.#of(connection).up = String(payload["session_id"]);
  }

  #of(connection: string): Socket {
    let socket = this.#sockets.get(connection);
    if (socket === undefined) this.#sockets.set(connection, (socket = { up: connection, down: connection }));
    return socket;
  }
}
