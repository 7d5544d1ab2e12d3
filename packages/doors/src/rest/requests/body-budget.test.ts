import { EventEmitter } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { afterEach, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { BodyBudget } from "./body-budget.ts";

let fixture: DoorsFixture | null = null;
afterEach(async () => {
  await fixture?.stop();
  fixture = null;
});

const requestOf = (length: number) => ({ headers: { "content-length": String(length) } }) as FastifyRequest;

function createReply() {
  const raw = Object.assign(new EventEmitter(), { destroyed: false });
  return { raw, reply: { raw } as unknown as FastifyReply };
}

function post(headers: Record<string, string | number>): { sent: ClientRequest; answered: Promise<IncomingMessage> } {
  const all = { authorization: "Bearer secret-a", "content-type": "application/json", ...headers };
  const sent = request(`${fixture?.http}/api/v1/runs`, { method: "POST", headers: all });
  const answered = new Promise<IncomingMessage>((resolve) => sent.on("response", (response) => resolve(response.resume())));
  sent.on("error", () => undefined);
  return { sent, answered };
}

it("[A1456] a body whose caller has gone before it is counted takes no room", async () => {
  const { raw, reply } = createReply();
  const budget = new BodyBudget(1_000);
  raw.destroyed = true;

  for (let at = 0; at < 3; at++) budget.reserve(requestOf(900), reply, 1_000);

  expect(() => budget.reserve(requestOf(900), createReply().reply, 1_000)).not.toThrow();
  expect(() => budget.reserve(requestOf(900), createReply().reply, 1_000)).toThrow("too many large requests");
});

it.each([
  ["of a stated length", { "content-length": 600 }],
  ["of no stated length", { "transfer-encoding": "chunked" }],
])(
  "[A654] a body %s is refused with 503 while those that are being received are too large with it, and taken once they are answered",
  async (_what, headers) => {
    fixture = await openDoorsFixture({ bodyBytesTotalMax: 1_000 });
    const first = post({ "content-length": 500, expect: "100-continue" });
    const isFirstSeen = new Promise((resolve) => first.sent.once("continue", resolve));
    first.sent.flushHeaders();
    await isFirstSeen;

    const second = post(headers);
    second.sent.flushHeaders();

    expect((await second.answered).statusCode).toBe(503);
    second.sent.destroy();
    first.sent.end("x".repeat(500));
    expect((await first.answered).statusCode).toBe(400);
    const third = post({ "content-length": 900 });
    third.sent.end("x".repeat(900));
    expect((await third.answered).statusCode).toBe(400);
  },
);
