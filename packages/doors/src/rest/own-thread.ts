// Requests that would hold the thread of all callers for long: those with a large body, those about large documents, and checks that take many
// steps. Where the app provides a thread for them, they are carried out there, whole, from the bytes of the body to the text of the answer.

import type { RouteName } from "@astraflow/protocol";
import type { ApplyBulkChange } from "@astraflow/services";
import type { AuthorizedRequest } from "./requests/rest-call.ts";
import type { RestResponse } from "./rest-api.ts";

/** An authorized request as plain data, so that it can be sent to a thread. */
export interface ForwardedRequest extends Pick<AuthorizedRequest, "requestId" | "identity" | "params" | "query"> {
  readonly route: RouteName;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
}

export interface OwnThread {
  /** Rejects with the fault of the request, or with E.OVERLOADED where too many wait. */
  respond(request: ForwardedRequest): Promise<RestResponse>;
  /** One step of a bulk change. */
  changeRun: ApplyBulkChange;
}

/** What is read in place: reading and checking so much takes some milliseconds. */
export const inPlaceBytesMax = 64 * 1024;

/** These read several documents or all tasks of a run, or they look for problems after they have changed something. */
const alwaysMovedRoutes: ReadonlySet<RouteName> = new Set<RouteName>([
  "listWorkflows",
  "listVersions",
  "diffWorkflow",
  "exportWorkflow",
  "importWorkflow",
  "editDraft",
  "getRunDefinition",
  "retryRun",
  "replayRun",
  "requeueDeadLetter",
]);

/** Whether a request begins elsewhere at once. Others begin in place, and begin again elsewhere where they meet something large. */
export const isMovedAtOnce = (route: RouteName, body: Buffer | null): boolean =>
  alwaysMovedRoutes.has(route) || (body?.length ?? 0) > inPlaceBytesMax;

/** Headers that handlers of these routes read. */
const forwardedHeaders = ["content-type", "idempotency-key", "if-match", "if-none-match"] as const;

export function toForwardedRequest(route: RouteName, request: AuthorizedRequest): ForwardedRequest {
  const { requestId, identity, params, query, body } = request;
  const headers = forwardedHeaders.flatMap((name) => {
    const value = request.header(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return { route, requestId, identity, params, query, headers: Object.fromEntries(headers), body };
}

/** The other way round, on the thread. */
export function toAuthorizedRequest({ headers, body, ...request }: ForwardedRequest): AuthorizedRequest {
  const bytes = body === null ? null : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return { ...request, token: null, header: (name) => headers[name], body: bytes };
}
