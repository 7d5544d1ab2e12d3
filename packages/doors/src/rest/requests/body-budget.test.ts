import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { afterEach, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

let fixture: DoorsFixture;
afterEach(() => fixture.stop());

function post(headers: Record<string, string | number>): { sent: ClientRequest; answered: Promise<IncomingMessage> } {
  const all = { authorization: "Bearer secret-a", "content-type": "application/json", ...headers };
  const sent = request(`${fixture.http}/api/v1/runs`, { method: "POST", headers: all });
  const answered = new Promise<IncomingMessage>((resolve) => sent.on("response", (response) => resolve(response.resume())));
  sent.on("error", () => undefined);
  return { sent, answered };
}

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
