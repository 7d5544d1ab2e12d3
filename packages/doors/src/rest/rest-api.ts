// The REST API without HTTP: checks the token, calls the handler of the route and turns errors into one kind of body.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import {
  type CallerIdentity,
  createServices,
  missingPermissionMessage,
  NeedsOwnThread,
  type Services,
  type ServicesOptions,
} from "@astraflow/services";
import type { AuthenticateToken } from "../auth/token-registry.ts";
import { eventsHandlers } from "./events/event-routes.ts";
import { isMovedAtOnce, type OwnThread, toForwardedRequest } from "./own-thread.ts";
import { packageFleetHandlers } from "./packages/fleet-routes.ts";
import { packageHandlers } from "./packages/package-routes.ts";
import { toErrorResponse } from "./requests/error-response.ts";
import { RefusalLog } from "./requests/refusal-log.ts";
import { type AuthorizedRequest, RestCall, type RestReply, type RouteHandler, throwIfFault } from "./requests/rest-call.ts";
import { StreamBudget, type StreamBudgetLimits } from "./requests/stream-budget.ts";
import { resourceHandlers } from "./resources/resource-routes.ts";
import { bulkHandlers, deadLetterHandlers, runControlHandlers } from "./runs/run-control-routes.ts";
import { runDetailHandlers } from "./runs/run-detail-routes.ts";
import { runHandlers } from "./runs/run-routes.ts";
import { savedViewHandlers } from "./saved-views/saved-view-routes.ts";
import { type SystemRoutesOptions, systemHandlers } from "./system/system-routes.ts";
import { auditHandlers, userHandlers } from "./users/user-routes.ts";
import { vendorFrameHandlers } from "./workers/vendor-frame-routes.ts";
import { enrolmentHandlers, workerHandlers } from "./workers/worker-routes.ts";
import { workflowHandlers } from "./workflows/workflow-routes.ts";

export interface RestApiOptions extends ServicesOptions, SystemRoutesOptions {
  readonly authenticate: AuthenticateToken;
  /** `/metrics` needs no token; for a scheduler on one's own machine. */
  readonly isMetricsOpen?: boolean;
  /** What readers of streams may cost together, where it differs from the usual. */
  readonly streamLimits?: Partial<StreamBudgetLimits>;
  /** Workers reach this port over TLS. */
  readonly isSecure?: boolean;
  /** Where long requests are carried out, together with `inPlace`, which says what is long; absent: here. */
  readonly ownThread?: OwnThread;
}

/** A request whose token is not checked yet. Names of headers are lowercase. */
export interface RestRequest extends Omit<AuthorizedRequest, "requestId" | "identity" | "header"> {
  readonly headers: Readonly<Record<string, string>>;
}

/** As handlers reply, with the body as text. A stream or bytes are read only once they are opened. */
export interface RestResponse extends Pick<RestReply, "stream" | "bytes"> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
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

export class RestApi {
  readonly #options: RestApiOptions;
  readonly #services: Services;
  readonly #handlers: Record<RouteName, RouteHandler>;
  readonly #movableRoutes: ReadonlySet<RouteName>;
  readonly #shutdownListeners = new Set<() => void>();
  readonly #refusals: RefusalLog;

  constructor(options: RestApiOptions, services: Services = createServices(options)) {
    this.#options = options;
    this.#services = services;
    this.#refusals = new RefusalLog(options.environment);
    const documentHandlers = documentRouteHandlers(services);
    this.#movableRoutes = new Set(Object.keys(documentHandlers) as RouteName[]);
    this.#handlers = { ...routeHandlers(options, services, this.#shutdownListeners), ...documentHandlers };
  }

  /** Handles one request completely. Never rejects, and waits for nothing but the engine and the reader. */
  async handle(name: RouteName, { token, headers, ...rest }: RestRequest): Promise<RestResponse> {
    const requestId = this.#options.environment.ids.next();
    const response = await this.#authorizeAndRespond(name, { ...rest, token, requestId, header: (of) => headers[of] }).catch(
      (problem: unknown) => this.errorResponse(problem, requestId),
    );
    return { ...response, headers: { ...commonHeaders(requestId), ...response.headers } };
  }

  async #authorizeAndRespond(name: RouteName, request: Omit<AuthorizedRequest, "identity">): Promise<RestResponse> {
    const identity = await this.authorize(name, request.token);
    if (request.body !== null && request.body.length > limits.requestBytesMax)
      throw fault("E.REQUEST.TOO_LARGE", `the request body is too large (limit ${limits.requestBytesMax} bytes)`);
    return this.respond(name, { ...request, identity });
  }

  /** The caller, or throws the fault. A step of its own, so that the body of an unauthorized request is not read. */
  async authorize(name: RouteName, token: string | null): Promise<CallerIdentity> {
    // Open routes take anybody, so there is nothing to look up.
    const { isOpen }: Route = routes[name];
    if (token !== null && isOpen !== true) await this.#services.users.preload(token);
    return throwIfFault(this.#checkToken(name, token));
  }

  #checkToken(name: RouteName, token: string | null): CallerIdentity | Fault {
    const { grant, orGrant, isOpen }: Route = routes[name];
    const { authenticate, isMetricsOpen } = this.#options;
    if (isOpen === true || (name === "getMetrics" && isMetricsOpen === true)) return anonymous;
    if (token === null) return fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
    const isToken = token !== "" && token.length <= limits.tokenCharsMax;
    const identity = isToken ? (authenticate(token, null) ?? this.#services.users.authenticate(token)) : null;
    if (identity === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
    if (isGranted(identity.grants, grant) || (orGrant !== undefined && identity.grants.includes(orGrant))) return identity;
    return fault("E.AUTH.FORBIDDEN", grant === undefined ? "this token is for /metrics only" : missingPermissionMessage(grant));
  }

  /** Rejects with whatever a handler throws; `errorResponse` turns it into an answer. */
  async respond(name: RouteName, request: AuthorizedRequest): Promise<RestResponse> {
    const { ownThread } = this.#options;
    if (ownThread === undefined || !this.#movableRoutes.has(name)) return this.#respondHere(name, request);
    if (isMovedAtOnce(name, request.body)) return ownThread.respond(toForwardedRequest(name, request));
    try {
      return await this.#respondHere(name, request);
    } catch (why) {
      if (!(why instanceof NeedsOwnThread)) throw why;
      return ownThread.respond(toForwardedRequest(name, request));
    }
  }

  async #respondHere(name: RouteName, request: AuthorizedRequest): Promise<RestResponse> {
    const route: Route = routes[name];
    const call = new RestCall(request, route, (grant) => {
      const authorized = this.#checkToken(name, request.token);
      return !(authorized instanceof Fault) && (grant === undefined || authorized.grants.includes(grant));
    });
    const { body: shown, media = json, status = route.status, headers, ...rest } = await this.#handlers[name](call);
    const body = typeof shown === "string" ? shown : JSON.stringify(shown);
    return { ...rest, status, body, headers: { ...headers, "content-type": media, ...(status === 503 && retryAfter) } };
  }

  errorResponse(problem: unknown, requestId: string): RestResponse {
    const { status, body } = toErrorResponse(problem, requestId);
    const waitMs = body.details?.["retryAfterMs"];
    // Rejections under load are no failures and must not fill the log.
    if (status >= 500 && body.error !== "E.OVERLOADED" && !this.#refusals.count(body.error, problem, requestId)) {
      const about = { requestId, code: body.error, problem: stackOf(problem) };
      this.#options.environment.log({ level: "error", event: "rest.failed", ...about });
    }
    const headers = {
      "content-type": json,
      ...(status === 401 && { "www-authenticate": "Bearer" }),
      ...(status === 503 && retryAfter),
      ...(typeof waitMs === "number" && { "retry-after": String(Math.ceil(waitMs / 1_000)) }),
    };
    return { status, headers, body: JSON.stringify(body) };
  }

  /** Ends open streams and background work. */
  close(): void {
    this.#services.close();
    for (const closeStream of [...this.#shutdownListeners]) closeStream();
  }
}

/** Routes about runs and workflows: they need the store and the engine alone, and what they read may be large. */
const documentRouteHandlers = ({ runs, workflows }: Services) => ({
  ...runHandlers(runs),
  ...runDetailHandlers(runs),
  ...runControlHandlers(runs),
  ...deadLetterHandlers(runs),
  ...bulkHandlers(runs),
  ...workflowHandlers(workflows),
});

function routeHandlers(options: RestApiOptions, services: Services, shutdownListeners: Set<() => void>) {
  const { workers, heartbeatWatch, volatileEvents: volatile } = services;
  const budget = new StreamBudget(options.metrics, options.streamLimits);
  return {
    ...workerHandlers(workers),
    ...enrolmentHandlers(workers, {
      ...options,
      onSignOfLife: (tenant, worker) => heartbeatWatch.reportSignOfLife(tenant, worker),
    }),
    ...vendorFrameHandlers(workers, services.vendorFrames, budget),
    ...eventsHandlers({ ...options, volatile, heartbeatWatch, budget, shutdownListeners }),
    ...userHandlers(services.userChanges),
    ...auditHandlers(options),
    ...resourceHandlers(services),
    ...packageHandlers(services),
    ...packageFleetHandlers(services),
    ...savedViewHandlers(services.savedViews),
    ...systemHandlers(options),
  };
}

const stackOf = (problem: unknown): string => {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem instanceof Fault && problem.cause !== undefined ? `\ncaused by ${stackOf(problem.cause)}` : "";
  return `${problem.stack ?? problem.message}${cause}`;
};

function isGranted(grants: CallerIdentity["grants"], wanted: Route["grant"]): boolean {
  // What any token opens is no business of one that only reads the metrics.
  if (wanted === undefined) return grants.length === 0 || grants.some((grant) => grant !== "metrics");
  // An admin sees the metrics of the own tenant.
  return grants.includes(wanted) || (wanted === "metrics" && grants.includes("admin"));
}
