// The REST door without HTTP: a route's name and plain data in, a status and a text out; in front the token, behind one error body.
// Handlers are in the files of their routes; sockets, paths and bodies that trickle in are the business of app.ts.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import { createExtensions, type Extensions } from "../extensions.ts";
import type { Authenticate, Grant, Identity } from "../identity.ts";
import type { Outside } from "../outside.ts";
import { type Call, type Handler, readQuery } from "./call.ts";
import { refusalOf } from "./errors.ts";
import type { OpenStream } from "./event-stream.ts";
import { extensionHandlers } from "./extensions.ts";
import { type RunsOptions, runHandlers } from "./runs.ts";
import { scalingHandlers } from "./scaling.ts";
import { type SystemOptions, systemHandlers } from "./system.ts";
import { type WorkersOptions, workerHandlers } from "./workers.ts";

export interface RestCallsOptions extends RunsOptions, SystemOptions, WorkersOptions {
  readonly authenticate: Authenticate;
  readonly outside: Outside;
  /** Fed by the session door. Without it nobody sends: readers wait in vain. */
  readonly extensions?: Extensions;
  /** `/metrics` asks for no token; for a scheduler on one's own machine. */
  readonly isMetricsOpen?: boolean;
}

/** One request, whole. Names of headers are lowercase. */
export interface RestRequest {
  /** The bearer token; null where none was sent. */
  readonly token: string | null;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
}

export interface RestAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Only of routes that go on after their head; whoever does not open it has asked for nothing. */
  readonly stream?: OpenStream;
}

/** A request that was let in, by this token. Its query is not read yet. */
export type AdmittedRequest = Omit<Call, "query" | "isStillAdmitted"> & {
  readonly query: Readonly<Record<string, unknown>>;
  readonly token: string | null;
};

export interface RestCalls {
  /** The whole way of one request. Never rejects, and waits for nothing but the engine and the reader. */
  call(name: RouteName, request: RestRequest): Promise<RestAnswer>;
  /** Who asks, if they may; throws the fault. Its own step, because a transport must not read a stranger's body. */
  admit(name: RouteName, token: string | null): Identity;
  /** Rejects with whatever a handler throws; `refuse` has the words for it. */
  answer(name: RouteName, request: AdmittedRequest): Promise<RestAnswer>;
  refuse(problem: unknown, requestId: string): RestAnswer;
}

/** What a caller must be allowed to do for a route; null: open to all. */
const grantOf: Record<RouteName, Grant | null> = {
  startRun: "edit",
  listRuns: "view",
  getRun: "view",
  getRunDefinition: "view",
  cancelRun: "edit",
  listRunEvents: "view",
  listWorkers: "view",
  getWorker: "view",
  getWorkerDiagnostics: "view",
  drainWorker: "operate",
  undrainWorker: "operate",
  kickWorker: "operate",
  getScaling: "view",
  streamExtension: "view",
  tellWorker: "edit",
  getOpenapi: null,
  getHealth: null,
  getReadiness: null,
  // Its labels name every tenant.
  getMetrics: "admin",
};

const nobody: Identity = { tenant: "", user: "", grants: [] };
/** Seconds after which a caller that was told 503 may come back. */
const retryAfter = { "retry-after": "1" };
const json = "application/json; charset=utf-8";

/** What every answer carries, whatever became of the request. */
export const commonHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  "x-request-id": requestId,
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
});

export function createRestCalls(options: RestCallsOptions): RestCalls {
  const { outside } = options;
  const handlers: Record<RouteName, Handler> = {
    ...runHandlers(options),
    ...workerHandlers(options),
    ...scalingHandlers(options),
    ...extensionHandlers({ ...options, extensions: options.extensions ?? createExtensions({ outside: options.outside }) }),
    ...systemHandlers(options),
  };

  const judge = (name: RouteName, token: string | null): Identity | Fault => {
    const grant = name === "getMetrics" && options.isMetricsOpen === true ? null : grantOf[name];
    if (grant === null) return nobody;
    if (token === null) return fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
    const identity = token === "" || token.length > limits.tokenCharsMax ? null : options.authenticate(token, null);
    if (identity === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
    return identity.grants.includes(grant) ? identity : fault("E.AUTH.FORBIDDEN", `this token may not ${grant}`);
  };
  const admit = (name: RouteName, token: string | null): Identity => {
    const verdict = judge(name, token);
    if (verdict instanceof Fault) throw verdict;
    return verdict;
  };

  const answer = async (name: RouteName, request: AdmittedRequest): Promise<RestAnswer> => {
    const route: Route = routes[name];
    const { requestId, identity, params, body: asked, token } = request;
    const query = readQuery(route, request.query);
    const reply = await handlers[name]({
      requestId,
      identity,
      params,
      query,
      header: (of) => request.header(of),
      body: asked,
      isStillAdmitted: () => !(judge(name, token) instanceof Fault),
    });
    const body = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body);
    const status = reply.status ?? route.status;
    const headers = { ...reply.headers, "content-type": reply.media ?? json, ...(status === 503 && retryAfter) };
    return { status, headers, body, ...(reply.stream !== undefined && { stream: reply.stream }) };
  };

  const refuse = (problem: unknown, requestId: string): RestAnswer => {
    const { status, body } = refusalOf(problem, requestId);
    if (status >= 500)
      outside.log({ level: "error", event: "rest.failed", requestId, code: body.error, problem: stackOf(problem) });
    const headers = {
      "content-type": json,
      ...(status === 401 && { "www-authenticate": "Bearer" }),
      ...(status === 503 && retryAfter),
    };
    return { status, headers, body: JSON.stringify(body) };
  };

  return {
    admit,
    answer,
    refuse,
    async call(name, { token, headers, ...rest }) {
      const requestId = outside.ids.next();
      const dress = (bare: RestAnswer): RestAnswer => ({ ...bare, headers: { ...commonHeaders(requestId), ...bare.headers } });
      try {
        const identity = admit(name, token);
        if (rest.body !== null && rest.body.length > limits.requestBytesMax)
          throw fault("E.REQUEST.TOO_LARGE", "the body is larger than this door takes");
        return dress(await answer(name, { ...rest, token, requestId, identity, header: (of) => headers[of] }));
      } catch (problem) {
        return dress(refuse(problem, requestId));
      }
    },
  };
}

const stackOf = (problem: unknown): string => {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem instanceof Fault && problem.cause !== undefined ? `\ncaused by ${stackOf(problem.cause)}` : "";
  return `${problem.stack ?? problem.message}${cause}`;
};
