// Requests that the HTTP parser gives up on, before there is a route: too large a head, too slow, or no HTTP. They get the same error body as any other.

import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Server as TlsServer } from "node:https";
import type { Duplex } from "node:stream";
import { type Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import { toErrorResponse } from "./error-response.ts";

/** How long the rest of such a request is read and dropped: a socket that is closed with unread bytes is reset, and the answer with it. */
const discardMs = 2_000;

const faultsByParserCode: Readonly<Record<string, () => Fault>> = {
  HPE_HEADER_OVERFLOW: () => fault("E.REQUEST.HEAD_TOO_LARGE", "the address and the headers together are larger than 16 KiB"),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: () => fault("E.REQUEST.TOO_LARGE", "the extensions of a chunk are too large"),
  ERR_HTTP_REQUEST_TIMEOUT: () => fault("E.REQUEST.TIMEOUT", "the request did not arrive completely in the time allowed"),
};

export function answerUnreadableRequests(server: Server | TlsServer, environment: ServiceEnvironment): void {
  const responses = new WeakMap<Duplex, ServerResponse>();
  const answered = new WeakSet<Duplex>();
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => void responses.set(socket, response));
  server.on("clientError", ({ code = "" }: NodeJS.ErrnoException, socket: Duplex) => {
    // What is still read of a request that was answered is unreadable too.
    if (answered.has(socket)) return;
    answered.add(socket);
    const begun = responses.get(socket);
    const isOurTurn = begun === undefined || begun.writableFinished || !begun.headersSent;
    if (!socket.writable || code === "ECONNRESET" || !isOurTurn) return void socket.destroy();
    const why = faultsByParserCode[code]?.() ?? fault("E.REQUEST.INVALID", "the request is not well-formed HTTP");
    socket.end(writeErrorResponse(why, environment.ids.next()));
    socket.on("data", () => undefined);
    const cancelDestroy = environment.timers.after(discardMs, () => socket.destroy());
    socket.once("close", cancelDestroy);
  });
}

function writeErrorResponse(why: Fault, requestId: string): string {
  const { status, body } = toErrorResponse(why, requestId);
  const text = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}`,
    "Connection: close",
    "Cache-Control: no-store",
    `X-Request-Id: ${requestId}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${text}`;
}
