// A worker's first frames on a real socket, sent by hand: for tests of what the session door admits and when it ends a session. No test
// lives here.

import type { ConnectionOptions } from "node:tls";
import { WebSocket } from "ws";
import { withTimeout } from "./processes.ts";

export interface RawFrame {
  readonly type: string;
  readonly id: string;
  readonly seq?: number;
  readonly corr?: string;
  readonly ack?: { readonly request?: boolean };
  readonly payload: Record<string, unknown>;
}

export interface RawWorkerOptions {
  readonly tls?: ConnectionOptions;
  readonly tenant?: string;
  readonly instance?: string;
}

export interface RawWorkerSocket {
  /** `more`: further fields of the envelope, such as its number. Returns the id of the frame. */
  sendFrame(type: string, payload: object, more?: object): string;
  /** The first frame of this type that was not waited for yet; rejects when the socket ends before. */
  nextFrame(type: string): Promise<RawFrame>;
  /** Whether a frame of this type has arrived that was not waited for yet. */
  hasFrame(type: string): boolean;
  readonly closed: Promise<number>;
  readonly isOpen: () => boolean;
  terminate(): void;
}

export async function openRawWorker(
  url: string,
  { tls = {}, tenant = "default", instance = "w-1" }: RawWorkerOptions = {},
): Promise<RawWorkerSocket> {
  const socket = new WebSocket(url, tls);
  const left: RawFrame[] = [];
  const waiting: { type: string; resolve: (frame: RawFrame) => void; reject: (why: Error) => void }[] = [];
  let count = 0;
  let end: Error | null = null;
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data)) as RawFrame;
    const index = waiting.findIndex(({ type }) => type === frame.type);
    if (index < 0) left.push(frame);
    else waiting.splice(index, 1)[0]?.resolve(frame);
  });
  const closed = new Promise<number>((resolve) => {
    socket.on("close", (code) => {
      end = new Error(`the socket was closed with ${code}; not read: ${JSON.stringify(left)}`);
      for (const one of waiting.splice(0)) one.reject(end);
      resolve(code);
    });
  });
  await withTimeout(
    new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.on("error", reject);
    }),
    `a connection to ${url}`,
  );
  return {
    sendFrame(type, payload, more = {}) {
      const sender = { role: "worker", id: instance };
      const frame = {
        type,
        id: `bare-${count++}`,
        ts: new Date().toISOString(),
        tenant,
        sender,
        ack: { request: true },
        payload,
        ...more,
      };
      socket.send(JSON.stringify(frame));
      return frame.id;
    },
    nextFrame(type) {
      const index = left.findIndex((frame) => frame.type === type);
      const frame = index < 0 ? undefined : left.splice(index, 1)[0];
      if (frame !== undefined) return Promise.resolve(frame);
      if (end !== null) return Promise.reject(end);
      const pending = new Promise<RawFrame>((resolve, reject) => void waiting.push({ type, resolve, reject }));
      return withTimeout(pending, `a frame ${type}`);
    },
    hasFrame: (type) => left.some((frame) => frame.type === type),
    closed,
    isOpen: () => socket.readyState === WebSocket.OPEN,
    terminate: () => socket.terminate(),
  };
}

export interface HandshakeAuth {
  readonly mode: "token" | "mtls";
  readonly token?: string;
  readonly fingerprint?: string;
}

export function sendHandshake(socket: RawWorkerSocket, auth: HandshakeAuth, instance = "w-1"): void {
  socket.sendFrame("control.handshake", {
    protocol: 2,
    auth,
    worker: { worker_name: "bare", worker_instance_id: instance, version: "1.0.0", hostname: "box" },
  });
}

/** Handshake and register; answers the accept. */
export async function handshakeAndRegister(socket: RawWorkerSocket, auth: HandshakeAuth, instance = "w-1"): Promise<RawFrame> {
  sendHandshake(socket, auth, instance);
  await socket.nextFrame("control.ack");
  socket.sendFrame("control.register", {
    capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["node"], features: [] },
    packages: [],
    boot_id: `boot of ${instance}`,
    running: [],
  });
  return socket.nextFrame("control.session.accept");
}
