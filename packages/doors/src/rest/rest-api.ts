// The REST door without HTTP: a route's name and plain data in, a status and a text out; in front the token, behind one error body.
// Handlers are in the files of their routes; sockets, paths and bodies that trickle in are the business of rest-server.ts.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import {
  type BlobStores,
  type CallerIdentity,
  type CatalogueCache,
  createCatalogueCache,
  createDocumentBlobStore,
  createHeartbeatWatch,
  createRunServices,
  createUserAccounts,
  createVendorFrameRelay,
  createVolatileEvents,
  createWorkflowServices,
  type UserAccounts,
  type VendorFrameRelay,
  type VolatileEvents,
  type WorkerServices,
} from "@astraflow/services";
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
import { userHandlers } from "./users/user-routes.ts";
import { enrolmentHandlers } from "./workers/enrolment-routes.ts";
import { vendorFrameHandlers } from "./workers/vendor-frame-routes.ts";
import { workerHandlers } from "./workers/worker-routes.ts";
import { catalogHandlers } from "./workflows/catalog-routes.ts";
import { workflowHandlers } from "./workflows/workflow-routes.ts";

export interface RestApiOptions extends SystemRoutesOptions, WorkerServices {
  readonly ackDeadlineMs: number;
  readonly authenticate: AuthenticateToken;
  readonly environment: DoorEnvironment;
  /** Fed by the session door. Without it nobody sends: readers wait in vain. */
  readonly extensions?: VendorFrameRelay;
  /** Fed by the session door. Without it heartbeats are found in the workers' rows alone, and there are no frames. */
  readonly volatile?: VolatileEvents;
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
  /** `/metrics` asks for no token; for a scheduler on one's own machine. */
  readonly isMetricsOpen?: boolean;
  /** Who signs in with a password, besides those whom `authenticate` knows. */
  readonly people?: UserAccounts;
  /** What is known of node packages, shared by all routes that check workflows. */
  readonly catalogues?: CatalogueCache;
  /** Where the bytes of resources are kept, by provider; the store alone where it is not given. */
  readonly blobs?: BlobStores;
  /** How workers reach this port. */
  readonly isSecure?: boolean;
}

/** One request, whole. Names of headers are lowercase. */
export interface RestRequest {
  /** The bearer token; null where none was sent. */
  readonly token: string | null;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
  /** The body of routes that take something else than JSON. */
  readonly stream?: AsyncIterable<Buffer>;
  readonly address?: string;
}

export interface RestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Only of routes that go on after their head; whoever does not open it has asked for nothing. */
  readonly stream?: OpenStream;
  /** The body where it is bytes; whoever does not open it has asked for nothing. */
  readonly bytes?: () => AsyncIterable<Uint8Array>;
}

/** A request that was let in, by this token. Its query is not read yet. */
export type AuthorizedRequest = Omit<RestCall, "query" | "isStillAdmitted"> & {
  readonly query: Readonly<Record<string, unknown>>;
  readonly token: string | null;
};

export interface RestApi {
  /** The whole way of one request. Never rejects, and waits for nothing but the engine and the reader. */
  handle(name: RouteName, request: RestRequest): Promise<RestResponse>;
  /** Who asks, if they may; throws the fault. Its own step, because a transport must not read a stranger's body. */
  authorize(name: RouteName, token: string | null): Promise<CallerIdentity>;
  /** Rejects with whatever a handler throws; `refuse` has the words for it. */
  respond(name: RouteName, request: AuthorizedRequest): Promise<RestResponse>;
  errorResponse(problem: unknown, requestId: string): RestResponse;
  /** Ends what goes on by itself. */
  close(): void;
}

const anonymous: CallerIdentity = { tenant: "", user: "", grants: [] };
/** Seconds after which a caller that was told 503 may come back. */
const retryAfter = { "retry-after": "1" };
const json = "application/json; charset=utf-8";

/** What every answer carries, whatever became of the request. */
export const commonHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  "x-request-id": requestId,
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
});

export function createRestApi(options: RestApiOptions): RestApi {
  const { environment } = options;
  const people = options.people ?? createUserAccounts(options);
  const blobs = options.blobs ?? { db: createDocumentBlobStore(options) };
  const catalogues = options.catalogues ?? createCatalogueCache(options);
  const volatile = options.volatile ?? createVolatileEvents();
  const isAlone = options.isAlone === true && options.volatile !== undefined;
  const heartbeatWatch = createHeartbeatWatch({ ...options, volatile, isAlone });
  // What several areas of routes share.
  const shared = { ...options, people, blobs, catalogues };
  const workflows = createWorkflowServices(shared);
  const runs = createRunServices(workflows, options.ackDeadlineMs);
  const routeOptions = shared;
  const shutdownListeners = new Set<() => void>();
  const handlers: Record<RouteName, RouteHandler> = {
    ...runHandlers(runs),
    ...runDetailHandlers(runs),
    ...ledgerHandlers(runs),
    ...runControlHandlers(runs),
    ...deadLetterHandlers(runs),
    ...queueHandlers(runs),
    ...bulkHandlers(runs),
    ...workerHandlers(options),
    ...vendorFrameHandlers(options, options.extensions ?? createVendorFrameRelay({ environment })),
    ...systemHandlers(options),
    ...enrolmentHandlers(options, { ...options, onSignOfLife: heartbeatWatch.reportSignOfLife }),
    ...eventsHandlers({ ...options, volatile, heartbeatWatch, shutdownListeners }),
    ...workflowHandlers(workflows),
    ...catalogHandlers(routeOptions),
    ...userHandlers(routeOptions),
    ...resourceHandlers(routeOptions),
    ...savedViewHandlers(routeOptions),
  };

  const checkToken = (name: RouteName, token: string | null): CallerIdentity | Fault => {
    const { grant, isOpen }: Route = routes[name];
    if (isOpen === true || (name === "getMetrics" && options.isMetricsOpen === true)) return anonymous;
    if (token === null) return fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
    const isToken = token !== "" && token.length <= limits.tokenCharsMax;
    const identity = isToken ? (options.authenticate(token, null) ?? people.authenticate(token)) : null;
    if (identity === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
    const isGranted = grant === undefined || identity.grants.includes(grant);
    return isGranted ? identity : fault("E.AUTH.FORBIDDEN", `this token is not granted ${grant}`);
  };
  const authorize = async (name: RouteName, token: string | null): Promise<CallerIdentity> => {
    if (token !== null) await people.preload(token);
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
    // A crowd that is turned away is no failure of ours, and must not fill the log.
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
      runs.bulk.close();
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
          throw fault("E.REQUEST.TOO_LARGE", "the body is larger than this door takes");
        return withCommonHeaders(await respond(name, { ...rest, token, requestId, identity, header: (of) => headers[of] }));
      } catch (problem) {
        return withCommonHeaders(errorResponse(problem, requestId));
      }
    },
  };
}

const stackOf = (problem: unknown): string => {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem instanceof Fault && problem.cause !== undefined ? `\ncaused by ${stackOf(problem.cause)}` : "";
  return `${problem.stack ?? problem.message}${cause}`;
};
