// Both doors on a real socket of the loopback, with a scripted engine, a scripted reader and a clock of our own behind them.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { EventPage, Reader } from "@astraflow/engine";
import { createDoors, type Doors, type DoorsOptions } from "../doors.ts";
import { allGrants, createTokens } from "../identity.ts";
import { createMetrics, type Metrics } from "../metrics.ts";
import { createFakeEngine, type FakeEngine } from "./fake-engine.ts";
import { createFakeGate, type FakeGate } from "./fake-gate.ts";
import { createFakeOutside, type FakeOutside } from "./fake-outside.ts";
import { dial, type FakeWorker, type FakeWorkerOptions, handshake, register } from "./fake-worker.ts";

export interface House {
  readonly http: string;
  readonly ws: string;
  readonly engine: FakeEngine;
  readonly outside: FakeOutside;
  readonly metrics: Metrics;
  readonly gate: FakeGate;
  readonly doors: Doors;
  readonly port: number;
  dial(options?: FakeWorkerOptions): Promise<FakeWorker>;
  /** A worker whose session is accepted. */
  worker(options?: FakeWorkerOptions & { features?: readonly string[] }): Promise<FakeWorker>;
  stop(): Promise<void>;
}

export const emptyReader: Reader = {
  events: async (): Promise<EventPage> => ({ items: [], next: 0, head: 0, floor: 0 }),
  page: async (query) => {
    if (query.page === "run") return { detail: null, head: 0 } as never;
    return (query.page === "worker" ? { worker: null, held: [], head: 0 } : { items: [], next: null, head: 0 }) as never;
  },
  close: async () => undefined,
};

export const tokens = createTokens([
  { token: "secret-a", tenant: "default", user: "ann", grants: allGrants },
  { token: "secret-b", tenant: "other", user: "bob", grants: allGrants },
  { token: "viewer", tenant: "default", user: "vic", grants: ["view"] },
]);

export interface HouseOptions extends Partial<DoorsOptions> {
  /** How long the session tokens of this house live. */
  readonly tokenMs?: number;
  /** Whether its log keeps lines at debug. */
  readonly isDebug?: boolean;
}

export async function openHouse({ tokenMs, isDebug = false, ...options }: HouseOptions = {}): Promise<House> {
  const engine = createFakeEngine();
  const outside = createFakeOutside(isDebug);
  const metrics = createMetrics();
  const gate = createFakeGate({
    authenticate: options.authenticate ?? tokens,
    now: () => outside.clock.now(),
    ...(tokenMs !== undefined && { tokenMs }),
  });
  const doors = createDoors({
    link: engine.link,
    authenticate: tokens,
    gate,
    outside,
    metrics,
    reader: emptyReader,
    digest: (text) => `digest-${text.length}`,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
    ...options,
  });
  const server = createServer();
  await doors.attach(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const ws = `ws://127.0.0.1:${port}/ws/worker`;
  return {
    http: `http://127.0.0.1:${port}`,
    ws,
    port,
    engine,
    outside,
    metrics,
    gate,
    doors,
    dial: (more) => dial(ws, more),
    async worker(more = {}) {
      const instance = more.instance ?? "w-1";
      const worker = await dial(ws, more);
      const greeting = handshake();
      worker.say(
        "control.handshake",
        { ...greeting, worker: { ...greeting.worker, worker_instance_id: instance } },
        { ack: { request: true } },
      );
      await worker.next("control.ack");
      worker.say("control.register", register({}, more.features), { ack: { request: true } });
      await worker.next("control.ack");
      await worker.next("control.session.accept");
      return worker;
    },
    async stop() {
      await doors.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
