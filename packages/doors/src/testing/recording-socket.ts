// A socket that records all calls, for tests of the session server without a transport.

import type { PeerCertificate } from "../auth/certificates.ts";
import type { WorkerSocket } from "../session/connection/worker-socket.ts";

export interface RecordedFrame {
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

export class RecordingSocket implements WorkerSocket {
  readonly sent: RecordedFrame[] = [];
  readonly calls: string[] = [];
  readonly certificate: PeerCertificate | null;
  isOpen = true;
  bufferedAmount = 0;

  readonly address: string;

  constructor(certificate: PeerCertificate | null = null, address = "192.0.2.1") {
    this.certificate = certificate;
    this.address = address;
  }

  get types(): string[] {
    return this.sent.map((frame) => frame.type);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as RecordedFrame);
  }

  ping = () => void this.calls.push("ping");
  pong = () => void this.calls.push("pong");
  pause = () => void this.calls.push("pause");
  resume = () => void this.calls.push("resume");
  markAuthenticated = () => void this.calls.push("trust");
  close = (code: number) => void this.calls.push(`close ${code}`);
  terminate = () => void this.calls.push("terminate");
  batchWrites = (work: () => void) => work();
}

/** A frame as a socket receives it. */
export function encodeFrame(type: string, payload: object, more: Record<string, unknown> = {}): Buffer {
  const sender = { role: "worker", id: "w-1" };
  const ts = new Date(0).toISOString();
  return Buffer.from(JSON.stringify({ type, id: type, ts, tenant: "default", sender, ack: { request: true }, payload, ...more }));
}

/** Resolves when everything scheduled in this tick has run. */
export const nextLoopTurn = () => new Promise<void>((resolve) => setImmediate(resolve));
