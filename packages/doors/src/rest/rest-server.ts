// The REST API over HTTP: one Fastify route per route of the protocol's table. Only paths, headers and bodies are read here.

import { Readable } from "node:stream";
import { fault, limits, type Route, type RouteName, resourceLimits, routes, tailParameter } from "@astraflow/protocol";
import type { CallerIdentity, ServiceEnvironment, Services } from "@astraflow/services";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { createClientAddressReader } from "../auth/client-address.ts";
import { inPlaceBytesMax } from "./own-thread.ts";
import { BodyBudget } from "./requests/body-budget.ts";
import { createCrossOriginPolicy } from "./requests/cross-origin.ts";
import { methodsOfPath, methodsOfWrittenPaths } from "./requests/error-response.ts";
import { type OpenStream, streamLimits } from "./requests/event-stream.ts";
import { LoopTurns } from "./requests/loop-turns.ts";
import { restLimits } from "./requests/rest-call.ts";
import { limitStrangerBody } from "./requests/stranger-bodies.ts";
import type { StreamReader } from "./requests/stream-budget.ts";
import { type AnswerLimits, UnreadAnswers } from "./requests/unread-answers.ts";
import { commonHeaders, RestApi, type RestApiOptions, type RestResponse } from "./rest-api.ts";

export interface RestServerOptions extends RestApiOptions {
  /** The demo page at `/`, as HTML; absent: no such route. */
  readonly page?: string;
  /** Origins whose pages may use the API from a browser, with credentials; absent: none. */
  readonly corsOrigins?: readonly string[];
  /** Proxies whose X-Forwarded-For counts: addresses and networks; absent: none. */
  readonly trustedProxies?: readonly string[];
  /** Bytes of all bodies that are received at once, where it differs from the usual. */
  readonly bodyBytesTotalMax?: number;
  /** What may wait of answers that nobody takes, and for how long, where it differs from the usual. */
  readonly answerLimits?: Partial<AnswerLimits>;
}

export function createRestServer(options: RestServerOptions, services?: Services): FastifyInstance {
  const { environment } = options;
  const api = new RestApi(options, services);
  const crossOrigin = createCrossOriginPolicy(options.corsOrigins ?? []);
  const readAddress = createClientAddressReader(options.trustedProxies);
  const bodies = new BodyBudget(options.bodyBytesTotalMax);
  const loopTurns = new LoopTurns(environment);
  const answers = new UnreadAnswers(environment, options.metrics, options.answerLimits);
  const addCommonHeaders = (request: FastifyRequest, reply: FastifyReply): FastifyReply =>
    reply.headers({ ...commonHeaders(request.id), ...crossOrigin.responseHeaders(request) });
  const writeError = (problem: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply =>
    writeResponse(api.errorResponse(problem, request.id), reply);
  const writeResponse = (response: WholeResponse, reply: FastifyReply, caller: StreamReader = stranger): FastifyReply => {
    const { request } = reply;
    if (!answers.isLarge(response.body) || request.method === "HEAD") {
      sendWhole(response, reply);
      answers.watch(reply.raw, caller);
      return reply;
    }
    const body = typeof response.body === "string" ? Buffer.from(response.body) : response.body;
    // What was changed is always answered.
    const refusal = request.method === "GET" ? answers.capacityFault(caller, body.length) : null;
    if (refusal !== null) return writeResponse(api.errorResponse(refusal, request.id), reply, caller);
    const headers = { ...response.headers, "content-length": String(body.length) };
    answers.writeBody(takeOver({ ...response, headers }, reply), body, caller);
    return reply;
  };

  const refuseRoute = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const methods = methodsOfPath(pathOf(request));
    if (methods.length === 0) return writeError(fault("E.ROUTE.UNKNOWN", "there is no such route"), request, reply);
    void reply.header("allow", methods.join(", "));
    return writeError(fault("E.ROUTE.METHOD", `this route answers ${methods.join(", ")}`), request, reply);
  };

  const app = Fastify({
    logger: false,
    bodyLimit: limits.requestBytesMax,
    routerOptions: { maxParamLength: restLimits.paramCharsMax },
    requestIdHeader: false,
    // While closing, requests that still come are answered by the engine's own refusal, in our own body.
    return503OnClosing: false,
    genReqId: () => environment.ids.next(),
    frameworkErrors: (problem, request, reply) => void writeError(problem, request, addCommonHeaders(request, reply)),
  });
  // Bodies are read by the protocol's own reader, which bounds them before it builds anything.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.addHook("onRequest", async (request, reply) => {
    addCommonHeaders(request, reply);
    if (request.is404) limitStrangerBody(request, reply, environment);
    const preflight = crossOrigin.preflightHeaders(request);
    // Before any route: a browser sends no token with it.
    if (preflight !== null) return reply.code(204).headers(preflight).send();
    // Before the body is read, which the library would do, or refuse to do, for methods that no route has.
    if (request.is404 || methodsOfWrittenPaths.get(pathOf(request))?.includes(request.method) === false)
      return refuseRoute(request, reply);
  });
  app.addHook("onClose", async () => {
    answers.close();
    api.close();
  });
  app.setErrorHandler(writeError);
  app.setNotFoundHandler((request, reply) => refuseRoute(request, reply));

  const addRoute = (scope: FastifyInstance, name: RouteName, route: Route): void => {
    const identities = new WeakMap<FastifyRequest, CallerIdentity>();
    scope.route({
      method: route.method,
      url: route.path.replace(tailPattern, "*").replaceAll(/\{(\w+)\}/g, ":$1"),
      bodyLimit: bodyLimitOf(route),
      // Before the body is read: a stranger must not be able to make us take in 8 MiB.
      onRequest: async (request, reply) => {
        try {
          identities.set(request, await api.authorize(name, bearerTokenOf(request)));
          if (route.isOpen === true) limitStrangerBody(request, reply, environment);
          // Files are written as they come and never held.
          if (route.takes === undefined) bodies.reserve(request, reply, bodyLimitOf(route));
        } catch (why) {
          limitStrangerBody(request, reply, environment);
          throw why;
        }
      },
      handler: async (request, reply) => {
        const identity = identities.get(request);
        if (identity === undefined) throw fault("E.INTERNAL", "a request came in without having been admitted");
        const body = Buffer.isBuffer(request.body) ? request.body : null;
        // What is larger is carried out elsewhere and counted there.
        const turnBytes = Math.min(body?.length ?? 0, inPlaceBytesMax);
        const turn = isProbe(route.path) ? null : loopTurns.begin(identity.tenant, turnBytes);
        if (turn !== null) await turn;
        const answer = await api.respond(name, {
          requestId: request.id,
          identity,
          token: bearerTokenOf(request),
          params: readPathParameters(request.params as Record<string, string> | undefined),
          query: (request.query ?? {}) as Record<string, unknown>,
          header: (of) => headerOf(request, of),
          body,
          ...(request.body instanceof Readable && { stream: limitBytes(request, request.body, bodyLimitOf(route)) }),
          address: readAddress(request.raw),
        });
        const { stream, bytes, ...head } = answer;
        // Who asks with HEAD for a stream, or for bytes, gets the head.
        const isHead = request.method === "HEAD";
        if (bytes !== undefined && !isHead) {
          answers.watch(reply.raw, identity, true);
          return reply.code(head.status).headers(head.headers).send(Readable.from(bytes()));
        }
        if (bytes === undefined && (stream === undefined || isHead)) return writeResponse(head, reply, identity);
        const raw = takeOver(head, reply);
        // The library would count the bytes of a body that is not sent, and say that there are none.
        if (stream === undefined) raw.end();
        else writeStream(stream, raw, environment);
        return reply;
      },
    });
  };
  const all = Object.entries(routes as Record<RouteName, Route>) as [RouteName, Route][];
  for (const [name, route] of all) if (route.takes === undefined) addRoute(app, name, route);
  // What these take may be large: it is handed on as it comes.
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, body, done) => done(null, body));
    for (const [name, route] of all) if (route.takes !== undefined) addRoute(scope, name, route);
  });
  if (options.page !== undefined) {
    const page = demoPageResponse(options.page);
    app.get("/", (_request, reply) => writeResponse(page, reply));
  }
  return app;
}

/** Whoever watches this process asks these, also while it is busy. */
const probePaths: ReadonlySet<string> = new Set([routes.getHealth.path, routes.getReadiness.path]);
export const isProbe = (path: string | undefined): boolean => path !== undefined && probePaths.has(path);

const tailPattern = `{${tailParameter}}`;

/** The library has no name for a parameter with slashes. */
function readPathParameters({ "*": tail, ...params }: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { ...params, ...(tail !== undefined && { [tailParameter]: tail }) };
}

const pathOf = (request: FastifyRequest): string => request.raw.url?.split("?", 1)[0] ?? "";

/** Of a stranger little, of a file as much as one request carries. */
function bodyLimitOf(route: Route): number {
  if (route.bodyBytesMax !== undefined) return route.bodyBytesMax;
  if (route.takes !== undefined) return resourceLimits.chunkBytesMax + resourceLimits.multipartExtraBytesMax;
  return route.isOpen === true ? limits.unauthenticatedFrameBytesMax : limits.requestBytesMax;
}

/** Null without the header; empty, which matches no token, if it holds anything else. */
function bearerTokenOf(request: FastifyRequest): string | null {
  const { authorization } = request.headers;
  if (authorization === undefined) return null;
  return /^Bearer ([\x21-\x7e]+)$/i.exec(authorization)?.[1] ?? "";
}

function headerOf(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(",") : value;
}

/** An answer that is there as a whole. */
interface WholeResponse extends Omit<RestResponse, "body" | "stream" | "bytes"> {
  readonly body: string | Buffer;
}

const stranger: StreamReader = { tenant: "", user: "" };

function sendWhole({ status, headers, body }: WholeResponse, reply: FastifyReply): FastifyReply {
  if (status !== 204) return reply.code(status).headers(headers).send(body);
  const { "content-type": _media, ...rest } = headers;
  return reply.code(status).headers(rest).send();
}

/** Writes the head. From here on the response is ours; the library only hears that it is. */
function takeOver({ status, headers }: Omit<WholeResponse, "body">, reply: FastifyReply): FastifyReply["raw"] {
  const common = reply.getHeaders() as Readonly<Record<string, string>>;
  reply.hijack();
  return reply.raw.writeHead(status, { ...common, ...headers });
}

/** The library bounds only what it holds itself. */
async function* limitBytes(request: FastifyRequest, body: Readable, bytesMax: number): AsyncGenerator<Buffer> {
  const tooLarge = fault("E.REQUEST.TOO_LARGE", "the body is larger than this route takes");
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge;
  let receivedBytes = 0;
  // Ending the body would end the socket, and with it our answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    receivedBytes += chunk.length;
    if (receivedBytes > bytesMax) throw tooLarge;
    yield chunk;
  }
}

function writeStream(stream: OpenStream, raw: FastifyReply["raw"], environment: ServiceEnvironment): void {
  const onClosed = stream({
    write: (text) => void raw.write(text),
    get waitingBytes() {
      return raw.writableLength;
    },
    destroy: () => void raw.destroy(),
    end() {
      raw.end();
      // One who does not even take the last words keeps their bytes here no longer than this.
      const cancelDestroy = environment.timers.after(streamLimits.closeTimeoutMs, () => raw.destroy());
      raw.once("close", cancelDestroy);
    },
  });
  // A reader that vanishes shows as an error of the response too; its close is all that matters.
  raw.on("error", () => raw.destroy());
  if (raw.destroyed) onClosed();
  else raw.once("close", onClosed);
}

/** One file with its script inside, talking to this server only. */
function demoPageResponse(page: string): WholeResponse {
  const policy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";
  const headers = { "content-security-policy": policy, "content-type": "text/html; charset=utf-8" };
  return { status: 200, headers, body: Buffer.from(page) };
}
