// Every error of the REST API as one body with a stable code. Stacks, statements and paths stay in the log, under the request id.

import {
  type ErrorBody,
  Fault,
  type FaultCode,
  fault,
  faultCodes,
  omitUndefined,
  type Route,
  routes,
  tailParameter,
} from "@astraflow/protocol";
import { toPublicFault } from "../../engine-client/public-fault.ts";

const methodsByPattern: ReadonlyMap<readonly string[], readonly string[]> = new Map(
  [...Map.groupBy(Object.values<Route>(routes), ({ path }) => path)].map(([path, ofPath]) => [
    path.split("/"),
    ofPath.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method])),
  ]),
);

export function toErrorResponse(problem: unknown, requestId: string): { readonly status: number; readonly body: ErrorBody } {
  const why = problem instanceof Fault ? problem : faultFromLibraryError(problem);
  const { code, message, details } = toPublicFault(why);
  const shownDetails = details as ErrorBody["details"];
  const body = omitUndefined({ error: code, message: sanitizeMessage(message), requestId, details: shownDetails });
  return { status: faultCodes[code].http, body };
}

const messageCharsMax = 400;

/** Messages repeat names that a caller sent: no control characters, and not too long. */
function sanitizeMessage(message: string): string {
  const plain = message.replaceAll(/[\u0000-\u001f\u007f]/g, "?");
  return plain.length <= messageCharsMax ? plain : `${plain.slice(0, messageCharsMax - 1)}…`;
}

const faultsByLibraryCode: Readonly<Record<string, readonly [FaultCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ["E.REQUEST.TOO_LARGE", "the request body is too large"],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ["E.REQUEST.MEDIA", "send the body as application/json"],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ["E.REQUEST.INVALID", "the body is not as long as Content-Length says"],
  FST_ERR_BAD_URL: ["E.REQUEST.INVALID", "the address is not well formed"],
};

/** Errors of the HTTP library; anything else is a bug of ours, and its text stays in the log. */
function faultFromLibraryError(problem: unknown): Fault {
  const { code, statusCode } = (problem ?? {}) as { code?: unknown; statusCode?: unknown };
  const known = typeof code === "string" ? faultsByLibraryCode[code] : undefined;
  if (known !== undefined) return fault(known[0], known[1]);
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500)
    return fault("E.REQUEST.INVALID", "the request is not well formed");
  return fault("E.INTERNAL", "an unexpected error", undefined, problem);
}

/** Methods that a path answers, as in `Allow`; empty when there is no such path. Where GET is answered, HEAD is too. */
export function methodsOfPath(path: string): readonly string[] {
  const asked = path.split("/");
  const matching = [...methodsByPattern].filter(([pattern]) => {
    const hasTail = pattern.at(-1) === `{${tailParameter}}`;
    const isLong = hasTail ? asked.length >= pattern.length : asked.length === pattern.length;
    return isLong && pattern.every((part, index) => part.startsWith("{") || part === asked[index]);
  });
  // A path that is written out, such as runs/bulk, is not that of a run with the id bulk.
  matching.sort(([a], [b]) => compareParameters(a, b));
  return matching[0]?.[1] ?? [];
}

/** Paths without parameters, each with its methods: they hide what a pattern would make of them. */
export const methodsOfWrittenPaths: ReadonlyMap<string, readonly string[]> = new Map(
  Object.values<Route>(routes)
    .filter(({ path }) => !path.includes("{"))
    .map(({ path }) => [path, methodsOfPath(path)]),
);

/** The path whose first difference is written out comes first. */
function compareParameters(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((part, index) => part.startsWith("{") !== b[index]?.startsWith("{"));
  return at === -1 ? 0 : a[at]?.startsWith("{") ? 1 : -1;
}
