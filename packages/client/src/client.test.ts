import {
  type Route,
  type Run,
  type RunDefinition,
  type RunList,
  type RunPlan,
  routes,
  type StartedRunRef,
} from "@astraflow/protocol";
import { describe, expect, expectTypeOf, it } from "vitest";
import { allItems, type Client, createClient } from "./index.ts";

interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: unknown;
}

type FakeReply = Response | Error;
const okReply = (body: unknown, status = 200): Response => new Response(JSON.stringify(body), { status });
const refusedReply = (status: number, error: string, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ error, message: "no", requestId: "q1", details: { a: 1 } }), { status, headers });

/** A scheduler of given answers; pauses take no time and are noted. */
function clientWithReplies(...replies: FakeReply[]): { client: Client; seen: SentRequest[]; pauses: number[]; dice: number[] } {
  /** Random numbers to come; zeros afterwards. */
  const dice: number[] = [];
  const seen: SentRequest[] = [];
  const pauses: number[] = [];
  let keys = 0;
  const client = createClient({
    url: "http://s/",
    token: "tok",
    environment: {
      fetch: async (url, { method, headers, body }) => {
        seen.push({ method: method ?? "", url, headers: headers as Record<string, string>, body });
        const reply = replies.shift() ?? new Error("nobody");
        if (reply instanceof Error) throw reply;
        return reply;
      },
      pause: (ms, signal) => {
        // The watch over a request's time never ends by itself here.
        if (ms === 30_000) return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
        pauses.push(ms);
        return Promise.resolve();
      },
      newIdempotencyKey: () => `key-${++keys}`,
      random: () => dice.shift() ?? 0,
    },
  });
  return { client, seen, pauses, dice };
}

describe("calls", () => {
  it("[C21] every API route is a method of the client, and no route uses a parameter name twice", () => {
    const { client } = clientWithReplies();

    for (const [name, route] of Object.entries(routes as Record<string, Route>)) {
      expect(client[name as keyof Client]).toBeTypeOf("function");
      const words = [...Object.keys(route.params ?? {}), ...Object.keys(route.query ?? {}), "body"];
      expect(new Set(words).size).toBe(words.length);
      expect([...route.path.matchAll(/\{(\w+)\}/g)].map((found) => found[1])).toEqual(Object.keys(route.params ?? {}));
    }
  });

  it("[C21] the client's parameters, query, body and response have the types of the route table", () => {
    const { client } = clientWithReplies();

    expectTypeOf(client.getRun).parameter(0).toEqualTypeOf<{ runId: string; at?: number | undefined }>();
    expectTypeOf(client.getRun).returns.resolves.toEqualTypeOf<Run>();
    expectTypeOf(client.listRuns).returns.resolves.toEqualTypeOf<RunList>();
    expectTypeOf(client.startRun).returns.resolves.toEqualTypeOf<StartedRunRef | RunPlan>();
    expectTypeOf(client.getRunDefinition).returns.resolves.toEqualTypeOf<RunDefinition>();
    expectTypeOf(client.logout).returns.resolves.toEqualTypeOf<undefined>();
    expectTypeOf(client.downloadResource).returns.resolves.toEqualTypeOf<Response>();
    // @ts-expect-error a run is needed
    const missing = () => client.getRun();
    // @ts-expect-error no such status
    const wrong = () => client.listDeadLetters({ status: "closed" });
    expect([missing, wrong]).toHaveLength(2);
  });

  it("[C21] the client sends a call as its route defines: escaped path, query, JSON body, token, and a key if the route takes one", async () => {
    const { client, seen } = clientWithReplies(okReply({}), okReply({}, 202), new Response(null, { status: 204 }));

    await client.getRunNode({ runId: "a/b", nodeId: "4*2/7", path: "results.x", offset: 5 });
    await client.skipNode({ runId: "r", nodeId: "n", body: { reason: "late" } });
    expect(await client.deleteWorkflow({ workflowId: "w" }, { headers: { "if-match": '"3"' } })).toBeUndefined();

    expect(seen).toMatchObject([
      { method: "GET", url: "http://s/api/v1/runs/a%2Fb/nodes/4*2%2F7?path=results.x&offset=5", body: undefined },
      { method: "POST", url: "http://s/api/v1/runs/r/nodes/n/skip", body: '{"reason":"late"}' },
      { method: "DELETE", headers: { "if-match": '"3"', authorization: "Bearer tok" } },
    ]);
    expect(seen[0]?.headers).not.toHaveProperty("idempotency-key");
    expect(seen[1]?.headers).toMatchObject({ "idempotency-key": "key-1", "content-type": "application/json" });
    await expect(client.getRun({ runId: "" })).rejects.toThrow("needs runId");
  });

  it("[C21] the client reads lists page by page, including empty pages, until the cursor no longer changes", async () => {
    const pages = [
      { items: [1, 2], nextCursor: "a" },
      { items: [], nextCursor: "b" },
      { items: [3], nextCursor: "b" },
    ];
    const asked: (string | undefined)[] = [];

    const read = async (cursor: string | undefined) => {
      asked.push(cursor);
      return pages[asked.length - 1] ?? { items: [], nextCursor: null };
    };

    const found: number[] = [];
    for await (const item of allItems(read)) found.push(item);

    expect(found).toEqual([1, 2, 3]);
    expect(asked).toEqual([undefined, "a", "b"]);
  });
});

describe("faults", () => {
  it("[C22] the client throws an ApiFault with code, message, status, request id and details; other error responses keep their status", async () => {
    const { client } = clientWithReplies(refusedReply(409, "E.RUN.TERMINAL"), new Response("<html>", { status: 502 }));

    await expect(client.cancelRun({ runId: "r" })).rejects.toMatchObject({
      name: "ApiFault",
      code: "E.RUN.TERMINAL",
      message: "no",
      status: 409,
      requestId: "q1",
      details: { a: 1 },
    });
    await expect(client.getRun({ runId: "r" })).rejects.toMatchObject({ code: "HTTP 502", status: 502 });
  });

  it("[C22] the client throws NoAnswer if the server is unreachable or its response is not JSON", async () => {
    const { client } = clientWithReplies(new Error("1"), new Error("2"), new Error("3"), new Response("<html>"));

    await expect(client.getRun({ runId: "r" })).rejects.toMatchObject({ name: "NoAnswer", url: "http://s", isLate: false });
    await expect(client.getRun({ runId: "r" })).rejects.toMatchObject({ name: "NoAnswer", cause: expect.any(SyntaxError) });
  });

  it("[C22] a client call that the caller aborts rejects with the caller's own reason", async () => {
    const { client } = clientWithReplies(new Error("aborted"));

    await expect(client.getRun({ runId: "r" }, { signal: AbortSignal.abort("enough") })).rejects.toBe("enough");
  });
});

describe("retries", () => {
  it("[C23] the client retries an overloaded or busy server after Retry-After or with growing pauses, under one idempotency key", async () => {
    const { client, seen, pauses } = clientWithReplies(
      refusedReply(429, "E.OVERLOADED", { "retry-after": "2" }),
      refusedReply(503, "E.STORE.BUSY"),
      refusedReply(503, "E.STORE.BUSY"),
      okReply({ runId: "r" }, 202),
    );

    await client.startRun({ body: { clientId: "c", workflowId: "w" } });

    expect(pauses).toEqual([2_000, 200, 400]);
    expect(new Set(seen.map((one) => one.headers["idempotency-key"]))).toEqual(new Set(["key-1"]));
  });

  it("[C23] the client spreads its retries by chance: half of a pause more, or a fifth of a second behind Retry-After", async () => {
    const { client, pauses, dice } = clientWithReplies(
      refusedReply(429, "E.OVERLOADED", { "retry-after": "2" }),
      refusedReply(503, "E.STORE.BUSY"),
      refusedReply(503, "E.STORE.BUSY"),
      okReply({ runId: "r" }, 202),
    );
    dice.push(0.75, 1 - Number.EPSILON, 0.5);

    await client.startRun({ body: { clientId: "c", workflowId: "w" } });

    expect(pauses.map(Math.round)).toEqual([2_150, 400, 600]);
  });

  it("[C23] the client retries after a lost response only if a repeat has no second effect", async () => {
    const lost = clientWithReplies(new Error("reset"), okReply({ runId: "r" }, 202));
    await lost.client.startRun({ body: { clientId: "c", workflowId: "w" } }, { key: "mine" });
    expect(lost.seen.map((one) => one.headers["idempotency-key"])).toEqual(["mine", "mine"]);

    const once = clientWithReplies(new Error("reset"));
    await expect(once.client.editDraft({ workflowId: "w", body: { base: 1, edits: [] } })).rejects.toMatchObject({
      name: "NoAnswer",
    });
    const busy = clientWithReplies(refusedReply(503, "E.STORE.BUSY"));
    await expect(busy.client.editDraft({ workflowId: "w", body: { base: 1, edits: [] } })).rejects.toMatchObject({ status: 503 });
    expect([...once.seen, ...busy.seen]).toHaveLength(2);
  });

  it("[C23] the client gives up after five attempts, and does not wait for a Retry-After of more than half a minute", async () => {
    const often = clientWithReplies(...Array.from({ length: 9 }, () => refusedReply(503, "E.OVERLOADED")));
    await expect(often.client.listRuns()).rejects.toMatchObject({ code: "E.OVERLOADED" });
    expect(often.seen).toHaveLength(5);

    const long = clientWithReplies(refusedReply(429, "E.AUTH.THROTTLED", { "retry-after": "900" }));
    await expect(long.client.login({ body: { username: "u", password: "p" } })).rejects.toMatchObject({ status: 429 });
    expect(long.pauses).toEqual([]);
  });
});
