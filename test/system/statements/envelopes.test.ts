// The envelope of every frame, at a real scheduler: what it must carry, what it may, and that it is checked before the payload.

import { expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { openRawWorker } from "../harness/raw-worker-socket.ts";

const required = ["type", "id", "ts", "tenant", "sender", "payload"];
const auth = { mode: "token", token: "dev-token" };
const handshakes = {
  v2: {
    type: "control.handshake",
    answer: "control.ack",
    refusal: "control.reset",
    payload: { protocol: 2, auth, worker: { worker_name: "bare", worker_instance_id: "w-1", version: "1", hostname: "box" } },
  },
  v1: {
    type: "handshake",
    answer: "ack",
    refusal: "error",
    payload: { protocol: 1, auth, worker: { id: "w-1", version: "0.1.0", hostname: "box" } },
  },
};

for (const [dialect, { type, answer, refusal, payload }] of Object.entries(handshakes)) {
  it(`[O86] a ${dialect} frame without type, id, ts, tenant, sender or payload is refused at the socket, and with all of them it is answered`, async () => {
    const { ws } = await startScheduler();
    for (const field of required) {
      const socket = await openRawWorker(ws);
      socket.sendFrame(type, payload, { [field]: undefined });
      await socket.closed;
      expect([field, socket.hasFrame(answer)]).toEqual([field, false]);
    }
    const socket = await openRawWorker(ws);
    const id = socket.sendFrame(type, payload, { flags: ["trace", "gzip"] });

    expect((await socket.nextFrame(answer)).payload["for"]).toBe(id);
  });

  it(`[O86] the payload of a ${dialect} frame is checked by the schema of its type, and the refusal names the field`, async () => {
    const { ws } = await startScheduler();
    const socket = await openRawWorker(ws);
    socket.sendFrame(type, { ...payload, auth: { mode: 7 } });
    const refused = await socket.nextFrame(refusal);
    await socket.closed;

    expect(refused.payload["code"]).toBe("E.FRAME.INVALID");
    expect(JSON.stringify(refused.payload)).toContain("auth.mode");
  });
}
