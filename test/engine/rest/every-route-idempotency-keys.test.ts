// Idempotency keys are one space: a key that one route was given is known to every other, whichever came first. Repeats of one route are in
// every-route.test.ts.

import type { RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import { expect, it } from "vitest";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { nodeId } from "../harness/engine-harness.ts";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";
import { differentRequest, exampleUrl } from "./route-examples.ts";

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

const targeted = keyed.filter((name) => Object.keys(routeOf(name).params ?? {}).length > 0);
const parametersOf = (name: RouteName): string[] => Object.keys(routeOf(name).params ?? {});

/** Sends one request under the key, then the same to another thing of the same kind, for each kind that the path names. */
async function useKeyForOtherTargets(
  { send, harness, storedState, ...fixture }: RestFixture,
  name: RouteName,
): Promise<string[]> {
  const others = { ...(await fixture.createMoreOwnSamples()), nodeId: nodeId(1) };
  const first = await send(name, { headers });
  if (first.status >= 300) return [`${first.status} ${JSON.stringify(first.body)}`];
  await harness.settle();
  const before = await storedState();
  const problems: string[] = [];
  for (const parameter of parametersOf(name)) {
    const { runId, failedRunId, packageName, rolloutPackageName, heldPackageName } = others;
    const target =
      parameter === "runId"
        ? { runId, failedRunId }
        : parameter === "packageName"
          ? { packageName, rolloutPackageName, heldPackageName }
          : { [parameter]: others[parameter as "nodeId"] };
    const [, url] = exampleUrl(name, { ...fixture.ownSamples, ...target });
    const second = await send(name, { headers, url });
    await harness.settle();
    if (second.status !== 409 || second.body?.error !== "E.IDEMPOTENCY.MISMATCH")
      problems.push(`another ${parameter}: ${second.status} ${JSON.stringify(second.body)}`);
    problems.push(...findAnswerProblems(name, second));
  }
  if ((await storedState()) !== before) problems.push("another target had an effect");
  return problems;
}

it.each(targeted)(
  "[A680] an idempotency key used with %s is refused for another target of the same route, without an effect",
  async (name) => {
    expect(await withRestFixture((fixture) => useKeyForOtherTargets(fixture, name))).toEqual([]);
  },
);

/** What is not in the body, and makes another request of it all the same. */
const withQuery = keyed.filter((name) => routeOf(name).query !== undefined);

it("[A680] every route that keeps its idempotency key and takes a body is tried with another body, and every query is tried", () => {
  const withBody = keyed.filter((name) => routeOf(name).request !== undefined || routeOf(name).takes !== undefined);

  // A rollback needs a second version: it has a test of its own.
  expect(withBody.filter((name) => differentRequest(name, {} as never) === null)).toEqual(["rollbackWorkflow"]);
  expect(withQuery).toEqual(["importWorkflow"]);
});

it("[A680] an idempotency key used with rollbackWorkflow is refused for another version", async () => {
  await withRestFixture(async ({ send }) => {
    const second = await send("publishVersion", { body: { note: "second" } });
    const first = await send("rollbackWorkflow", { headers, body: { version: 1 } });
    const other = await send("rollbackWorkflow", { headers, body: { version: second.body.version } });

    expect([second.body.version, first.status, other.body?.error]).toEqual([2, 200, "E.IDEMPOTENCY.MISMATCH"]);
  });
});

it("[A680] an idempotency key used with importWorkflow is refused if its query says something else", async () => {
  await withRestFixture(async ({ send }) => {
    const first = await send("importWorkflow", { headers });
    const other = await send("importWorkflow", { headers, url: "/api/v1/workflows/import?ids=renew" });

    expect([first.status, other.body?.error]).toEqual([201, "E.IDEMPOTENCY.MISMATCH"]);
  });
});

it("[A680] routes that keep nothing under their idempotency key answer for another target with what belongs to that one", async () => {
  await withRestFixture(async ({ send, createMoreOwnSamples }) => {
    const more = await createMoreOwnSamples();
    const upload = await send("completeUpload", { headers });
    const otherUpload = await send("completeUpload", { headers, url: `/api/v1/resources/uploads/${more.uploadId}/complete` });
    const frame = await send("tellWorker", { headers });
    const otherFrame = await send("tellWorker", { headers, body: { workerId: more.workerId, payload: { hello: 1 } } });
    const otherType = await send("tellWorker", { headers, url: "/api/v1/extensions/ext.vendor.acme.other" });

    expect([upload.status, otherUpload.status, frame.status, otherFrame.status, otherType.status]).toEqual([
      200, 200, 202, 202, 202,
    ]);
    expect(otherUpload.body.resourceId).not.toBe(upload.body.resourceId);
    expect(otherFrame.body).toMatchObject({ workerId: more.workerId });
    expect(new Set([frame.body.id, otherFrame.body.id, otherType.body.id]).size).toBe(3);
  });
});

it("[A892] the document says of each route that keeps nothing under an Idempotency-Key what the key does there", async () => {
  const meaningOf = (name: RouteName): string | undefined => {
    const key = routeOf(name).headers?.["Idempotency-Key"] as { readonly description?: string } | undefined;
    return key?.description;
  };

  expect(meaningOf("cancelRun")).toContain("return the same response");
  for (const name of routesWithoutKeys) expect([name, meaningOf(name)]).toEqual([name, expect.stringMatching(/[Nn]ot kept/)]);
  await withRestFixture(async ({ send }) => {
    const [upload, again] = [await send("completeUpload", { headers }), await send("completeUpload", { headers })];
    const [frame, repeat] = [await send("tellWorker", { headers }), await send("tellWorker", { headers })];
    const other = await send("tellWorker", { headers: { "idempotency-key": "key-2" } });
    const [logout, twice] = [await send("logout", { headers }), await send("logout", { headers })];

    expect(again.body).toEqual(upload.body);
    expect([repeat.status, repeat.body.id]).toEqual([frame.status, frame.body.id]);
    expect(other.body.id).not.toBe(frame.body.id);
    expect([logout.status, twice.status]).toEqual([204, 401]);
  });
});

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
