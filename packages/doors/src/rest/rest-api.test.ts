import { fault, limits, type RouteName } from "@astraflow/protocol";
import { EngineClient } from "@astraflow/services";
import { createFakeEnvironment, sampleChain, sampleDigest } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../environment/metrics-registry.ts";
import { emptyReader, sampleTokens } from "../testing/doors-fixture.ts";
import { RestApi, type RestRequest } from "./rest-api.ts";

/** Answers in a microtask, as a simulated engine may. */
function openCalls(environment = createFakeEnvironment()) {
  const engineClient = new EngineClient(
    (items) =>
      queueMicrotask(() =>
        engineClient.handleEffects(
          items.map(({ ref }) => ({
            type: "answer",
            ref,
            body: { of: "run", run: "r1", phase: "queued", workflow: "default/d", client: "c", createdAt: 0, repeated: false },
            fault: null,
          })),
        ),
      ),
    { report: (problem) => expect(problem).toBeUndefined() },
  );
  return new RestApi({
    engineClient,
    authenticate: sampleTokens,
    environment,
    metrics: createMetricsRegistry(),
    reader: emptyReader,
    digest: sampleDigest,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
  });
}

const request = (more: Partial<RestRequest> = {}): RestRequest => ({
  token: "secret-a",
  params: {},
  query: {},
  headers: { "content-type": "application/json" },
  body: null,
  ...more,
});

describe("calls without HTTP", () => {
  it("[A17] a call without HTTP is answered with the status, headers and body that HTTP would carry, in microtasks alone", async () => {
    const calls = openCalls();
    const body = Buffer.from(JSON.stringify({ clientId: "c", workflow: sampleChain }));
    let isLate = false;
    setImmediate(() => {
      isLate = true;
    });

    const { status, headers, body: text } = await calls.handle("startRun", request({ body }));

    expect([status, JSON.parse(text)]).toMatchObject([202, { runId: "r1", status: "queued" }]);
    expect(headers).toMatchObject({ "content-type": "application/json; charset=utf-8", "x-request-id": "name-1" });
    expect(isLate).toBe(false);
  });

  it.each<[string, RouteName, Partial<RestRequest>, number, string]>([
    ["no token", "listRuns", { token: null }, 401, "E.AUTH.MISSING_TOKEN"],
    ["a wrong token", "listRuns", { token: "wrong" }, 401, "E.AUTH.INVALID_TOKEN"],
    ["a token that may not", "startRun", { token: "viewer" }, 403, "E.AUTH.FORBIDDEN"],
    ["an unknown name in the query", "listRuns", { query: { nme: "x" } }, 400, "E.REQUEST.INVALID"],
    ["a run that is not there", "getRun", { params: { runId: "none" } }, 404, "E.NOT_FOUND"],
    ["a body that is too large", "startRun", { body: Buffer.alloc(limits.requestBytesMax + 1) }, 413, "E.REQUEST.TOO_LARGE"],
  ])("[A17] a call without HTTP that has %s is refused with the common error body", async (_what, name, more, status, error) => {
    const answer = await openCalls().handle(name, request(more));

    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([status, { error, requestId: "name-1" }]);
    expect(answer.headers["www-authenticate"]).toBe(status === 401 ? "Bearer" : undefined);
  });

  it("[A1465] requests that are refused while the store is away are counted in a line whenever their number has doubled, and have no stack", () => {
    const environment = createFakeEnvironment();
    const calls = openCalls(environment);
    const refuse = (times: number) => {
      for (let at = 0; at < times; at += 1) calls.errorResponse(fault("E.STORE.BUSY", "the disk is full"), `r-${at}`);
    };

    refuse(180);
    environment.advance(120_000);
    refuse(1);
    calls.errorResponse(fault("E.INTERNAL", "a bug"), "r-bug");

    const lines = environment.logRecords.map(({ event, code, refused }) => [event, code, refused]);
    const counts = [1, 2, 4, 8, 16, 32, 64, 128, 1].map((refused) => ["rest.refused", "E.STORE.BUSY", refused]);
    expect(lines).toEqual([...counts, ["rest.failed", "E.INTERNAL", undefined]]);
    expect(JSON.stringify(environment.logRecords.slice(0, -1))).not.toContain("at ");
  });
});
