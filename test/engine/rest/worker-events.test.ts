// What readers of events receive about workers, with the real engine behind the door: their packages, their heartbeats, their end.

import { createMetricsRegistry, createTokenAuthenticator, RestApi } from "@astraflow/doors";
import { SseTestReader } from "@astraflow/protocol/testing";
import { allGrants } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { EngineHarness } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const packageEntry = (name: string, version = "1.0.0", status = "installed") => ({ name, version, status });

interface ReceivedEvent {
  readonly id: string | undefined;
  readonly type: string;
  readonly data: Record<string, unknown>;
}

async function openFixture() {
  const harness = await new EngineHarness().start();
  const environment = createFakeEnvironment();
  const rest = new RestApi({
    engineClient: createHarnessLink(harness),
    reader: harness.store,
    environment,
    digest: (text) => text,
    authenticate: createTokenAuthenticator([{ token: "all", tenant: "t1", user: "ann", grants: allGrants }]),
    metrics: createMetricsRegistry(),
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
  });
  const ask = (name: Parameters<typeof rest.handle>[0], body: object | null, query: Record<string, string> = {}, cursor = "") =>
    rest.handle(name, {
      token: "all",
      params: {},
      query,
      headers: { "content-type": "application/json", ...(cursor !== "" && { "last-event-id": cursor }) },
      body: body === null ? null : Buffer.from(JSON.stringify(body)),
    });
  const follow = async (cursor = "") => {
    const reader = new SseTestReader();
    let known = 0;
    const { stream } = await ask("streamEvents", null, { topics: "worker" }, cursor);
    const leave = stream?.({
      write: (text) => void reader.push(text),
      waitingBytes: 0,
      end: () => undefined,
      destroy: () => undefined,
    });
    await runPendingCallbacks();
    /** The events since the last call. */
    const newEvents = async (): Promise<ReceivedEvent[]> => {
      environment.advance(1_000);
      await runPendingCallbacks();
      const events = reader.events.slice(known);
      known += events.length;
      return events.flatMap(({ id, type, data }) =>
        data === null ? [] : [{ id: id ?? undefined, type: type ?? "", data: JSON.parse(data).data }],
      );
    };
    return { newEvents, leave };
  };
  /** Everything that other schedulers' workers have done is looked for. */
  const look = async () => {
    environment.advance(10_000);
    await runPendingCallbacks();
  };
  return { world: harness, ask, follow, look };
}

const runPendingCallbacks = async (): Promise<void> => {
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const summarizeEvent = ({ id, type, data }: ReceivedEvent) =>
  type === "worker.package"
    ? [data["package"], data["version"], data["status"]]
    : [type, id === undefined ? "volatile" : "logged", data["connected"], data["registered"]];

describe("events about workers", () => {
  it("[A311] a registration emits an event for each added, changed or removed package, then one with the worker's state", async () => {
    const { world: harness, follow } = await openFixture();
    const reader = await follow();
    const first = await harness.joinWorker("w", { packages: [packageEntry("a"), packageEntry("b")] });
    expect((await reader.newEvents()).map(summarizeEvent)).toEqual([
      ["a", "1.0.0", "installed"],
      ["b", "1.0.0", "installed"],
      ["worker.heartbeat", "logged", true, true],
    ]);

    await harness.joinWorker("w", { packages: [packageEntry("a", "2.0.0"), packageEntry("b", "1.0.0", "failed")] });
    expect((await reader.newEvents()).map(summarizeEvent)).toEqual([
      ["a", "2.0.0", "installed"],
      ["b", "1.0.0", "failed"],
      ["a", "1.0.0", "removed"],
      ["worker.heartbeat", "logged", true, true],
    ]);
    const same = await harness.joinWorker("w", { packages: [packageEntry("a", "2.0.0"), packageEntry("b", "1.0.0", "failed")] });
    expect((await reader.newEvents()).map(summarizeEvent)).toEqual([["worker.heartbeat", "logged", true, true]]);
    expect(first.worker).toBe(same.worker);
  });

  it("[A312] a worker that leaves is reported as disconnected, also to readers that see the event after it has returned", async () => {
    const { world: harness, follow } = await openFixture();
    const crew = await harness.joinWorker("w");
    const reader = await follow();
    const { tenant, worker, session } = crew;
    await harness.ask({ type: "worker.leave", tenant, worker, session, reason: "socket closed" });
    expect((await reader.newEvents()).map(summarizeEvent)).toEqual([["worker.heartbeat", "logged", false, true]]);

    await harness.joinWorker("w");
    const late = await follow("0");

    expect((await late.newEvents()).map(summarizeEvent).slice(-2)).toEqual([
      ["worker.heartbeat", "logged", false, true],
      ["worker.heartbeat", "logged", true, true],
    ]);
  });

  it("[A300] heartbeat events have no id, move no cursor and are not replayed to readers that reconnect", async () => {
    const { world: harness, follow, look } = await openFixture();
    const crew = await harness.joinWorker("w");
    const reader = await follow();
    await harness.advance(5_000);
    const { tenant, worker, session } = crew;
    const beat = { type: "worker.beat", tenant, worker, session, healthy: true, held: null } as const;

    const answer = await harness.ask(beat);
    await look();

    expect(answer).toMatchObject({ of: "worker", at: harness.now });
    const [event] = await reader.newEvents();
    expect(event).toMatchObject({
      type: "worker.heartbeat",
      data: { workerName: "w", at: new Date(harness.now).toISOString(), connected: true },
    });
    expect(event?.id).toBeUndefined();
    const late = await follow("0");
    expect((await late.newEvents()).map(summarizeEvent)).toEqual([
      ["test", "1.0.0", "installed"],
      ["worker.heartbeat", "logged", true, true],
    ]);
  });

  it("[A302] a worker registered over REST emits an event when it registers and at every heartbeat", async () => {
    const { world: harness, ask, follow } = await openFixture();
    const reader = await follow();
    const enrolled = await ask("enrolWorker", { workerId: "w", name: "w", packages: [packageEntry("a")] });
    expect(enrolled.status).toBeLessThan(300);
    expect((await reader.newEvents()).map(summarizeEvent)).toEqual([
      ["a", "1.0.0", "installed"],
      ["worker.heartbeat", "logged", false, true],
    ]);

    for (let n = 0; n < 2; n++) {
      await harness.advance(1_000);
      expect((await ask("signWorker", { workerId: "w", status: "idle" })).status).toBeLessThan(300);
      expect((await reader.newEvents()).map(summarizeEvent)).toEqual([["worker.heartbeat", "volatile", false, true]]);
    }
    reader.leave?.();
  });
});
