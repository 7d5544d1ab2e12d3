// Asks a scheduler whether it would take this worker: it dials, authenticates and leaves before it registers, so no session begins and no
// other worker is disturbed.

import { Fault, limits, readEnvelope, readFrame, readJson } from "@astraflow/protocol";
import type { WorkerEnvironment } from "../system/environment.ts";
import { buildHandshake } from "./connection-lifecycle.ts";
import { FrameWriter } from "./link-context.ts";
import type { WorkerIdentity } from "./link-ports.ts";
import { SessionKey } from "./session-key.ts";
import { type DialerEvents, type TlsCredentials, WebSocketDialer } from "./websocket-dialer.ts";

export interface SchedulerProbeOptions {
  readonly url: string;
  readonly identity: WorkerIdentity;
  readonly environment: Pick<WorkerEnvironment, "after" | "defer" | "randomBytes" | "wallClock">;
  /** May throw. */
  readonly tls?: () => TlsCredentials;
  readonly timeoutMs: number;
}

export type SchedulerProbe =
  /** `clockLeadMs`: how far the clock of this machine is ahead of the scheduler's, give or take the way of a frame. */
  | { readonly type: "accepted"; readonly clockLeadMs: number | null }
  | { readonly type: "refused"; readonly code: string; readonly message: string }
  | { readonly type: "unreachable"; readonly message: string };

export async function probeScheduler(options: SchedulerProbeOptions): Promise<SchedulerProbe> {
  const { url, identity, environment, tls, timeoutMs } = options;
  const { promise, resolve } = Promise.withResolvers<SchedulerProbe>();
  let handshakeId = "";
  const events: DialerEvents = {
    connectionOpened() {
      const timestamp = () => new Date(environment.wallClock()).toISOString();
      const writer = new FrameWriter({ send: (text) => dialer.send(text), timestamp }, identity);
      const key = new SessionKey(environment.randomBytes(32));
      handshakeId = writer.sendControl("control.handshake", buildHandshake(identity, key), { ackRequest: true });
    },
    messageReceived(text) {
      const answer = readAnswer(text, handshakeId, environment.wallClock());
      if (answer !== null) resolve(answer);
    },
    connectionLost: (message) => resolve({ type: "unreachable", message }),
  };
  const dialer = new WebSocketDialer([url], events, environment, tls === undefined ? {} : { tls });
  dialer.dial("next");
  const seconds = timeoutMs / 1_000;
  const cancel = environment.after(timeoutMs, () =>
    resolve({ type: "unreachable", message: `there was no answer within ${seconds} s` }),
  );
  const answer = await promise;
  cancel();
  dialer.closeConnection(1000, "checked");
  await dialer.whenClosed();
  return answer;
}

/** Null: it is no answer to the handshake. */
function readAnswer(text: string, handshakeId: string, now: number): SchedulerProbe | null {
  const value = readJson(text, limits.json.frameToWorker);
  const envelope = value instanceof Fault ? value : readEnvelope(value, "v2");
  const frame = envelope instanceof Fault ? envelope : readFrame("v2", envelope);
  if (envelope instanceof Fault || frame instanceof Fault)
    return { type: "unreachable", message: "what answers there does not speak the protocol of workers" };
  if (frame.type === "control.reset") return { type: "refused", code: frame.payload.code, message: frame.payload.reason };
  if (frame.type !== "control.ack" || (frame.payload.for ?? envelope.ack?.for) !== handshakeId) return null;
  if (frame.payload.ok === false)
    return { type: "refused", code: "E.SESSION.DENIED", message: frame.payload.info ?? "the scheduler gives no reason" };
  const sentAt = Date.parse(envelope.ts ?? "");
  return { type: "accepted", clockLeadMs: Number.isNaN(sentAt) ? null : now - sentAt };
}
