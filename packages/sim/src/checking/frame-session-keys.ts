// Finds the session that a frame belongs to. A session outlives its sockets, so its numbers are followed over all of them: a socket belongs to the
// session that its worker asked to resume, or that the scheduler accepted on it.

import type { FrameObservation } from "../observation/observation.ts";

interface SocketSessionKeys {
  /** As the worker numbers what it sends, and as the scheduler does. The worker knows of an accept when it has arrived. */
  fromWorker: string;
  fromScheduler: string;
}

export class FrameSessionKeys {
  readonly #sockets = new Map<string, SocketSessionKeys>();

  /** Asked once for every frame, when it is sent. */
  sessionKeyOf(observation: FrameObservation, type: string, payload: Readonly<Record<string, unknown>>): string {
    const socket = this.#keysOf(observation.connection);
    if (observation.toward === "scheduler") {
      if (type === "control.resume") socket.fromWorker = socket.fromScheduler = String(payload["session_id"]);
      return socket.fromWorker;
    }
    if (type === "control.session.accept") socket.fromScheduler = String(payload["session_id"]);
    return socket.fromScheduler;
  }

  recordArrival({ connection }: FrameObservation, type: string, payload: Readonly<Record<string, unknown>>): void {
    if (type === "control.session.accept") this.#keysOf(connection).fromWorker = String(payload["session_id"]);
  }

  #keysOf(connection: string): SocketSessionKeys {
    let socket = this.#sockets.get(connection);
    if (socket === undefined) this.#sockets.set(connection, (socket = { fromWorker: connection, fromScheduler: connection }));
    return socket;
  }
}
