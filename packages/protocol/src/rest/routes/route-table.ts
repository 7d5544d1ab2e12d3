// Every REST route, and the types of its input and answer. The door has a handler of the same name for each, and the OpenAPI document is
// written from this table.

import type { Static, TSchema } from "typebox";
import type { Fault } from "../../faults/fault.ts";
import { createBodyReader } from "../bodies/body-parts.ts";
import { packageFleetRoutes } from "./package-fleet-routes.ts";
import { packageRoutes } from "./package-routes.ts";
import { resourceRoutes } from "./resource-routes.ts";
import type { Route } from "./route.ts";
import { runRoutes } from "./run-routes.ts";
import { eventRoutes, systemRoutes } from "./system-routes.ts";
import { userRoutes, viewRoutes } from "./user-routes.ts";
import { workerRoutes } from "./worker-routes.ts";
import { workflowRoutes } from "./workflow-routes.ts";

export { type Permission, type QueryParameter, type Route, tailParameter } from "./route.ts";

export const routes = {
  ...runRoutes,
  ...workerRoutes,
  ...eventRoutes,
  ...workflowRoutes,
  ...packageRoutes,
  ...packageFleetRoutes,
  ...userRoutes,
  ...resourceRoutes,
  ...viewRoutes,
  ...systemRoutes,
} as const;

export type RouteName = keyof typeof routes;

/** Where workers open their WebSockets, beside the routes. */
export const sessionPath = "/ws/worker";

type RouteRow<N extends RouteName> = (typeof routes)[N];
type RouteField<R, K extends string> = R extends { readonly [P in K]: infer V } ? V : Record<never, never>;

type PathParams<R> = { -readonly [K in keyof RouteField<R, "params">]: Static<Extract<RouteField<R, "params">[K], TSchema>> };
type QueryValueOf<Q> = Q extends { readonly schema: infer S extends TSchema } ? Static<S> : never;
type QueryParams<R> = { -readonly [K in keyof RouteField<R, "query">]?: QueryValueOf<RouteField<R, "query">[K]> | undefined };

/** A body that is not JSON is handed on as it is. */
export type RawBody = FormData | Blob | Uint8Array<ArrayBuffer> | string;
type RequestBody<R> = R extends { readonly takes: string }
  ? { body: RawBody }
  : R extends { readonly request: infer S extends TSchema }
    ? R extends { readonly isBodyOptional: true }
      ? { body?: Static<S> | undefined }
      : { body: Static<S> }
    : Record<never, never>;

/** Parameters of the path, of the query and the body, side by side: no route uses one name twice. */
export type RouteInput<N extends RouteName> = Flatten<
  PathParams<RouteRow<N>> & QueryParams<RouteRow<N>> & RequestBody<RouteRow<N>>
>;
type Flatten<T> = { [K in keyof T]: T[K] };

type OtherAnswers<R> = R extends { readonly also: infer A }
  ? { [K in keyof A]: A[K] extends TSchema ? Static<A[K]> : never }[keyof A]
  : never;

/** Routes whose answer is not JSON give the response itself. */
export type RouteAnswer<N extends RouteName> =
  RouteRow<N> extends { readonly response: infer S extends TSchema }
    ? Static<S> | OtherAnswers<RouteRow<N>>
    : RouteRow<N> extends { readonly media: string }
      ? Response
      : undefined;

export type RouteBody<N extends RouteName> =
  RouteRow<N> extends { readonly request: infer S extends TSchema } ? Static<S> : never;

const bodyReaders = new Map<RouteName, (value: unknown) => unknown>();

/** Reads the body of a request to this route; unknown keys are refused, or dropped where the route takes any. */
export function bodyReaderOf<N extends RouteName>(name: N): (value: unknown) => RouteBody<N> | Fault {
  const { request, takesUnknownFields }: Route = routes[name];
  if (request === undefined) throw new Error(`${name} takes no body`);
  const reader = bodyReaders.get(name) ?? createBodyReader(request, { unknownKeys: takesUnknownFields ? "drop" : "refuse" });
  bodyReaders.set(name, reader);
  return reader as (value: unknown) => RouteBody<N> | Fault;
}
