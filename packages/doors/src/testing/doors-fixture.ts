// Both doors on a real loopback socket, with a fake engine, a fake reader and a fake clock.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { EventPage, StoreReader } from "@astraflow/engine";
import { allGrants } from "@astraflow/services";
import {
  createFakeEngine,
  createFakeEnvironment,
  type FakeEngine,
  type FakeEnvironment,
  sampleDigest,
} from "@astraflow/services/testing";
import { createTokenAuthenticator } from "../auth/token-registry.ts";
import { Doors, type DoorsOptions } from "../doors.ts";
import { createMetricsRegistry, type MetricsRegistry } from "../environment/metrics-registry.ts";
import { createFakeAuthenticator, type FakeAuthenticator } from "./fake-authenticator.ts";
import { connectFakeWorker, type FakeWorker, type FakeWorkerOptions, handshakePayload, registerPayload } from "./fake-worker.ts";

const noTimes = { bounds: [1], hits: [0, 0], sum: 0, count: 0 };

export interface DoorsFixture {
  readonly http: string;
  readonly ws: string;
  readonly engine: FakeEngine;
  readonly environment: FakeEnvironment;
  readonly metrics: MetricsRegistry;
  readonly authenticator: FakeAuthenticator;
  readonly doors: Doors;
  readonly port: number;
  connectWorker(options?: FakeWorkerOptions): Promise<FakeWorker>;
  /** A worker whose session is accepted. */
  openSession(options?: FakeWorkerOptions & { features?: readonly string[]; sessionKey?: string }): Promise<FakeWorker>;
  stop(): Promise<void>;
}

export const emptyReader: StoreReader = {
  events: async (): Promise<EventPage> => ({ items: [], next: 0, head: 0, floor: 0 }),
  page: async (query) => {
    if (query.page === "run") return { detail: null, head: 0 } as never;
    return (query.page === "worker" ? { worker: null, held: [], head: 0 } : { items: [], next: null, head: 0 }) as never;
  },
  close: async () => undefined,
};

export const sampleTokens = createTokenAuthenticator([
  { token: "secret-a", tenant: "default", user: "ann", grants: allGrants },
  { token: "secret-b", tenant: "other", user: "bob", grants: allGrants },
  { token: "viewer", tenant: "default", user: "vic", grants: ["view"] },
]);

export interface DoorsFixtureOptions extends Partial<DoorsOptions> {
  /** How long session tokens are valid. */
  readonly tokenMs?: number;
  /** Whether debug lines are logged. */
  readonly isDebug?: boolean;
}

export async function openDoorsFixture({
  tokenMs,
  isDebug = false,
  ...options
}: DoorsFixtureOptions = {}): Promise<DoorsFixture> {
  const engine = createFakeEngine();
  const environment = createFakeEnvironment(isDebug);
  const metrics = createMetricsRegistry();
  const authenticator = createFakeAuthenticator({
    authenticate: options.authenticate ?? sampleTokens,
    now: () => environment.clock.now(),
    ...(tokenMs !== undefined && { tokenMs }),
  });
  const doors = new Doors({
    engineClient: engine.client,
    authenticate: sampleTokens,
    authenticator,
    environment,
    metrics,
    reader: emptyReader,
    digest: sampleDigest,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
    loopTimes: () => ({ doors: { delay: noTimes, cpu: noTimes } }),
    ...options,
    // The clock stands still: a reset worker would wait for its close until a test advances it.
    limits: { resetCloseDelayMs: 0, ...options.limits },
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
    environment,
    metrics,
    authenticator,
    doors,
    connectWorker: (more) => connectFakeWorker(ws, more),
    async openSession(more = {}) {
      const instance = more.instance ?? "w-1";
      const worker = await connectFakeWorker(ws, more);
      const greeting = handshakePayload();
      worker.sendFrame(
        "control.handshake",
        {
          ...greeting,
          worker: { ...greeting.worker, worker_instance_id: instance },
          ...(more.sessionKey !== undefined && { session_key: more.sessionKey }),
        },
        { ack: { request: true } },
      );
      await worker.nextFrame("control.ack");
      worker.sendFrame("control.register", registerPayload({}, more.features), { ack: { request: true } });
      await worker.nextFrame("control.ack");
      await worker.nextFrame("control.session.accept");
      return worker;
    },
    async stop() {
      await doors.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
