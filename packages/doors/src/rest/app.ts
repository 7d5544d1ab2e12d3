// The REST door: one row per route of the protocol's table, in front of them the token, behind them one error body.
// Handlers are in runs.ts, workers.ts and system.ts; nothing about a run or a worker is decided here.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Authenticate, Grant, Identity } from "../identity.ts";
import type { Outside } from "../outside.ts";
import { type Call, type Handler, type Reply, readQuery, restLimits } from "./call.ts";
import { methodsAt, refusalOf } from "./errors.ts";
import { type RunsOptions, runHandlers } from "./runs.ts";
import { type SystemOptions, systemHandlers } from "./system.ts";
import { workerHandlers } from "./workers.ts";

export interface RestOptions extends RunsOptions, SystemOptions {
  readonly authenticate: Authenticate;
  readonly outside: Outside;
  /** The demo page at `/`, as HTML; absent: no such route. */
  readonly page?: string;
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
  drainWorker: "operate",
  undrainWorker: "operate",
  getOpenapi: null,
  getHealth: null,
  getReadiness: null,
  // Its labels name every tenant.
  getMetrics: "operate",
};

const nobody: Identity = { tenant: "", user: "", grants: [] };

export function createRest(options: RestOptions): FastifyInstance {
  const { outside } = options;
  const handlers: Record<RouteName, Handler> = {
    ...runHandlers(options),
    ...workerHandlers(options),
    ...systemHandlers(options),
  };
  const refuse = (problem: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { status, body } = refusalOf(problem, request.id);
    if (status >= 500)
      outside.log({ level: "error", event: "rest.failed", requestId: request.id, code: body.error, problem: stackOf(problem) });
    if (status === 401) void reply.header("www-authenticate", "Bearer");
    return reply.code(status).type("application/json; charset=utf-8").send(JSON.stringify(body));
  };

  const app = Fastify({
    logger: false,
    bodyLimit: limits.requestBytesMax,
    routerOptions: { maxParamLength: restLimits.paramCharsMax },
    requestIdHeader: false,
    // While closing, requests that still come are answered by the engine's own refusal, in our own body.
    return503OnClosing: false,
    genReqId: () => outside.ids.next(),
    frameworkErrors: (problem, request, reply) => void refuse(problem, request, reply),
  });
  // Bodies are read by the protocol's own reader, which bounds them before it builds anything.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.addHook("onRequest", async (request, reply) => {
    void reply.headers({ "x-request-id": request.id, "cache-control": "no-store", "x-content-type-options": "nosniff" });
  });
  app.setErrorHandler(refuse);
  app.setNotFoundHandler((request, reply) => {
    const path = request.raw.url?.split("?")[0] ?? "";
    const methods = methodsAt(path);
    if (methods.length === 0) return refuse(fault("E.ROUTE.UNKNOWN", "there is no such route"), request, reply);
    void reply.header("allow", methods.join(", "));
    return refuse(fault("E.ROUTE.METHOD", `this route answers ${methods.join(", ")}`), request, reply);
  });

  for (const [name, route] of Object.entries(routes as Record<RouteName, Route>) as [RouteName, Route][]) {
    const identities = new WeakMap<FastifyRequest, Identity>();
    const grant = grantOf[name];
    app.route({
      method: route.method,
      url: route.path.replaceAll(/\{(\w+)\}/g, ":$1"),
      // Before the body is read: a stranger must not be able to make us take in 8 MiB.
      onRequest: async (request) => void identities.set(request, identify(request, grant, options.authenticate)),
      handler: async (request, reply) => {
        const answer = await handlers[name](callOf(route, request, identities.get(request) ?? nobody));
        return write(route, answer, reply);
      },
    });
  }
  if (options.page !== undefined) servePage(app, options.page);
  return app;
}

function identify(request: FastifyRequest, grant: Grant | null, authenticate: Authenticate): Identity {
  if (grant === null) return nobody;
  const { authorization } = request.headers;
  if (authorization === undefined) throw fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
  const token = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization)?.[1];
  const identity = token === undefined || token.length > limits.tokenCharsMax ? null : authenticate(token, null);
  if (identity === null) throw fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
  if (!identity.grants.includes(grant)) throw fault("E.AUTH.FORBIDDEN", `this token may not ${grant}`);
  return identity;
}

function callOf(route: Route, request: FastifyRequest, identity: Identity): Call {
  return {
    requestId: request.id,
    identity,
    params: (request.params ?? {}) as Record<string, string>,
    query: readQuery(route, (request.query ?? {}) as Record<string, unknown>),
    header: (name) => {
      const value = request.headers[name];
      return Array.isArray(value) ? value.join(",") : value;
    },
    body: Buffer.isBuffer(request.body) ? request.body : null,
  };
}

function write(route: Route, { body, media, status, headers }: Reply, reply: FastifyReply): FastifyReply {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return reply
    .code(status ?? route.status)
    .headers(headers ?? {})
    .type(media ?? "application/json; charset=utf-8")
    .send(text);
}

/** One file with its script inside, talking to this server only. */
function servePage(app: FastifyInstance, page: string): void {
  const policy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";
  app.get("/", (_request, reply) => reply.header("content-security-policy", policy).type("text/html; charset=utf-8").send(page));
}

const stackOf = (problem: unknown): string => {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem instanceof Fault && problem.cause !== undefined ? `\ncaused by ${stackOf(problem.cause)}` : "";
  return `${problem.stack ?? problem.message}${cause}`;
};
