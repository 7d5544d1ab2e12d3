// The REST door without HTTP: a route's name and plain data in, a status and a text out; in front the token, behind one error body.
// Handlers are in the files of their routes; sockets, paths and bodies that trickle in are the business of app.ts.

import { Fault, fault, limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import { createBulk } from "../bulk.ts";
import { type Catalogues, createCatalogues } from "../catalogue.ts";
import { createBeatWatch } from "../events/beats.ts";
import { createVolatileEvents, type VolatileEvents } from "../events/volatile.ts";
import { createVendorFrameRelay, type VendorFrameRelay } from "../extensions.ts";
import type { AuthenticateToken, CallerIdentity } from "../identity.ts";
import type { DoorEnvironment } from "../outside.ts";
import { createPeople, type People } from "../people/people.ts";
import { type BlobsByProvider, createDocBlobs } from "../resources/blobs.ts";
import { type Call, type Handler, readParams, readQuery } from "./call.ts";
import { refusalOf } from "./errors.ts";
import type { OpenStream } from "./event-stream.ts";
import { eventsHandlers } from "./events.ts";
import { peopleHandlers } from "./people/people.ts";
import { resourcesHandlers } from "./resources/resources.ts";
import { createBulkAct, needsChange } from "./runs/bulk-routes.ts";
import { ledgerHandlers } from "./runs/ledger.ts";
import { createMoments } from "./runs/run-moment.ts";
import { runPartHandlers } from "./runs/run-parts.ts";
import { createStarter } from "./runs/run-start.ts";
import { type RunsOptions, runHandlers } from "./runs/runs.ts";
import { steeringHandlers } from "./runs/steering.ts";
import { type SystemOptions, systemHandlers } from "./system.ts";
import { viewsHandlers } from "./views/views.ts";
import { enrolmentHandlers } from "./workers/enrolment.ts";
import { extensionHandlers } from "./workers/extensions.ts";
import { scalingHandlers } from "./workers/scaling.ts";
import { type WorkersOptions, workerHandlers } from "./workers/workers.ts";
import { catalogHandlers } from "./workflows/catalog.ts";
import { workflowsHandlers } from "./workflows/workflows.ts";

export interface RestCallsOptions extends Omit<RunsOptions, "catalogues" | "moments">, SystemOptions, WorkersOptions {
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
  readonly people?: People;
  /** What is known of node packages, shared by all routes that check workflows. */
  readonly catalogues?: Catalogues;
  /** Where the bytes of resources are kept, by provider; the store alone where it is not given. */
  readonly blobs?: BlobsByProvider;
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

export interface RestAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Only of routes that go on after their head; whoever does not open it has asked for nothing. */
  readonly stream?: OpenStream;
  /** The body where it is bytes; whoever does not open it has asked for nothing. */
  readonly bytes?: () => AsyncIterable<Uint8Array>;
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
  admit(name: RouteName, token: string | null): Promise<CallerIdentity>;
  /** Rejects with whatever a handler throws; `refuse` has the words for it. */
  answer(name: RouteName, request: AdmittedRequest): Promise<RestAnswer>;
  refuse(problem: unknown, requestId: string): RestAnswer;
  /** Ends what goes on by itself. */
  close(): void;
}

const nobody: CallerIdentity = { tenant: "", user: "", grants: [] };
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
  const { environment } = options;
  const people = options.people ?? createPeople(options);
  const blobs = options.blobs ?? { db: createDocBlobs(options) };
  const catalogues = options.catalogues ?? createCatalogues(options);
  const volatile = options.volatile ?? createVolatileEvents();
  const isAlone = options.isAlone === true && options.volatile !== undefined;
  const beats = createBeatWatch({ ...options, volatile, isAlone });
  // What several areas of routes share.
  const shared = { ...options, people, blobs, catalogues };
  const bulk = createBulk({ ...options, act: createBulkAct(shared, createStarter(shared)), needsChange });
  const given = { ...shared, bulk };
  const moments = createMoments(options.reader);
  const farewells = new Set<() => void>();
  const handlers: Record<RouteName, Handler> = {
    ...runHandlers({ ...given, moments }),
    ...runPartHandlers({ ...options, moments }),
    ...ledgerHandlers(options),
    ...workerHandlers(options),
    ...scalingHandlers(options),
    ...extensionHandlers({
      ...options,
      extensions: options.extensions ?? createVendorFrameRelay({ environment: options.environment }),
    }),
    ...systemHandlers(options),
    ...steeringHandlers(given),
    ...enrolmentHandlers({ ...given, signed: beats.signed }),
    ...eventsHandlers({ ...options, volatile, beats, farewells }),
    ...workflowsHandlers(given),
    ...catalogHandlers(given),
    ...peopleHandlers(given),
    ...resourcesHandlers(given),
    ...viewsHandlers(given),
  };

  const judge = (name: RouteName, token: string | null): CallerIdentity | Fault => {
    const { grant, isOpen }: Route = routes[name];
    if (isOpen === true || (name === "getMetrics" && options.isMetricsOpen === true)) return nobody;
    if (token === null) return fault("E.AUTH.MISSING_TOKEN", "send Authorization: Bearer <token>");
    const isToken = token !== "" && token.length <= limits.tokenCharsMax;
    const identity = isToken ? (options.authenticate(token, null) ?? people.authenticate(token)) : null;
    if (identity === null) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid");
    const isGranted = grant === undefined || identity.grants.includes(grant);
    return isGranted ? identity : fault("E.AUTH.FORBIDDEN", `this token is not granted ${grant}`);
  };
  const admit = async (name: RouteName, token: string | null): Promise<CallerIdentity> => {
    if (token !== null) await people.warm(token);
    const verdict = judge(name, token);
    if (verdict instanceof Fault) throw verdict;
    return verdict;
  };

  const answer = async (name: RouteName, request: AdmittedRequest): Promise<RestAnswer> => {
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
        const verdict = judge(name, token);
        return !(verdict instanceof Fault) && (grant === undefined || verdict.grants.includes(grant));
      },
    });
    const body = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body);
    const status = reply.status ?? route.status;
    const headers = { ...reply.headers, "content-type": reply.media ?? json, ...(status === 503 && retryAfter) };
    const { stream, bytes } = reply;
    return { status, headers, body, ...(stream !== undefined && { stream }), ...(bytes !== undefined && { bytes }) };
  };

  const refuse = (problem: unknown, requestId: string): RestAnswer => {
    const { status, body } = refusalOf(problem, requestId);
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
    admit,
    answer,
    refuse,
    close() {
      bulk.close();
      for (const sayGoodbye of [...farewells]) sayGoodbye();
    },
    async call(name, { token, headers, ...rest }) {
      const requestId = environment.ids.next();
      const dress = (bare: RestAnswer): RestAnswer => ({ ...bare, headers: { ...commonHeaders(requestId), ...bare.headers } });
      try {
        const identity = await admit(name, token);
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
