// A server that speaks as OpenAI's does, for the tests of the package `llm`: it records what it was asked and answers as the test says.

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";

export interface ModelRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
  /** Resolves once the caller has closed the connection before the answer was complete. */
  readonly aborted: Promise<void>;
}

export interface ModelServer {
  readonly baseUrl: string;
  readonly requests: readonly ModelRequest[];
  close(): Promise<void>;
}

type AnswerRequest = (response: ServerResponse, request: ModelRequest) => void | Promise<void>;

const running = new Set<ModelServer>();
afterEach(async () => {
  for (const server of [...running]) await server.close();
});

export async function startModelServer(answer: AnswerRequest): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Uint8Array[] = [];
    for await (const part of request) parts.push(part as Uint8Array);
    const aborted = new Promise<void>((resolve) => response.once("close", () => response.writableFinished || resolve()));
    const body = JSON.parse(Buffer.concat(parts).toString("utf8")) as ModelRequest["body"];
    const read = { path: request.url ?? "", headers: request.headers, body, aborted };
    requests.push(read);
    await answer(response, read);
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((problem: unknown) => response.destroy(problem as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const started: ModelServer = {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    close: () => {
      running.delete(started);
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  running.add(started);
  return started;
}

export const eventOf = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
export const tokenEvent = (content: string): string => eventOf({ model: "m-1", choices: [{ index: 0, delta: { content } }] });
export const endEvents =
  eventOf({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
  eventOf({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 } }) +
  eventOf("[DONE]");

export const streamHead = { "content-type": "text/event-stream; charset=utf-8" };

/** The tokens of a text, as events. */
export function answerStream(response: ServerResponse, tokens: readonly string[]): void {
  response.writeHead(200, streamHead).end(tokens.map(tokenEvent).join("") + endEvents);
}

export function answerJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}
