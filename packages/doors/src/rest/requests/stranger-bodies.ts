// Bodies of callers that are not authenticated: they end after a few seconds, however slowly their bytes trickle in. The HTTP server limits how
// long headers and the bodies of other callers may take.

import { fault, faultCodes } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import type { FastifyReply, FastifyRequest } from "fastify";
import { toErrorResponse } from "./error-response.ts";
import { restLimits } from "./rest-call.ts";

/** Ends the connection if the rest of the body does not arrive in time, also where the answer has left already. */
export function limitStrangerBody(request: FastifyRequest, reply: FastifyReply, { timers }: ServiceEnvironment): void {
  const { raw } = request;
  if (!hasBody(request) || raw.complete) return;
  const cancel = timers.after(restLimits.strangerBodyMs, () => endConnection(request, reply));
  raw.once("end", cancel);
  raw.socket.once("close", cancel);
  raw.once("end", () => raw.socket.off("close", cancel));
}

const hasBody = ({ headers }: FastifyRequest): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

function endConnection(request: FastifyRequest, reply: FastifyReply): void {
  const { socket } = request.raw;
  if (reply.raw.headersSent) return void socket.destroy();
  reply.hijack();
  const why = fault("E.REQUEST.TIMEOUT", "the body did not arrive in time");
  const body = JSON.stringify(toErrorResponse(why, request.id).body);
  const common = reply.getHeaders() as Readonly<Record<string, string>>;
  const headers = { ...common, connection: "close", "content-type": "application/json; charset=utf-8" };
  reply.raw.writeHead(faultCodes[why.code].http, headers).end(body, () => socket.destroy());
}
