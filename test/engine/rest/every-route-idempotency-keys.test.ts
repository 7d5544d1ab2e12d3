// Idempotency keys are one space: a key that one route was given is known to every other, whichever came first. Repeats of one route are in
// every-route.test.ts.

import type { RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import { expect, it } from "vitest";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";

/** Nothing is kept about these keys: they only name a frame, an upload that completes once by itself, or a session that is over. */
const routesWithoutKeys: ReadonlySet<RouteName> = new Set(["tellWorker", "completeUpload", "logout"]);
const keyed = routeNames.filter(
  (name) => routeOf(name).headers?.["Idempotency-Key"] !== undefined && !routesWithoutKeys.has(name),
);
const headers = { "idempotency-key": "key-1" };

async function withRestFixture<T>(visit: (cluster: RestFixture) => Promise<T>): Promise<T> {
  const cluster = await openRestFixture(await createMemoryFixture("strong"));
  try {
    return await visit(cluster);
  } finally {
    await cluster.close();
  }
}

/** Asks one route, then another under the same key; what is wrong with it. */
async function useKeyTwice(
  { send: ask, harness, storedState: trace }: RestFixture,
  first: RouteName,
  second: RouteName,
): Promise<string[]> {
  const response = await ask(first, { headers });
  if (response.status >= 300) return [`${first}: ${response.status} ${JSON.stringify(response.body)}`];
  await harness.settle();
  const before = await trace();
  const after = await ask(second, { headers });
  await harness.settle();
  const isRefused = after.status === 409 && after.body?.error === "E.IDEMPOTENCY.MISMATCH";
  return [
    ...(isRefused ? [] : [`${second} after ${first}: ${after.status} ${JSON.stringify(after.body)}`]),
    ...((await trace()) === before ? [] : [`${second} after ${first} had an effect`]),
    ...findAnswerProblems(second, after).map((why) => `${second}: ${why}`),
  ];
}

it.each(keyed.filter((name) => name !== "createView"))(
  "[A370] an idempotency key used with %s is refused on createView, and the reverse",
  async (name) => {
    expect(await withRestFixture((cluster) => useKeyTwice(cluster, name, "createView"))).toEqual([]);
    expect(await withRestFixture((cluster) => useKeyTwice(cluster, "createView", name))).toEqual([]);
  },
);

it("[A370] a refused command leaves its idempotency key free, and a key used for a drain is refused for a kick", async () => {
  await withRestFixture(async ({ send: ask }) => {
    const missing = await ask("drainWorker", { headers, url: "/api/v1/workers/nobody/drain" });
    const view = await ask("createView", { headers });
    const second = { headers: { "idempotency-key": "key-2" } };
    const drain = await ask("drainWorker", second);
    const other = await ask("kickWorker", second);
    const again = await ask("drainWorker", second);

    expect([missing.status, view.status, drain.status]).toEqual([404, 201, 202]);
    expect(other.body?.error).toBe("E.IDEMPOTENCY.MISMATCH");
    expect(again.body).toEqual(drain.body);
  });
});

it("[A370] a worker rebind is done once per idempotency key, and not at all under a key that another route has used", async () => {
  await withRestFixture(async ({ send: ask }) => {
    const { body } = await ask("listWorkers");
    const queue = (body?.["items"]?.[0] as { queues: string[] } | undefined)?.queues[0];
    const rebind = (key: string) =>
      ask("commandWorker", { body: { type: "rebind", queue }, headers: { "idempotency-key": key } });
    await ask("createView", { headers });

    expect((await rebind("key-1")).body?.error).toBe("E.IDEMPOTENCY.MISMATCH");
    const first = await rebind("key-2");
    expect([first.status, (await rebind("key-2")).body]).toEqual([202, first.body]);
    expect((await ask("createView", { headers: { "idempotency-key": "key-2" } })).body?.error).toBe("E.IDEMPOTENCY.MISMATCH");
  });
});
