// Reads an answer: server-sent events, in whatever pieces their bytes arrive, or one JSON document from a server that does not stream.

import { LlmFailure } from "./failure.ts";
import { brokenRequest, type Endpoint } from "./request.ts";

/** One event of an answer; what it says beside its text. */
export interface AnswerPiece {
  readonly text?: string;
  readonly model?: string;
  readonly finishReason?: string;
  readonly usage?: Readonly<Record<string, number>>;
}

const answerCharsMax = 4 * 1024 * 1024;
const doneMark = "[DONE]";

export async function* readAnswer(response: Response, endpoint: Endpoint): AsyncGenerator<AnswerPiece> {
  const isStream = response.headers.get("content-type")?.includes("text/event-stream") === true;
  if (!isStream) {
    yield await readWholeAnswer(response, endpoint);
    return;
  }
  let isComplete = false;
  let chars = 0;
  for await (const data of readEvents(response, endpoint)) {
    if (data === doneMark) return;
    chars += data.length;
    if (chars > answerCharsMax) throw new LlmFailure("E.LLM.ANSWER", `the answer is longer than ${answerCharsMax} characters`);
    const piece = readPiece(parseEvent(data));
    if (piece.finishReason !== undefined) isComplete = true;
    yield piece;
  }
  // Some servers leave out the mark; without it and without a reason the answer broke off.
  if (!isComplete) throw new LlmFailure("E.LLM.UNAVAILABLE", `${endpoint.url} ended its stream before the answer was complete`);
}

async function readWholeAnswer(response: Response, endpoint: Endpoint): Promise<AnswerPiece> {
  const piece = readPiece((await readDocument(response, endpoint, answerCharsMax)) as AnswerEvent);
  // A web page or another service may answer 200 as well.
  if (piece.text === undefined)
    throw new LlmFailure("E.LLM.ANSWER", `what ${endpoint.url} answered has no text; is baseUrl right?`);
  return piece;
}

/** An answer that is one JSON document. */
export async function readDocument(response: Response, endpoint: Endpoint, charsMax: number): Promise<object> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of readBytes(response, endpoint)) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > charsMax) throw new LlmFailure("E.LLM.ANSWER", `the answer is longer than ${charsMax} characters`);
  }
  return parseEvent(text + decoder.decode());
}

/** The data of each event. Lines end with \n, \r\n or \r; an empty line ends an event; several data lines are one text; the rest is not ours. */
async function* readEvents(response: Response, endpoint: Endpoint): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of readLines(response, endpoint)) {
    if (line === "") {
      if (data.length > 0) yield data.join("\n");
      data = [];
    } else if (line.startsWith("data:")) {
      data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
  // The last event of a server that closes without an empty line.
  if (data.length > 0) yield data.join("\n");
}

async function* readLines(response: Response, endpoint: Endpoint): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of readBytes(response, endpoint)) {
    rest += decoder.decode(bytes, { stream: true });
    // A \r at the end may be the first half of \r\n: it waits for the next bytes.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    if (rest.length > answerCharsMax)
      throw new LlmFailure("E.LLM.ANSWER", `a line of the answer is longer than ${answerCharsMax} characters`);
    yield* lines;
  }
  rest += decoder.decode();
  yield* rest.replace(/\r$/, "").split(/\r\n|\n|\r/);
}

async function* readBytes({ body }: Response, endpoint: Endpoint): AsyncGenerator<Uint8Array> {
  try {
    for await (const bytes of body ?? []) yield bytes;
  } catch (problem) {
    throw brokenRequest(endpoint, problem);
  }
}

interface AnswerEvent {
  readonly error?: { readonly message?: string } | string;
  readonly model?: string;
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: { readonly content?: string | null };
    readonly message?: { readonly content?: string | null };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly total_tokens?: number;
  } | null;
}

function parseEvent(data: string): AnswerEvent {
  try {
    const event: unknown = JSON.parse(data);
    if (typeof event === "object" && event !== null) return event;
  } catch (cause) {
    throw new LlmFailure("E.LLM.UNAVAILABLE", `the server sent what is no JSON: ${data.slice(0, 200)}`, {}, cause);
  }
  throw new LlmFailure("E.LLM.UNAVAILABLE", `the server sent what is no answer: ${data.slice(0, 200)}`);
}

function readPiece({ error, model, choices, usage }: AnswerEvent): AnswerPiece {
  if (error !== undefined && error !== null) {
    const said = typeof error === "string" ? error : (error.message ?? JSON.stringify(error));
    throw new LlmFailure("E.LLM.UNAVAILABLE", `the server broke off its answer: ${said}`);
  }
  const [choice] = choices ?? [];
  const text = choice?.delta?.content ?? choice?.message?.content ?? choice?.text;
  return {
    ...(typeof text === "string" && { text }),
    ...(typeof model === "string" && { model }),
    ...(typeof choice?.finish_reason === "string" && { finishReason: choice.finish_reason }),
    ...(usage !== undefined && usage !== null && { usage: readUsage(usage) }),
  };
}

const readUsage = (usage: NonNullable<AnswerEvent["usage"]>): Record<string, number> => ({
  promptTokens: usage.prompt_tokens ?? 0,
  completionTokens: usage.completion_tokens ?? 0,
  totalTokens: usage.total_tokens ?? (usage.prompt_tokens ?? 0) + (usage.completion_tokens ?? 0),
});
