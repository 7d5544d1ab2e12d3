// Workers with a session, sockets that break, and new sockets that ask for the session again: what every test of a resume begins with.

import type { FakeWorker } from "./fake-worker.ts";
import type { House } from "./house.ts";

export interface Seat {
  readonly worker: FakeWorker;
  readonly session: string;
  readonly token: string;
}

export const asks = { ack: { request: true } };
const acceptOf = (worker: FakeWorker) => worker.frames.findLast((frame) => frame.type === "control.session.accept");
export const tokenOf = (worker: FakeWorker) => String(acceptOf(worker)?.payload["session_token"]);

/** The house is another one for each test, so it is asked for. */
export function resumeScene(house: () => House) {
  return {
    async open(options: Parameters<House["worker"]>[0] = {}): Promise<Seat> {
      const worker = await house().worker(options);
      const session = String(acceptOf(worker)?.payload["session_id"]);
      await house().engine.next("worker.join");
      return { worker, session, token: tokenOf(worker) };
    },
    async lose({ worker }: Seat): Promise<void> {
      worker.socket.terminate();
      await house().engine.next("worker.leave");
    },
    /** A new socket whose first frame asks for the session. */
    async ask(seat: Pick<Seat, "session" | "token">, more: object = {}, options: Parameters<House["dial"]>[0] = {}) {
      const worker = await house().dial(options);
      const id = worker.say("control.resume", { session_id: seat.session, session_token: seat.token, ...more }, asks);
      return { worker, id };
    },
  };
}
