// A worker's first frames on a real socket, said by hand: for tests of what the door lets in and when it ends a session. No test
// lives here.

import type { ConnectionOptions } from "node:tls";
import { WebSocket } from "ws";
import { within } from "./processes.ts";

export interface Said {
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

export interface BareOptions {
  readonly tls?: ConnectionOptions;
  readonly tenant?: string;
  readonly instance?: string;
}

export interface Bare {
  say(type: string, payload: object): void;
  /** The first frame of this type that was not waited for yet; rejects when the socket ends before. */
  next(type: string): Promise<Said>;
  readonly closed: Promise<number>;
  readonly isOpen: () => boolean;
  hangUp(): void;
}

export async function dialBare(url: string, { tls = {}, tenant = "default", instance = "w-1" }: BareOptions = {}): Promise<Bare> {
  const socket = new WebSocket(url, tls);
  const left: Said[] = [];
  const waiting: { type: string; resolve: (said: Said) => void; reject: (why: Error) => void }[] = [];
  let count = 0;
  let end: Error | null = null;
  socket.on("message", (data) => {
    const said = JSON.parse(String(data)) as Said;
    const index = waiting.findIndex(({ type }) => type === said.type);
    if (index < 0) left.push(said);
    else waiting.splice(index, 1)[0]?.resolve(said);
  });
  const closed = new Promise<number>((resolve) => {
    socket.on("close", (code) => {
      end = new Error(`the socket was closed with ${code}; unheard: ${JSON.stringify(left)}`);
      for (const one of waiting.splice(0)) one.reject(end);
      resolve(code);
    });
  });
  await within(
    new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.on("error", reject);
    }),
    `a connection to ${url}`,
  );
  return {
    say(type, payload) {
      const sender = { role: "worker", id: instance };
      const frame = {
        type,
        id: `bare-${count++}`,
        ts: new Date().toISOString(),
        tenant,
        sender,
        ack: { request: true },
        payload,
      };
      socket.send(JSON.stringify(frame));
    },
    next(type) {
      const index = left.findIndex((said) => said.type === type);
      const said = index < 0 ? undefined : left.splice(index, 1)[0];
      if (said !== undefined) return Promise.resolve(said);
      if (end !== null) return Promise.reject(end);
      const heard = new Promise<Said>((resolve, reject) => void waiting.push({ type, resolve, reject }));
      return within(heard, `a frame ${type}`);
    },
    closed,
    isOpen: () => socket.readyState === WebSocket.OPEN,
    hangUp: () => socket.terminate(),
  };
}

export interface Auth {
  readonly mode: "token" | "mtls";
  readonly token?: string;
  readonly fingerprint?: string;
}

export function greet(bare: Bare, auth: Auth, instance = "w-1"): void {
  bare.say("control.handshake", {
    protocol: 2,
    auth,
    worker: { worker_name: "bare", worker_instance_id: instance, version: "1.0.0", hostname: "box" },
  });
}

/** Handshake and register; answers the accept. */
export async function join(bare: Bare, auth: Auth, instance = "w-1"): Promise<Said> {
  greet(bare, auth, instance);
  await bare.next("control.ack");
  bare.say("control.register", {
    capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["node"], features: [] },
    packages: [],
    boot_id: `boot of ${instance}`,
    running: [],
  });
  return bare.next("control.session.accept");
}
