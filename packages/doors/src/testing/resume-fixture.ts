// Workers with a session, lost sockets, and new sockets that resume the session.

import type { DoorsFixture } from "./doors-fixture.ts";
import type { FakeWorker } from "./fake-worker.ts";

export interface ResumableSession {
  readonly worker: FakeWorker;
  readonly session: string;
  readonly token: string;
}

export const ackRequested = { ack: { request: true } };
const lastAccept = (worker: FakeWorker) => worker.frames.findLast((frame) => frame.type === "control.session.accept");
export const sessionTokenOf = (worker: FakeWorker) => String(lastAccept(worker)?.payload["session_token"]);

/** Each test has its own fixture, so it is passed as a function. */
export function createResumeFixture(fixture: () => DoorsFixture) {
  return {
    async open(options: Parameters<DoorsFixture["openSession"]>[0] = {}): Promise<ResumableSession> {
      const worker = await fixture().openSession(options);
      const session = String(lastAccept(worker)?.payload["session_id"]);
      await fixture().engine.nextCommand("worker.join");
      return { worker, session, token: sessionTokenOf(worker) };
    },
    async lose({ worker }: ResumableSession): Promise<void> {
      worker.socket.terminate();
      await fixture().engine.nextCommand("worker.leave");
    },
    /** A new socket whose first frame resumes the session. */
    async ask(
      accepted: Pick<ResumableSession, "session" | "token">,
      more: object = {},
      options: Parameters<DoorsFixture["connectWorker"]>[0] = {},
    ) {
      const worker = await fixture().connectWorker(options);
      const id = worker.sendFrame(
        "control.resume",
        { session_id: accepted.session, session_token: accepted.token, ...more },
        ackRequested,
      );
      return { worker, id };
    },
  };
}
