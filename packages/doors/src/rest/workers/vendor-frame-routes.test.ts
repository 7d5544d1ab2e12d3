import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { SseTestReader } from "@astraflow/protocol/testing";
import { type CallerIdentity, VendorFrameRelay, vendorRelayLimits } from "@astraflow/services";
import {
  createAwaitableQueue,
  createFakeEngine,
  createFakeEnvironment,
  createFakeReader,
  type FakeEngine,
  type FakeEnvironment,
} from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { streamLimits } from "../requests/event-stream.ts";
import { RestApi, type RestApiOptions, type RestRequest } from "../rest-api.ts";
import { createRestServer } from "../rest-server.ts";

const type = "ext.vendor.acme.ping";
const path = `/api/v1/extensions/${type}`;

interface VendorFrameFixture {
  readonly environment: FakeEnvironment;
  readonly engine: FakeEngine;
  readonly extensions: VendorFrameRelay;
  readonly options: RestApiOptions;
  readonly revoked: Set<string>;
  send(n: number, payload?: object, tenant?: string): boolean;
}

function openFixture(): VendorFrameFixture {
  const environment = createFakeEnvironment();
  const engine = createFakeEngine();
  const extensions = new VendorFrameRelay(environment);
  const revoked = new Set<string>();
  const book: Record<string, CallerIdentity> = {
    "secret-a": { tenant: "default", user: "ann", grants: ["view", "edit"] },
    "secret-b": { tenant: "other", user: "bob", grants: ["view", "edit"] },
    viewer: { tenant: "default", user: "vic", grants: ["view"] },
  };
  const options: RestApiOptions = {
    engineClient: engine.client,
    authenticate: (token) => (revoked.has(token) ? null : (book[token] ?? null)),
    environment,
    metrics: createMetricsRegistry(),
    reader: createFakeReader({ runs: [], tasks: [], workers: [], log: [] }),
    digest: (text) => Buffer.from(text).toString("base64url"),
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
    extensions,
  };
  const send = (n: number, payload: object = {}, tenant = "default"): boolean =>
    extensions.publish({ tenant, worker: `${tenant}/w-1`, instance: "w-1", type, id: `f-${n}`, payload });
  return { environment, engine, extensions, options, revoked, send };
}

/** A reader without a socket: takes what is written as long as the test lets it. */
async function openStream(fixture: VendorFrameFixture, headers: Record<string, string> = {}, token = "secret-a") {
  const answer = await new RestApi(fixture.options).handle("streamExtension", {
    token,
    params: { type },
    query: {},
    headers,
    body: null,
  });
  if (answer.stream === undefined) throw new Error(`no stream: ${answer.body}`);
  const state = { text: "", waitingBytes: 0, isEnded: false };
  const gone = answer.stream({
    write: (text) => {
      state.text += text;
    },
    get waitingBytes() {
      return state.waitingBytes;
    },
    end: () => {
      state.isEnded = true;
    },
    destroy: () => {
      state.isEnded = true;
    },
  });
  return { answer, state, gone, events: () => eventsIn(state.text) };
}

const eventsIn = (text: string, reader = new SseTestReader()) =>
  reader.push(text).map(({ id, type, data }) => ({
    id: id === null ? Number.NaN : Number(id),
    event: type ?? undefined,
    data: data === null ? undefined : JSON.parse(data),
  }));

describe("GET /api/v1/extensions/{type}", () => {
  it("[A20] GET /extensions/{type} streams events with number, type and frame, and begins with a number to resume from", async () => {
    const fixture = openFixture();
    const { answer, events, state } = await openStream(fixture);

    fixture.send(1, { n: 1, text: "two\nlines" });
    fixture.send(2, {}, "other");

    expect(answer).toMatchObject({ status: 200, headers: { "content-type": "text/event-stream; charset=utf-8" } });
    const [cursor, frame, ...more] = events();
    expect(cursor).toEqual({ id: expect.any(Number), event: undefined, data: undefined });
    expect(frame).toMatchObject({
      id: (cursor?.id ?? 0) + 1,
      event: type,
      data: { id: "f-1", type, workerId: "w-1", payload: { n: 1, text: "two\nlines" } },
    });
    expect(more).toEqual([]);
    expect(state.text.startsWith("retry: 1000\n\n")).toBe(true);
  });

  it("[A20] GET /extensions/{type} resumes after Last-Event-ID without a gap, and keeps the frames when the first reader leaves", async () => {
    const fixture = openFixture();
    const first = await openStream(fixture);
    fixture.send(1);
    first.gone();
    fixture.send(2);

    const again = await openStream(fixture, { "last-event-id": String(first.events().at(-1)?.id) });
    fixture.send(3);

    expect(again.events().flatMap(({ data }) => data?.id ?? [])).toEqual(["f-2", "f-3"]);
    expect(first.events().flatMap(({ data }) => data?.id ?? [])).toEqual(["f-1"]);
  });

  it("[A20] GET /extensions/{type} sends E.CURSOR.EXPIRED with a valid number if frames may be missing, and continues with kept frames", async () => {
    const fixture = openFixture();
    const first = await openStream(fixture);
    fixture.send(1);

    const again = await openStream(fixture, { "last-event-id": "17" });

    const [error, frame] = again.events();
    expect(error).toMatchObject({ event: "stream.error", data: { error: "E.CURSOR.EXPIRED" } });
    expect(frame).toMatchObject({ event: type, data: { id: "f-1" } });
    expect(again.state.isEnded).toBe(false);
    const third = await openStream(fixture, { "last-event-id": String(error?.id) });
    expect(third.events().map(({ data }) => data?.id)).toEqual([undefined, "f-1"]);
    first.gone();
  });

  it("[A20] GET /extensions/{type} sends a keep-alive every 15 s, and nothing once the reader has disconnected", async () => {
    const fixture = openFixture();
    const { state, gone } = await openStream(fixture);
    const before = state.text;

    fixture.environment.advance(streamLimits.keepAliveMs);
    expect(state.text).toBe(`${before}: alive\n\n`);
    gone();
    fixture.environment.advance(10 * streamLimits.keepAliveMs);
    fixture.send(1);

    expect(state.text).toBe(`${before}: alive\n\n`);
  });

  it("[A20] GET /extensions/{type} disconnects a reader with too many unread bytes, with E.OVERLOADED as its last event", async () => {
    const fixture = openFixture();
    const { state, events } = await openStream(fixture);

    state.waitingBytes = streamLimits.waitingBytesMax + 1;
    fixture.send(1);
    fixture.send(2);

    expect(events().slice(1)).toMatchObject([{ event: "stream.error", data: { error: "E.OVERLOADED" } }]);
    expect(state.isEnded).toBe(true);
  });

  it("[A20] GET /extensions/{type} ends within 5 s for a token that was revoked", async () => {
    const fixture = openFixture();
    const { state, events } = await openStream(fixture);
    fixture.environment.advance(4_000);
    expect(state.isEnded).toBe(false);

    fixture.revoked.add("secret-a");
    fixture.environment.advance(5_000);
    fixture.send(1);

    expect(events().slice(1)).toMatchObject([{ event: "stream.error", data: { error: "E.AUTH.INVALID_TOKEN" } }]);
    expect(state.isEnded).toBe(true);
  });

  it.each([
    ["a type that is not a vendor's", { params: { type: "biz.exec.result" } }],
    ["a reserved type", { params: { type: "ext.vendor.astraflow.void" } }],
    ["a number that is none", { headers: { "last-event-id": "abc" } }],
  ])("[A20] GET /extensions/{type} refuses %s", async (_what, more: Partial<RestRequest>) => {
    const request = { token: "viewer", params: { type }, query: {}, headers: {}, body: null, ...more };

    expect(await new RestApi(openFixture().options).handle("streamExtension", request)).toMatchObject({
      status: 400,
      body: expect.stringContaining("E.REQUEST.INVALID"),
    });
  });
});

it("[A20] GET /extensions/{type} refuses a reader before the stream begins if there are too many or the scheduler is closing", async () => {
  const fixture = openFixture();
  const request = { token: "viewer", params: { type }, query: {}, headers: {}, body: null };
  const calls = new RestApi(fixture.options);
  for (let n = 0; n < vendorRelayLimits.readersPerTenantMax; n++) await openStream(fixture);
  expect(await calls.handle("streamExtension", request)).toMatchObject({
    status: 503,
    body: expect.stringContaining("E.OVERLOADED"),
  });

  fixture.extensions.close();

  const closed = await calls.handle("streamExtension", { ...request, token: "secret-b" });
  expect(closed).toMatchObject({ status: 503, body: expect.stringContaining("E.SHUTTING_DOWN") });
});

describe("the stream on a socket", () => {
  let server: Server;
  let answers: IncomingMessage[] = [];
  let responses: ServerResponse[] = [];
  afterEach(async () => {
    for (const answer of answers) answer.destroy();
    answers = [];
    responses = [];
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });

  const listen = async (fixture: VendorFrameFixture): Promise<string> => {
    const app = createRestServer(fixture.options);
    await app.ready();
    server = createServer((request, response) => {
      responses.push(response);
      app.routing(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
  };
  const dial = (url: string, headers: Record<string, string> = {}): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      get(url, { headers: { authorization: "Bearer secret-a", ...headers } }, (answer) => {
        answers.push(answer);
        answer.on("error", () => undefined);
        resolve(answer);
      }).on("error", reject);
    });
  const eventsOf = (answer: IncomingMessage) => {
    const inbox = createAwaitableQueue<ReturnType<typeof eventsIn>[number]>();
    const reader = new SseTestReader();
    answer.setEncoding("utf8").on("data", (chunk: string) => {
      for (const event of eventsIn(chunk, reader)) inbox.put(event);
    });
    return inbox;
  };

  it("[A20] GET /extensions/{type} on a socket sends frames as they arrive, and ends with E.SHUTTING_DOWN when the scheduler closes", async () => {
    const fixture = openFixture();
    const url = await listen(fixture);
    const answer = await dial(url);
    const events = eventsOf(answer);
    const cursor = await events.take(() => true);
    fixture.send(1);
    expect(await events.take(({ event }) => event === type)).toMatchObject({ data: { id: "f-1" } });

    const second = await dial(url, { "last-event-id": String(cursor.id) });
    expect(await eventsOf(second).take(({ event }) => event === type)).toMatchObject({ data: { id: "f-1" } });
    expect(answer.headers).toMatchObject({ "cache-control": "no-store", "x-accel-buffering": "no" });
    const ended = new Promise<void>((resolve) => void answer.on("end", resolve));
    fixture.extensions.close();
    expect(await events.take(({ event }) => event === "stream.error")).toMatchObject({ data: { error: "E.SHUTTING_DOWN" } });
    await ended;
  });

  it("[A20] HEAD /extensions/{type} is answered with headers alone, and a request without a token with 401", async () => {
    const url = await listen(openFixture());

    const head = await fetch(url, { method: "HEAD", headers: { authorization: "Bearer secret-a" } });
    expect([head.status, head.headers.get("content-type"), await head.text()]).toEqual([
      200,
      "text/event-stream; charset=utf-8",
      "",
    ]);
    expect((await fetch(url)).status).toBe(401);
  });

  it("[A20] GET /extensions/{type} on a socket is cut off for a reader that does not even read its last event", async () => {
    const fixture = openFixture();
    const url = await listen(fixture);
    const answer = await dial(url);
    answer.pause();
    const closed = new Promise<void>((resolve) => void answer.on("close", resolve));
    const payload = { text: "x".repeat(200 * 1024) };
    const [response] = responses;
    // As many as it takes to fill what the kernel holds for both ends, and then what the stream lets wait.
    for (let n = 0; n < 1_000 && response?.writableEnded === false; n++) {
      fixture.send(n, payload);
      await new Promise(setImmediate);
    }
    expect([response?.writableEnded, response?.writableFinished]).toEqual([true, false]);

    fixture.environment.advance(streamLimits.closeTimeoutMs);

    answer.resume();
    await closed;
    expect(answer.complete).toBe(false);
  });
});

describe("POST /api/v1/extensions/{type}", () => {
  const post = async (
    fixture: VendorFrameFixture,
    body: unknown,
    headers: Record<string, string> = {},
    token = "secret-a",
    of = type,
  ) => {
    const answer = await new RestApi(fixture.options).handle("tellWorker", {
      token,
      params: { type: of },
      query: {},
      headers: { "content-type": "application/json", ...headers },
      body: Buffer.from(JSON.stringify(body)),
    });
    return { status: answer.status, body: JSON.parse(answer.body) as Record<string, unknown> };
  };

  it("[A21] POST /extensions/{type} passes the frame to the engine for a worker of the caller's tenant, and returns the frame's id", async () => {
    const fixture = openFixture();

    const { status, body } = await post(fixture, { workerId: "w-1", payload: { n: 1 }, corr: "f-9" });

    const command = await fixture.engine.nextCommand("worker.tell");
    expect(command).toEqual({
      type: "worker.tell",
      tenant: "default",
      by: "ann",
      worker: "default/w-1",
      frame: { type, id: body["id"], corr: "f-9", payload: '{"n":1}' },
    });
    expect([status, body]).toEqual([
      202,
      { id: expect.stringMatching(/^ext-/), workerId: "w-1", type, acceptedAt: expect.any(String) },
    ]);
  });

  it("[A21] POST /extensions/{type} gives equal bodies under one key the same frame id, and another body, key or tenant another one", async () => {
    const fixture = openFixture();
    const key = { "idempotency-key": "k-1" };
    const id = async (body: object, headers = key as Record<string, string>, token = "secret-a") =>
      (await post(fixture, body, headers, token)).body["id"];
    const first = await id({ workerId: "w-1", payload: { a: 1, b: 2 } });

    expect(await id({ payload: { b: 2, a: 1 }, workerId: "w-1" })).toBe(first);
    const others = [
      await id({ workerId: "w-1", payload: { a: 2 } }),
      await id({ workerId: "w-2", payload: { a: 1, b: 2 } }),
      await id({ workerId: "w-1", payload: { a: 1, b: 2 } }, { "idempotency-key": "k-2" }),
      await id({ workerId: "w-1", payload: { a: 1, b: 2 } }, {}),
      await id({ workerId: "w-1", payload: { a: 1, b: 2 } }, key, "secret-b"),
    ];
    expect(new Set([first, ...others]).size).toBe(6);
  });

  it("[A21] POST /extensions/{type} answers another tenant's worker as missing, and an offline one with the engine's fault", async () => {
    const fixture = openFixture();
    fixture.engine.answerWith("worker.tell", () => ({
      fault: { code: "E.NOT_FOUND", message: "inner words about default/w-9" },
    }));
    expect(await post(fixture, { workerId: "w-9", payload: {} })).toMatchObject({
      status: 404,
      body: { error: "E.NOT_FOUND", message: "there is no worker w-9" },
    });

    fixture.engine.answerWith("worker.tell", () => ({ fault: { code: "E.SESSION.UNKNOWN", message: "worker w-9 is away" } }));
    expect(await post(fixture, { workerId: "w-9", payload: {} })).toMatchObject({
      status: 404,
      body: { error: "E.SESSION.UNKNOWN", message: "worker w-9 is away" },
    });
  });

  it.each<[string, number, string, unknown, string?, string?]>([
    ["a payload that is no object", 400, "E.REQUEST.INVALID", { workerId: "w-1", payload: [1] }],
    ["no worker", 400, "E.REQUEST.INVALID", { payload: {} }],
    ["a reserved type", 400, "E.REQUEST.INVALID", { workerId: "w-1", payload: {} }, "secret-a", "ext.vendor.astraflow.void"],
    ["a payload above 256 KiB", 413, "E.REQUEST.TOO_LARGE", { workerId: "w-1", payload: { text: "x".repeat(256 * 1024) } }],
    ["a token that may only look", 403, "E.AUTH.FORBIDDEN", { workerId: "w-1", payload: {} }, "viewer"],
  ])(
    "[A21] POST /extensions/{type} refuses %s before anything is sent to the engine",
    async (_what, status, error, body, token, of) => {
      const fixture = openFixture();

      expect(await post(fixture, body, {}, token, of)).toMatchObject({ status, body: { error } });
      expect(fixture.engine.commands).toEqual([]);
    },
  );
});
