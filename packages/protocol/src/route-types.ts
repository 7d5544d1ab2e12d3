// What a call of a route takes and gives, as types that follow from the table: clients are typed by it, nothing is written twice.
// The table itself is routes.ts.

import type { Static, TSchema } from "typebox";
import type { RouteName, routes } from "./routes.ts";

type Row<N extends RouteName> = (typeof routes)[N];
type Field<R, K extends string> = R extends { readonly [P in K]: infer V } ? V : Record<never, never>;

type Params<R> = { -readonly [K in keyof Field<R, "params">]: Static<Extract<Field<R, "params">[K], TSchema>> };
type SchemaOf<Q> = Q extends { readonly schema: infer S extends TSchema } ? Static<S> : never;
type Query<R> = { -readonly [K in keyof Field<R, "query">]?: SchemaOf<Field<R, "query">[K]> | undefined };

/** A body that is not JSON is handed on as it is. */
export type RawBody = FormData | Blob | Uint8Array<ArrayBuffer> | string;
type Body<R> = R extends { readonly takes: string }
  ? { body: RawBody }
  : R extends { readonly request: infer S extends TSchema }
    ? R extends { readonly isBodyOptional: true }
      ? { body?: Static<S> | undefined }
      : { body: Static<S> }
    : Record<never, never>;

/** Parameters of the path, of the query and the body, side by side: no route uses one name twice. */
export type RouteInput<N extends RouteName> = Flat<Params<Row<N>> & Query<Row<N>> & Body<Row<N>>>;
type Flat<T> = { [K in keyof T]: T[K] };

type Also<R> = R extends { readonly also: infer A }
  ? { [K in keyof A]: A[K] extends TSchema ? Static<A[K]> : never }[keyof A]
  : never;

/** Routes whose answer is not JSON give the response itself. */
export type RouteAnswer<N extends RouteName> =
  Row<N> extends { readonly response: infer S extends TSchema }
    ? Static<S> | Also<Row<N>>
    : Row<N> extends { readonly media: string }
      ? Response
      : undefined;
