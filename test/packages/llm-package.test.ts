// The package `llm` against a server of the test: what it asks, how it reads answers in any pieces, and what it makes of refusals. Through a
// scheduler and a worker it is tested by test/system/packages/llm-package.test.ts.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { JsonObject } from "@astraflow/protocol";
import { loadPackages } from "@astraflow/runtime";
import type { FeedbackInput, HandlerContext } from "@astraflow/sdk";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import {
  answerJson,
  answerStream,
  endEvents,
  eventOf,
  startModelServer,
  streamHead,
  tokenEvent,
} from "../system/harness/model-server.ts";

const importPart = (file: string): Promise<unknown> =>
  import(pathToFileURL(join(repositoryRoot, "examples/packages/llm/1.0.0", file)).href);
const { readAnswer } = (await importPart("answer.ts")) as {
  readAnswer(response: Response, endpoint: object): AsyncIterable<{ readonly text?: string }>;
};
const { findMismatch } = (await importPart("json-schema.ts")) as { findMismatch(schema: unknown, value: unknown): string | null };
const loaded = await loadPackages(join(repositoryRoot, "examples/packages"));

interface Called {
  readonly outcome: Readonly<Record<string, unknown>>;
  readonly sent: readonly FeedbackInput[];
}

async function run(node: string, params: JsonObject, part: object = {}): Promise<Called> {
  const sent: FeedbackInput[] = [];
  const feedback = { send: (input: FeedbackInput) => void sent.push(input) };
  const context = { params, feedback, resourceBindings: {}, signal: new AbortController().signal, ...part };
  const found = loaded.handlers.findHandler("llm", "1.0.0", `llm.${node}`);
  return { outcome: (await found?.handler(context as unknown as HandlerContext)) as Called["outcome"], sent };
}

const errorOf = ({ outcome }: Called) => (outcome["outputs"] as { error?: object } | undefined)?.error;
const llmText = (sent: readonly FeedbackInput[]) => sent.flatMap(({ chunks = [] }) => chunks.map(({ text }) => text)).join("");
const granted = (key: string, value: string) => ({ resourceBindings: { [key]: { value } } });

describe("the package llm", () => {
  it("[W1410] chat sends messages and settings to the server, streams the answer on the channel llm and as the result so far, and reports usage", async () => {
    const server = await startModelServer((response) => answerStream(response, ["Hel", "lo, ", "wörld ✓"]));

    const { outcome, sent } = await run("chat", {
      ...{ baseUrl: `${server.baseUrl}/`, model: "m", system: "be brief", prompt: "and now?" },
      messages: [{ role: "user", content: "hi" }],
      ...{ temperature: 0.5, maxTokens: 20, stop: ["END"] },
    });

    expect(outcome).toEqual({
      ...{ text: "Hello, wörld ✓", finishReason: "stop", model: "m-1", done: true },
      usage: { promptTokens: 5, completionTokens: 3, totalTokens: 8 },
    });
    expect(server.requests[0]).toMatchObject({
      path: "/v1/chat/completions",
      body: {
        ...{ model: "m", stream: true, temperature: 0.5, max_tokens: 20, stop: ["END"] },
        messages: [
          { role: "system", content: "be brief" },
          { role: "user", content: "hi" },
          { role: "user", content: "and now?" },
        ],
      },
    });
    const chunks = sent.flatMap((input) => input.chunks ?? []);
    expect(chunks).toEqual(["Hel", "lo, ", "wörld ✓"].map((text) => ({ channel: "llm", text })));
    expect(sent.at(-1)).toMatchObject({ metrics: { totalTokens: 8 }, metadata: { results: { text: "Hello, wörld ✓" } } });
  });

  it("[W1410] complete continues a prompt, an answer that is not streamed is read too, and embed returns vectors in the order of the inputs", async () => {
    const server = await startModelServer((response, { path }) => {
      if (path.endsWith("embeddings"))
        return answerJson(response, 200, {
          data: [
            { index: 1, embedding: [3, 4] },
            { index: 0, embedding: [1, 2] },
          ],
          usage: { prompt_tokens: 2, total_tokens: 2 },
        });
      return answerJson(response, 200, { choices: [{ text: " time", finish_reason: "length" }] });
    });
    const common = { baseUrl: server.baseUrl, model: "m" };

    const completed = await run("complete", { ...common, prompt: "once upon a", stream: false });
    const embedded = await run("embed", { ...common, input: ["a", "b"] });

    expect(completed.outcome).toMatchObject({ text: " time", finishReason: "length" });
    expect(llmText(completed.sent)).toBe(" time");
    expect(server.requests[0]).toMatchObject({ path: "/v1/completions", body: { prompt: "once upon a" } });
    expect(server.requests[0]?.body).not.toHaveProperty("stream");
    expect(embedded.outcome).toMatchObject({ embedding: [1, 2], embeddings: [[1, 2], [3, 4]], count: 2, dimensions: 2 }); // biome-ignore format: one line
  });

  const lines = [
    ": a comment\r\nevent: message\r\ndata: ",
    `${JSON.stringify({ choices: [{ delta: { content: "grüße 🙂" } }] })}\r\n\r\n`,
    // Two data lines of one event are one text; a cut inside the \r\n between them must not end the event.
    `data:{"choices":[{"delta":\r\ndata:{"content":" and more"}}]}\n\n`,
    `data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason: "stop" }] })}\r\rdata: [DONE]\n\n`,
  ];
  const body = Buffer.from(lines.join(""));

  it("[W1411] a stream is read the same wherever its bytes are cut", async () => {
    const read = async (pieces: readonly Uint8Array[]) => {
      const stream = new ReadableStream({
        start(controller) {
          for (const piece of pieces) controller.enqueue(piece);
          controller.close();
        },
      });
      const never = new AbortController().signal;
      const endpoint = { url: "u", key: undefined, timeoutMs: 1, signal: never, stopped: never };
      let text = "";
      for await (const piece of readAnswer(new Response(stream, { headers: streamHead }), endpoint)) text += piece.text ?? "";
      return text;
    };

    const texts = new Set<string>();
    for (let at = 0; at <= body.length; at++) texts.add(await read([body.subarray(0, at), body.subarray(at)]));
    texts.add(await read([...body].map((byte) => Uint8Array.of(byte))));

    expect([...texts]).toEqual(["grüße 🙂 and more"]);
  });

  it("[W1411] a stream that arrives byte by byte from a server is the same answer", async () => {
    const server = await startModelServer(async (response) => {
      response.writeHead(200, streamHead);
      for (const byte of body) await new Promise<void>((resolve) => void response.write(Uint8Array.of(byte), () => resolve()));
      response.end();
    });

    const { outcome } = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    expect(outcome).toMatchObject({ text: "grüße 🙂 and more", done: true });
  });

  it.each([
    ["that ends before the answer is complete", tokenEvent("half"), "ended its stream before the answer was complete"],
    ["with a line that is no JSON", `${tokenEvent("half")}data: {"choices":[\n\n`, "the server sent what is no JSON"],
    ["with an error in it", tokenEvent("half") + eventOf({ error: { message: "out of memory" } }), "out of memory"],
  ])("[W1412] a stream %s fails with E.LLM.UNAVAILABLE", async (_, text, message) => {
    const server = await startModelServer((response) => void response.writeHead(200, streamHead).end(text));

    const called = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    expect(called.outcome["status"]).toBe("failed");
    expect(errorOf(called)).toMatchObject({
      code: "E.LLM.UNAVAILABLE",
      isRetryable: true,
      message: expect.stringContaining(message),
    });
    expect(llmText(called.sent)).toBe("half");
  });

  it("[W1412] a connection that breaks, and a server that is not there, fail with E.LLM.UNAVAILABLE", async () => {
    const server = await startModelServer((response) => {
      response.writeHead(200, streamHead);
      response.write(tokenEvent("half"), () => response.destroy());
    });
    const broken = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });
    await server.close();
    const gone = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    for (const called of [broken, gone])
      expect(errorOf(called)).toMatchObject({ code: "E.LLM.UNAVAILABLE", message: expect.stringContaining("the connection to") });
  });

  it.each([
    [429, "E.LLM.RATE_LIMITED", true],
    [500, "E.LLM.UNAVAILABLE", true],
    [503, "E.LLM.UNAVAILABLE", true],
    [504, "E.TIMEOUT", true],
    [400, "E.PARAMS.INVALID", false],
    [401, "E.LLM.REFUSED", false],
  ])("[W1413] an answer %i of the server fails with %s and the server's message", async (status, code, isRetryable) => {
    const server = await startModelServer((response) =>
      answerJson(response, status, { error: { message: "said the server" } }, { "retry-after": "7" }),
    );

    const called = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    expect(errorOf(called)).toMatchObject({ code, isRetryable });
    expect(errorOf(called)).toMatchObject({ message: expect.stringMatching(/said the server; it asks to wait 7000 ms$/) });
    expect(called.outcome["outputs"]).toMatchObject({ httpStatus: status });
    expect(server.requests).toHaveLength(1);
  });

  it("[W1413] a redirect is not followed, so that the key goes nowhere else", async () => {
    const server = await startModelServer((response) => void response.writeHead(307, { location: "/v2/chat/completions" }).end());

    const called = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    expect(errorOf(called)).toMatchObject({
      code: "E.LLM.REFUSED",
      message: expect.stringContaining("redirects to /v2/chat/completions"),
    });
    expect(server.requests).toHaveLength(1);
  });

  it("[W1414] a task that is stopped closes its request, and one out of time fails with E.TIMEOUT", async () => {
    const started = Promise.withResolvers<void>();
    const server = await startModelServer((response) => {
      response.writeHead(200, streamHead).write(tokenEvent("half"), () => started.resolve());
    });
    const controller = new AbortController();
    const params = { baseUrl: server.baseUrl, model: "m", prompt: "x" };

    const stopped = run("chat", params, { signal: controller.signal });
    await started.promise;
    controller.abort(new Error("not wanted"));
    await expect(stopped).rejects.toThrow("not wanted");
    await server.requests[0]?.aborted;
    const late = await run("chat", { ...params, timeoutMs: 50 });
    await server.requests[1]?.aborted;

    expect(errorOf(late)).toMatchObject({ code: "E.TIMEOUT", message: expect.stringContaining("within 50 ms") });
  });

  it("[W1415] a JSON answer is read and compared with its schema; what does not match fails with E.LLM.ANSWER and the text", async () => {
    const schema = {
      type: "object",
      properties: { n: { type: "integer", minimum: 1 } },
      required: ["n"],
      additionalProperties: false,
    };
    const answers = ['{"n": 3}', '{"n": 0}', '{"m": 3}', "three"];
    const server = await startModelServer((response) => answerStream(response, [answers[server.requests.length - 1] ?? ""]));
    const ask = () => run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x", responseFormat: "json", schema });

    const [good, small, other, text] = [await ask(), await ask(), await ask(), await ask()];

    expect(good.outcome).toMatchObject({ json: { n: 3 } });
    expect(server.requests[0]?.body).toMatchObject({ response_format: { type: "json_schema", json_schema: { schema } } });
    expect([small, other, text].map((one) => errorOf(one))).toMatchObject([
      { code: "E.LLM.ANSWER", message: "the answer does not match the schema: the answer.n must be at least 1" },
      { message: "the answer does not match the schema: the answer must have n" },
      { message: expect.stringContaining("the answer is not JSON"), isRetryable: true },
    ]);
    expect(text.outcome["outputs"]).toMatchObject({ text: "three" });
  });

  it("[W1415] the comparison covers types, lists, texts, numbers, alternatives and fields that are not allowed", () => {
    const cases: readonly [object, unknown, string | null][] = [
      [{ type: ["string", "null"] }, null, null],
      [{ type: "integer" }, 1.5, "the answer must be integer"],
      [{ enum: ["a", "b"] }, "c", 'the answer must be one of ["a","b"]'],
      [{ const: { a: 1 } }, { a: 1 }, null],
      [{ items: { type: "string" }, maxItems: 2 }, ["a", 1], "the answer[1] must be string"],
      [{ items: {}, maxItems: 1 }, [1, 2], "the answer has too many items, it may have 1"],
      [{ minLength: 2 }, "🙂", "the answer has too few characters, it needs 2"],
      [{ pattern: "^a" }, "b", "the answer must match ^a"],
      [{ exclusiveMaximum: 3 }, 3, "the answer must be below 3"],
      [{ additionalProperties: false }, { a: 1 }, "the answer.a is not allowed"],
      [{ anyOf: [{ type: "string" }, { type: "number" }] }, true, "the answer matches none of the 2 schemas of anyOf"],
      [{ allOf: [{ type: "object" }, { required: ["a"] }] }, {}, "the answer must have a"],
    ];

    expect(cases.map(([schema, value]) => findMismatch(schema, value))).toEqual(cases.map(([, , problem]) => problem));
  });

  it("[W1416] the key comes from a granted resource: OpenAI's goes to OpenAI alone, and a granted base_url is the only server that is asked", async () => {
    const server = await startModelServer((response) => answerStream(response, ["ok"]));
    const params = { baseUrl: server.baseUrl, model: "m", prompt: "x" };

    await run("chat", params, granted("openai_compatible_api_key", "k-1"));
    await run("chat", params, granted("openai_api_key", "k-2"));
    await run("chat", { ...params, baseUrl: "" }, granted("base_url", `${server.baseUrl}/\n`));
    const elsewhere = await run("chat", params, granted("base_url", "https://models.example/v1"));

    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer k-1", undefined, undefined]);
    expect(errorOf(elsewhere)).toMatchObject({ code: "E.PARAMS.INVALID", message: expect.stringContaining("may only ask") });
  });

  const wrongParameters: readonly (readonly [what: string, node: string, params: JsonObject, message: string])[] = [
    ["a key among the parameters", "chat", { apiKey: "k" }, "apiKey is a parameter, which everybody can read"],
    ["another protocol", "chat", { baseUrl: "file:///etc" }, "http:// or https://"],
    ["a password in the address", "chat", { baseUrl: "http://a:b@c/v1" }, "without user, password"],
    ["no model", "chat", { model: "" }, "model is missing"],
    ["nothing to say", "chat", { prompt: "" }, "there is nothing to say"],
    ["a message without a role", "chat", { messages: [{ content: "x" }] }, "messages[0] needs a role"],
    [
      "a schema that is not checked in full",
      "chat",
      { responseFormat: "json", schema: { not: {} } },
      "schema.not is not supported",
    ],
    ["a schema without JSON", "chat", { schema: { type: "object" } }, "a schema needs responseFormat"],
    ["no time", "chat", { timeoutMs: 0 }, "timeoutMs must be a whole number above 0"],
    ["an empty prompt", "complete", { prompt: "" }, "prompt is empty"],
    ["an empty input", "embed", { input: ["a", ""] }, "none of them empty"],
  ];

  it.each(wrongParameters)(
    "[W1417] %s is refused with E.PARAMS.INVALID before anything is asked",
    async (_, node, params, message) => {
      const server = await startModelServer((response) => answerStream(response, ["ok"]));

      const called = await run(node, { baseUrl: server.baseUrl, model: "m", prompt: "x", ...params });

      expect(errorOf(called)).toMatchObject({
        code: "E.PARAMS.INVALID",
        isRetryable: false,
        message: expect.stringContaining(message),
      });
      expect(server.requests).toEqual([]);
    },
  );

  it("[W1410] an answer ends at its mark, also where the server keeps the connection open", async () => {
    const server = await startModelServer(
      (response) => void response.writeHead(200, streamHead).write(tokenEvent("all") + endEvents),
    );

    const { outcome } = await run("chat", { baseUrl: server.baseUrl, model: "m", prompt: "x" });

    expect(outcome).toMatchObject({ text: "all", done: true });
    await server.requests[0]?.aborted;
  });
});
