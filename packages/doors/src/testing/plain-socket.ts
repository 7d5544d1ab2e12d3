// A socket that is nothing but a list of what was done to it, for tests of the hall without any transport.

import type { ShownCertificate } from "../gate.ts";
import type { PeerSocket } from "../session/peer-socket.ts";

export interface PlainFrame {
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

export class PlainSocket implements PeerSocket {
  readonly sent: PlainFrame[] = [];
  readonly done: string[] = [];
  readonly certificate: ShownCertificate | null;
  isOpen = true;
  bufferedAmount = 0;

  constructor(certificate: ShownCertificate | null = null) {
    this.certificate = certificate;
  }

  get types(): string[] {
    return this.sent.map((frame) => frame.type);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as PlainFrame);
  }

  ping = () => void this.done.push("ping");
  pong = () => void this.done.push("pong");
  pause = () => void this.done.push("pause");
  resume = () => void this.done.push("resume");
  trust = () => void this.done.push("trust");
  close = (code: number) => void this.done.push(`close ${code}`);
  terminate = () => void this.done.push("terminate");
  together = (work: () => void) => work();
}

/** A frame as a socket brings it. */
export function say(type: string, payload: object, more: Record<string, unknown> = {}): Buffer {
  const sender = { role: "worker", id: "w-1" };
  const ts = new Date(0).toISOString();
  return Buffer.from(JSON.stringify({ type, id: type, ts, tenant: "default", sender, ack: { request: true }, payload, ...more }));
}

/** Until everything that is under way in this tick has happened. */
export const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
