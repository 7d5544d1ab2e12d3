// Every row of the routes' table, asked well and badly over HTTP on the real engine: whatever comes, the answer is one that the row promises,
// a refusal is one sentence with a code, and what is refused changes nothing.

import { limits, type RouteName } from "@astraflow/protocol";
import { createMemoryFixture, createSqliteFixture, type StoreFixture } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture, type TestResponse } from "./rest-fixture.ts";
import { differentRequest, exampleUrl } from "./route-examples.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});
async function openFixture(stage: Promise<StoreFixture> = createMemoryFixture("strong")): Promise<RestFixture> {
  const opened = await openRestFixture(await stage);
  cleanups.push(opened.close);
  return opened;
}

/** Those whose answers go on for as long as somebody listens. */
const isStream = (name: RouteName): boolean => routeOf(name).media === "text/event-stream";
const guarded = routeNames.filter((name) => routeOf(name).isOpen !== true);
const withBody = routeNames.filter((name) => routeOf(name).request !== undefined);
const withParams = routeNames.filter((name) => Object.keys(routeOf(name).params ?? {}).length > 0);
const withKey = routeNames.filter((name) => routeOf(name).headers?.["Idempotency-Key"] !== undefined);

/** Awaits the answers and returns every problem, each with its request. */
async function askAll(
  name: RouteName,
  asks: readonly (readonly [string, Promise<TestResponse>])[],
  isDoorFine = false,
): Promise<string[]> {
  const found: string[] = [];
  for (const [what, asking] of asks)
    for (const why of findAnswerProblems(name, await asking, isDoorFine)) found.push(`${what}: ${why}`);
  return found;
}

const storeFixtures = [
  ["memory", () => createMemoryFixture("strong")],
  ["sqlite", () => createSqliteFixture()],
] as const;

describe.each(storeFixtures)("every route on %s", (_store, stageOf) => {
  it("[A213] every route answers a valid request of an authorised caller with the status and schema of its table row", async () => {
    const wrong: string[] = [];
    const judge = async (name: RouteName, { send: ask }: RestFixture) => {
      const response = await ask(name);
      wrong.push(...findAnswerProblems(name, response).map((why) => `${name}: ${why}`));
      if (response.status >= 300) wrong.push(`${name} answered ${response.status} ${JSON.stringify(response.body)}`);
    };
    const readers = routeNames.filter((name) => routeOf(name).method === "GET" && !isStream(name));
    const shared = await openFixture(stageOf());
    for (const name of readers) await judge(name, shared);
    // What changes something gets a town of its own.
    for (const name of routeNames.filter((one) => routeOf(one).method !== "GET")) {
      const own = await openRestFixture(await stageOf());
      await judge(name, own);
      await own.close();
    }
    expect(wrong).toEqual([]);
  }, 240_000);

  it("[A214] every protected route refuses a missing token, an unknown token and a token without the required scope", async () => {
    const { send: ask, storedState: trace } = await openFixture(stageOf());
    const before = await trace();
    const wrong: string[] = [];
    const refused = async (name: RouteName, token: string | null, code: string) => {
      const response = await ask(name, { token });
      if (response.body?.error !== code) wrong.push(`${name} with ${token}: ${response.status} ${response.body?.error}`);
      wrong.push(...findAnswerProblems(name, response).map((why) => `${name}: ${why}`));
    };
    for (const name of guarded) {
      const { grant, orGrant } = routeOf(name);
      await refused(name, null, "E.AUTH.MISSING_TOKEN");
      await refused(name, "made-up", "E.AUTH.INVALID_TOKEN");
      const without = orGrant === undefined ? grant : `${grant}+${orGrant}`;
      if (grant !== undefined) await refused(name, `t1-but-${without}`, "E.AUTH.FORBIDDEN");
    }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });

  it("[A215] a request for another tenant's object is answered exactly like one for an object that does not exist", async () => {
    const { send: ask, ownSamples: mine, otherTenantSamples: theirs, storedState: trace } = await openFixture(stageOf());
    const before = await trace();
    const wrong: string[] = [];
    for (const name of withParams) {
      if (isStream(name) || name === "tellWorker") continue;
      const [, foreign] = exampleUrl(name, theirs);
      const [, missing] = exampleUrl(name, theirs, (value) => (value === "0" || value === mine.role ? value : `no-${value}`));
      const answers = [await ask(name, { url: foreign }), await ask(name, { url: missing })] as const;
      const [one, other] = answers.map((answer) => maskIds(answer, Object.values(theirs).map(String)));
      if (one !== other) wrong.push(`${name}: ${one} but ${other}`);
      wrong.push(...findAnswerProblems(name, answers[0]).map((why) => `${name}: ${why}`));
      if (answers[0].status !== 404) wrong.push(`${name}: ${one}`);
    }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });
});

/** The answer without the ids that were asked for, and without its own. */
function maskIds({ status, body }: TestResponse, ids: readonly string[]): string {
  let text = JSON.stringify({ ...body, requestId: "" });
  const longest = ids.filter((id) => id.length > 2).sort((a, b) => b.length - a.length);
  for (const id of longest) text = text.replaceAll(`no-${id}`, "…").replaceAll(id, "…");
  return `${status} ${text}`;
}

describe("every route", () => {
  it("[A216] every route refuses unknown query parameters, and known ones given twice", async () => {
    const { send: ask, ownSamples: mine, storedState: trace } = await openFixture();
    const before = await trace();
    const wrong: string[] = [];
    for (const name of routeNames) {
      const [, url] = exampleUrl(name, mine);
      const odd = await ask(name, { url: `${url}?nobody=1` });
      if (odd.status !== 400) wrong.push(`${name} took an unknown name: ${odd.status}`);
      wrong.push(...findAnswerProblems(name, odd).map((why) => `${name}: ${why}`));
      for (const known of Object.keys(routeOf(name).query ?? {})) {
        const twice = await ask(name, { url: `${url}?${known}=1&${known}=2` });
        if (twice.status !== 400) wrong.push(`${name} took ${known} twice: ${twice.status}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });

  it("[A217] every route with a body refuses one that is not JSON, missing, too deep, too large or of another content type", async () => {
    const { send: ask, storedState: trace } = await openFixture();
    const before = await trace();
    const wrong: string[] = [];
    const deep = `${'{"a":'.repeat(90)}1${"}".repeat(90)}`;
    for (const name of withBody) {
      const isOptional = routeOf(name).isBodyOptional === true;
      const bad: [string, unknown, Record<string, string>, number][] = [
        ["no JSON", "{oops", {}, 400],
        ["a list", [1], {}, 400],
        ["a number", "7", {}, 400],
        ["null", "null", {}, 400],
        ["twice the same key", '{"a":1,"a":2}', {}, 400],
        ["a poisoned key", '{"__proto__":{"a":1}}', {}, 400],
        ["not UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), {}, 400],
        ["too deep", deep, {}, 413],
        ["too large", Buffer.alloc(limits.requestBytesMax + 1, 32), {}, 413],
        ["text", "hello", { "content-type": "text/plain" }, 415],
        ["a form", "a=1", { "content-type": "application/x-www-form-urlencoded" }, 415],
      ];
      if (!isOptional) bad.push(["nothing", null, {}, 400]);
      for (const [what, body, headers, status] of bad) {
        const response = await ask(name, { body, headers });
        const isFine =
          response.status === status || (what === "nothing" && response.status === 415) || isAnsweredOnce(name, response);
        if (!isFine) wrong.push(`${name} with ${what}: ${response.status} ${JSON.stringify(response.body)}`);
        wrong.push(...findAnswerProblems(name, response).map((why) => `${name} with ${what}: ${why}`));
      }
    }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });

  it("[A218] every route refuses odd path parameters with one of its documented faults or as an unknown route, and changes nothing", async () => {
    const { send: ask, ownSamples: mine, storedState: trace } = await openFixture();
    const before = await trace();
    const odd = [
      "%00",
      "%0A",
      "..%2F..%2Fetc",
      "%2F",
      "4*0/9".replace("/", "%2F"),
      "%F0%9F%98%80",
      "__proto__",
      "constructor",
      "'%20OR%201=1",
      "%25",
      "%",
      "%C3%28",
      "x".repeat(1_050),
      "x".repeat(3_000),
      "*",
      "~1",
      "-1",
      "1e9",
      "null",
    ];
    const wrong: string[] = [];
    for (const name of withParams)
      for (const word of odd) {
        const [, url] = exampleUrl(name, mine, () => word);
        const response = await ask(name, { url });
        const asked: readonly [string, Promise<TestResponse>][] = [[`${name} ${word.slice(0, 20)}`, Promise.resolve(response)]];
        if (response.status < 400) wrong.push(`${name} with ${word.slice(0, 30)}: ${response.status}`);
        wrong.push(...(await askAll(name, asked, true)));
      }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });

  it("[A219] every route that takes an Idempotency-Key refuses an invalid one and changes nothing", async () => {
    const { send: ask, storedState: trace } = await openFixture();
    const before = await trace();
    const wrong: string[] = [];
    for (const name of withKey)
      for (const key of ["", "two words", "k".repeat(65), "é"]) {
        const response = await ask(name, { headers: { "idempotency-key": key } });
        if (response.status !== 400) wrong.push(`${name} with ${key.slice(0, 9)}: ${response.status}`);
        wrong.push(...findAnswerProblems(name, response).map((why) => `${name}: ${why}`));
      }
    expect(wrong).toEqual([]);
    expect(await trace()).toBe(before);
  });

  it("[A220] a request repeated with the same idempotency key and body has the same answer and no second effect; another body is refused", async () => {
    const wrong: string[] = [];
    for (const name of withKey.filter((one) => !routesWithoutMemory.has(one))) {
      const {
        send: ask,
        ownSamples: mine,
        harness,
        storedState: trace,
        close,
      } = await openRestFixture(await createMemoryFixture("strong"));
      const headers = { "idempotency-key": "key-1" };
      const first = await ask(name, { headers });
      await harness.settle();
      const after = await trace();
      const second = await ask(name, { headers });
      await harness.settle();
      if (lastingPart(first) !== lastingPart(second)) wrong.push(`${name}: ${lastingPart(first)}, then ${lastingPart(second)}`);
      const other = differentRequest(name, mine);
      if ((await trace()) !== after) wrong.push(`${name} had a second effect`);
      if (!alwaysRepeatableRoutes.has(name) && other !== null) {
        const response = await ask(name, { headers, ...other });
        if (response.body?.error !== "E.IDEMPOTENCY.MISMATCH") wrong.push(`${name} took another body: ${lastingPart(response)}`);
        wrong.push(...findAnswerProblems(name, response).map((why) => `${name}: ${why}`));
      }
      await close();
    }
    expect(wrong).toEqual([]);
  });
});

/**
 * A frame's id is made of key and body, so another body is another frame; an upload that is complete has no body, and its key is only
 * read: it is completed once whatever the key is.
 */
const alwaysRepeatableRoutes: ReadonlySet<RouteName> = new Set(["tellWorker", "completeUpload"]);
/** A token that was given back cannot ask twice. */
const routesWithoutMemory: ReadonlySet<RouteName> = new Set(["logout"]);

/** The answer but for what moves on by itself. */
function lastingPart({ status, body }: TestResponse): string {
  if (typeof body !== "object" || body === null) return String(status);
  const { acceptedAt: _at, updatedAt: _then, requestId: _id, commandId, ...rest } = body;
  if (rest.bulkId !== undefined) return `${status} ${rest.bulkId}`;
  return `${status} ${JSON.stringify(rest)} ${String(commandId).startsWith("name-") ? "" : commandId}`;
}

/** A workflow that is none has a code of its own, and is what one asks about where it is only checked. */
const isAnsweredOnce = (name: RouteName, { status, body }: TestResponse): boolean =>
  body?.error === "E.WORKFLOW.INVALID" || (name === "validateWorkflow" && status === 200 && body.isValid === false);
