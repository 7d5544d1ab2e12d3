// The REST API without HTTP: checks the token, calls the handler of the route and turns errors into one kind of body. HTTP itself is in
// rest-server.ts.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import { type CallerIdentity, createServices, type Services, type ServicesOptions } from "@astraflow/services";
import type { AuthenticateToken } from "../auth/token-registry.ts";
import type { DoorEnvironment } from "../environment/door-environment.ts";
import { eventsHandlers } from "./events/event-routes.ts";
import { toErrorResponse } from "./requests/error-response.ts";
import type { OpenStream } from "./requests/event-stream.ts";
import { type RestCall, type RouteHandler, readParams, readQuery } from "./requests/rest-call.ts";
import { resourceHandlers } from "./resources/resource-routes.ts";
import { bulkHandlers } from "./runs/bulk-routes.ts";
import { deadLetterHandlers } from "./runs/dead-letter-routes.ts";
import { ledgerHandlers } from "./runs/ledger-routes.ts";
import { queueHandlers } from "./runs/queue-routes.ts";
import { runControlHandlers } from "./runs/run-control-routes.ts";
import { runDetailHandlers } from "./runs/run-detail-routes.ts";
import { runHandlers } from "./runs/run-routes.ts";
import { savedViewHandlers } from "./saved-views/saved-view-routes.ts";
import { type SystemRoutesOptions, systemHandlers } from "./system/system-routes.ts";
import { auditHandlers } from "./users/audit-routes.ts";
import { userHandlers } from "./users/user-routes.ts";
import { enrolmentHandlers } from "./workers/enrolment-routes.ts";
import { vendorFrameHandlers } from "./workers/vendor-frame-routes.ts";
import { workerHandlers } from "./workers/worker-routes.ts";
import { catalogHandlers } from "./workflows/catalog-routes.ts";
import { workflowHandlers } from "./workflows/workflow-routes.ts";

export interface RestApiOptions extends ServicesOptions, SystemRoutesOptions {
  readonly authenticate: AuthenticateToken;
  readonly environment: DoorEnvironment;
  /** `/metrics` needs no token; for a scheduler on one's own machine. */
  readonly isMetricsOpen?: boolean;
  /** Workers reach this port over TLS. */
  readonly isSecure?: boolean;
}

/** One request. Names of headers are lowercase. */
export interface RestRequest {
  /** The bearer token; null where none was sent. */
  readonly token: string | null;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
  /** The body of routes that accept something else than JSON. */
  readonly stream?: AsyncIterable<Buffer>;
  readonly address?: string;
}

export interface RestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Only of routes whose answer goes on after its head; nothing is read before it is opened. */
  readonly stream?: OpenStream;
  /** The body if it is bytes; nothing is read before it is opened. */
  readonly bytes?: () => AsyncIterable<Uint8Array>;
}

/** A request whose token was accepted. Its query is not read yet. */
export type AuthorizedRequest = Omit<RestCall, "query" | "isStillAdmitted"> & {
  readonly query: Readonly<Record<string, unknown>>;
  readonly token: string | null;
};

export interface RestApi {
  /** Handles one request completely. Never rejects, and waits for nothing but the engine and the reader. */
  handle(name: RouteName, request: RestRequest): Promise<RestResponse>;
  /** The caller, or throws the fault. A step of its own, so that the body of an unauthorized request is not read. */
  authorize(name: RouteName, token: string | null): Promise<CallerIdentity>;
  /** Rejects with whatever a handler throws; `errorResponse` turns it into an answer. */
  respond(name: RouteName, request: AuthorizedRequest): Promise<RestResponse>;
  errorResponse(problem: unknown, requestId: string): RestResponse;
  /** Ends open streams and background work. */
  close(): void;
}

const anonymous: CallerIdentity = { tenant: "", user: "", grants: [] };
/** Seconds after which a caller may retry after a 503. */
const retryAfter = { "retry-after": "1" };
const json = "application/json; charset=utf-8";

/** Headers of every answer. */
export const commonHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  "x-request-id": requestId,
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
});

export function createRestApi(options: RestApiOptions, services: Services = createServices(options)): RestApi {
  const { environment } = options;
  const { users } = services;
  const shutdownListeners = new Set<() => void>();
  const handlers = routeHandlers(options, services, shutdownListeners);

  const checkToken = (name: RouteName, token: string | null): CallerIdentity | Fault => {
    const { grant, isOpen }: Route = routes[name];
    if (isOpen === true || (name === "getMetrics" && options.isMetricsOpen === true)) return anonymous;
    if (token === null) return fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
    const isToken = token !== "" && token.length <= limits.tokenCharsMax;
    const identity = isToken ? (options.authenticate(token, null) ?? users.authenticate(token)) : null;
    if (identity === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
    const isGranted = grant === undefined || identity.grants.includes(grant);
    return isGranted ? identity : fault("E.AUTH.FORBIDDEN", `this token is not granted ${grant}`);
  };
  const authorize = async (name: RouteName, token: string | null): Promise<CallerIdentity> => {
    if (token !== null) await users.preload(token);
    const authorized = checkToken(name, token);
    if (authorized instanceof Fault) throw authorized;
    return authorized;
  };

  const respond = async (name: RouteName, request: AuthorizedRequest): Promise<RestResponse> => {
    const route: Route = routes[name];
    const { requestId, identity, body: asked, token } = request;
    const params = readParams(request.params);
    const query = readQuery(route, request.query);
    const reply = await handlers[name]({
      requestId,
      identity,
      params,
      query,
      header: (of) => request.header(of),
      body: asked,
      ...(request.stream !== undefined && { stream: request.stream }),
      ...(request.address !== undefined && { address: request.address }),
      isStillAdmitted: (grant) => {
        const authorized = checkToken(name, token);
        return !(authorized instanceof Fault) && (grant === undefined || authorized.grants.includes(grant));
      },
    });
    const body = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body);
    const status = reply.status ?? route.status;
    const headers = { ...reply.headers, "content-type": reply.media ?? json, ...(status === 503 && retryAfter) };
    const { stream, bytes } = reply;
    return { status, headers, body, ...(stream !== undefined && { stream }), ...(bytes !== undefined && { bytes }) };
  };

  const errorResponse = (problem: unknown, requestId: string): RestResponse => {
    const { status, body } = toErrorResponse(problem, requestId);
    const waitMs = body.details?.["retryAfterMs"];
    // Rejections under load are no failures and must not fill the log.
    if (status >= 500 && body.error !== "E.OVERLOADED")
      environment.log({ level: "error", event: "rest.failed", requestId, code: body.error, problem: stackOf(problem) });
    const headers = {
      "content-type": json,
      ...(status === 401 && { "www-authenticate": "Bearer" }),
      ...(status === 503 && retryAfter),
      ...(typeof waitMs === "number" && { "retry-after": String(Math.ceil(waitMs / 1_000)) }),
    };
    return { status, headers, body: JSON.stringify(body) };
  };

  return {
    authorize,
    respond,
    errorResponse,
    close() {
      services.close();
      for (const closeStream of [...shutdownListeners]) closeStream();
    },
    async handle(name, { token, headers, ...rest }) {
      const requestId = environment.ids.next();
      const withCommonHeaders = (response: RestResponse): RestResponse => ({
        ...response,
        headers: { ...commonHeaders(requestId), ...response.headers },
      });
      try {
        const identity = await authorize(name, token);
        if (rest.body !== null && rest.body.length > limits.requestBytesMax)
          throw fault("E.REQUEST.TOO_LARGE", `the request body is too large (limit ${limits.requestBytesMax} bytes)`);
        return withCommonHeaders(await respond(name, { ...rest, token, requestId, identity, header: (of) => headers[of] }));
      } catch (problem) {
        return withCommonHeaders(errorResponse(problem, requestId));
      }
    },
  };
}

function routeHandlers(
  options: RestApiOptions,
  services: Services,
  shutdownListeners: Set<() => void>,
): Record<RouteName, RouteHandler> {
  const { runs, workflows, workers, heartbeatWatch, volatileEvents: volatile } = services;
  return {
    ...runHandlers(runs),
    ...runDetailHandlers(runs),
    ...runControlHandlers(runs),
    ...deadLetterHandlers(runs),
    ...queueHandlers(runs),
    ...bulkHandlers(runs),
    ...ledgerHandlers(runs),
    ...workflowHandlers(workflows),
    ...catalogHandlers(services),
    ...workerHandlers(workers),
    ...enrolmentHandlers(workers, { ...options, onSignOfLife: heartbeatWatch.reportSignOfLife }),
    ...vendorFrameHandlers(workers, services.vendorFrames),
    ...eventsHandlers({ ...options, volatile, heartbeatWatch, shutdownListeners }),
    ...userHandlers(services.userChanges),
    ...auditHandlers(options),
    ...resourceHandlers(services),
    ...savedViewHandlers(services.savedViews),
    ...systemHandlers(options),
  };
}

const stackOf = (problem: unknown): string => {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem instanceof Fault && problem.cause !== undefined ? `\ncaused by ${stackOf(problem.cause)}` : "";
  return `${problem.stack ?? problem.message}${cause}`;
};
