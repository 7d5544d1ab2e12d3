// Nodes that ask a language model behind any endpoint that speaks as OpenAI's does: chat, completion, embeddings. Answers are streamed: each
// piece is a chunk on the channel `llm`, and the text so far is the result `text` to look at.

import type { HandlerContext } from "@astraflow/sdk";
import { type AnswerPiece, readAnswer, readDocument } from "./answer.ts";
import { LlmFailure, reportFailure } from "./failure.ts";
import { checkSchema, findMismatch } from "./json-schema.ts";
import { type Endpoint, postJson, readEndpoint } from "./request.ts";

type Params = HandlerContext["params"];

/** The text so far is sent as a whole, so not with every piece: long answers would cost the square of their length. */
const resultIntervalMs = 100;
const inputsMax = 2_048;
const embeddingCharsMax = 128 * 1024 * 1024;

export function chat(ctx: HandlerContext): Promise<unknown> {
  return reportFailure(async () => {
    const endpoint = readEndpoint(ctx, "chat/completions");
    const schema = readAnswerSchema(ctx.params);
    const body = { messages: readMessages(ctx.params), ...commonFields(ctx.params), ...responseFormat(ctx.params, schema) };
    return streamAnswer(ctx, endpoint, body, schema);
  });
}

export function complete(ctx: HandlerContext): Promise<unknown> {
  return reportFailure(async () => {
    const endpoint = readEndpoint(ctx, "completions");
    const prompt = readText(ctx.params, "prompt");
    if (prompt === "") throw new LlmFailure("E.PARAMS.INVALID", "prompt is empty; say what is to be completed");
    const system = readText(ctx.params, "system");
    return streamAnswer(ctx, endpoint, {
      prompt: system === "" ? prompt : `${system}\n\n${prompt}`,
      ...commonFields(ctx.params),
    });
  });
}

export function embed(ctx: HandlerContext): Promise<unknown> {
  return reportFailure(async () => {
    const { params, feedback } = ctx;
    const endpoint = readEndpoint(ctx, "embeddings");
    const input = Array.isArray(params["input"]) ? params["input"].map(String) : [readText(params, "input")];
    if (input.length > inputsMax || input.some((text) => text === ""))
      throw new LlmFailure("E.PARAMS.INVALID", `input must be a text or up to ${inputsMax} texts, none of them empty`);
    const dimensions = readNumber(params, "dimensions");
    const body = { model: readModel(params), input, ...(dimensions !== undefined && { dimensions }) };
    const answer = (await readDocument(await postJson(endpoint, body), endpoint, embeddingCharsMax)) as EmbeddingAnswer;
    const embeddings = readEmbeddings(answer, input.length);
    const usage = { promptTokens: answer.usage?.prompt_tokens ?? 0, totalTokens: answer.usage?.total_tokens ?? 0 };
    feedback.send({ stage: "done", progress: 1, metrics: usage });
    const [embedding = []] = embeddings;
    return {
      embedding,
      embeddings,
      count: embeddings.length,
      dimensions: embedding.length,
      model: answer.model ?? body.model,
      usage,
    };
  });
}

interface EmbeddingAnswer {
  readonly data?: readonly { readonly index?: number; readonly embedding?: readonly number[] }[];
  readonly model?: string;
  readonly usage?: { readonly prompt_tokens?: number; readonly total_tokens?: number };
}

/** In the order of the inputs, in whatever order they came. */
function readEmbeddings({ data }: EmbeddingAnswer, count: number): (readonly number[])[] {
  const found = (Array.isArray(data) ? data : []) as NonNullable<EmbeddingAnswer["data"]>;
  const sorted = found.map((one, at) => ({ at: one.index ?? at, vector: one.embedding })).sort((a, b) => a.at - b.at);
  const vectors = sorted.flatMap(({ vector }) => (Array.isArray(vector) ? [vector as readonly number[]] : []));
  if (vectors.length !== count)
    throw new LlmFailure("E.LLM.ANSWER", `the server sent ${vectors.length} embeddings for ${count} inputs`);
  return vectors;
}

async function streamAnswer(ctx: HandlerContext, endpoint: Endpoint, body: Params, schema?: unknown): Promise<Params> {
  const { params, feedback } = ctx;
  const startedAt = performance.now();
  const isStreamed = params["stream"] !== false;
  const streaming = isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
  feedback.send({ stage: "waiting", message: `asking ${String(body["model"])} at ${endpoint.url}` });
  const response = await postJson(endpoint, { ...body, ...streaming });
  const end = {
    text: "",
    pieces: 0,
    shownAt: 0,
    firstTokenMs: 0,
    finishReason: null as string | null,
    model: body["model"],
    usage: {},
  };
  for await (const piece of readAnswer(response, endpoint)) {
    if (piece.model !== undefined) end.model = piece.model;
    if (piece.finishReason !== undefined) end.finishReason = piece.finishReason;
    if (piece.usage !== undefined) end.usage = piece.usage;
    if (piece.text === undefined || piece.text === "") continue;
    end.text += piece.text;
    if (end.pieces++ === 0) end.firstTokenMs = Math.round(performance.now() - startedAt);
    const isShown = performance.now() - end.shownAt >= resultIntervalMs;
    if (isShown) end.shownAt = performance.now();
    showPiece(ctx, piece, end.pieces, isShown ? end.text : undefined);
  }
  const durationMs = Math.round(performance.now() - startedAt);
  const metrics = { ...end.usage, durationMs, firstTokenMs: end.firstTokenMs };
  feedback.send({ stage: "done", progress: 1, metrics, metadata: { results: { text: end.text } } });
  const { text, finishReason, model, usage } = end;
  const result = { text, finishReason, model: String(model), usage, done: true };
  return params["responseFormat"] === "json" ? { ...result, json: readJsonAnswer(text, finishReason, schema) } : result;
}

function showPiece({ feedback }: HandlerContext, { text = "" }: AnswerPiece, pieces: number, soFar: string | undefined): void {
  feedback.send({
    stage: "streaming",
    chunks: [{ channel: "llm", text }],
    metrics: { pieces },
    ...(soFar !== undefined && { metadata: { results: { text: soFar } } }),
  });
}

function readJsonAnswer(text: string, finishReason: string | null, schema: unknown): Params[string] {
  const about = finishReason === "length" ? "; it was cut off at maxTokens" : "";
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new LlmFailure("E.LLM.ANSWER", `the answer is not JSON (${(cause as Error).message})${about}`, { text, finishReason });
  }
  const problem = schema === undefined ? null : findMismatch(schema, value);
  if (problem !== null)
    throw new LlmFailure("E.LLM.ANSWER", `the answer does not match the schema: ${problem}`, { text, finishReason });
  return value as Params[string];
}

/** The fields that chat and completion share. */
function commonFields(params: Params): Params {
  const stop = params["stop"];
  const fields = {
    model: readModel(params),
    temperature: readNumber(params, "temperature"),
    top_p: readNumber(params, "topP"),
    max_tokens: readNumber(params, "maxTokens"),
    stop: Array.isArray(stop) ? (stop.length === 0 ? undefined : stop.map(String)) : readText(params, "stop") || undefined,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Params;
}

function responseFormat(params: Params, schema: unknown): Params {
  const format = params["responseFormat"] ?? "text";
  if (format === "text") return {};
  if (format !== "json") throw new LlmFailure("E.PARAMS.INVALID", `responseFormat must be text or json, not ${String(format)}`);
  if (schema === undefined) return { response_format: { type: "json_object" } };
  return { response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } } as unknown as Params;
}

function readAnswerSchema({ schema, responseFormat: format }: Params): unknown {
  if (schema === undefined || schema === null || (typeof schema === "object" && Object.keys(schema).length === 0))
    return undefined;
  const problem = format === "json" ? checkSchema(schema) : 'a schema needs responseFormat "json"';
  if (problem !== null) throw new LlmFailure("E.PARAMS.INVALID", `schema: ${problem}`);
  return schema;
}

const roles: ReadonlySet<unknown> = new Set(["system", "developer", "user", "assistant"]);

/** `messages` as they are, with `system` before them and `prompt` after them. */
function readMessages(params: Params): Params[string] {
  const given = params["messages"] ?? [];
  if (!Array.isArray(given)) throw new LlmFailure("E.PARAMS.INVALID", "messages must be a list of {role, content}");
  for (const [at, message] of given.entries()) {
    const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown };
    if (!roles.has(role) || (typeof content !== "string" && !Array.isArray(content)))
      throw new LlmFailure("E.PARAMS.INVALID", `messages[${at}] needs a role (${[...roles].join(", ")}) and its content`);
  }
  const [system, prompt] = [readText(params, "system"), readText(params, "prompt")];
  const messages = [
    ...(system === "" ? [] : [{ role: "system", content: system }]),
    ...given,
    ...(prompt === "" ? [] : [{ role: "user", content: prompt }]),
  ];
  if (messages.length === 0) throw new LlmFailure("E.PARAMS.INVALID", "there is nothing to say: set prompt or messages");
  return messages;
}

function readModel(params: Params): string {
  const model = readText(params, "model");
  if (model === "") throw new LlmFailure("E.PARAMS.INVALID", "model is missing; name one that the server has");
  return model;
}

function readText(params: Params, name: string): string {
  const value = params[name] ?? "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function readNumber(params: Params, name: string): number | undefined {
  const value = params[name];
  if (value === undefined || value === null || value === "") return undefined;
  const read = Number(value);
  if (!Number.isFinite(read)) throw new LlmFailure("E.PARAMS.INVALID", `${name} must be a number`);
  return read;
}
