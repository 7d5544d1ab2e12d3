// The type of a row in the route tables, and the parameters, headers and faults that many rows share.

import type { TSchema } from "typebox";
import type { FaultCode } from "../../faults/fault-codes.ts";
import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { userRoles } from "../bodies/user-bodies.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With {name} for a parameter. */
  readonly path: string;
  readonly summary: string;
  readonly params?: Readonly<Record<string, TSchema>>;
  readonly query?: Readonly<Record<string, QueryParameter>>;
  readonly headers?: Readonly<Record<string, TSchema>>;
  readonly request?: TSchema;
  readonly isBodyOptional?: true;
  /** Fields of the body that are not known are dropped, because programs of other generations send it; elsewhere they are refused. */
  readonly takesUnknownFields?: true;
  /** Absent: the body is not JSON (`media` says what it is). */
  readonly response?: TSchema;
  readonly media?: string;
  readonly status: number;
  /** Other successful responses, by status; null: without a body. */
  readonly also?: Readonly<Record<number, TSchema | null>>;
  readonly faults: readonly FaultCode[];
  /** The permission the caller needs; absent: any token is enough, or none if the route is open. */
  readonly grant?: Permission;
  readonly isOpen?: true;
  /** The body's media type if it is not JSON, such as multipart/form-data. Such a body is streamed, never held whole. */
  readonly takes?: string;
}

/**
 * What a caller may do. `view`: see runs and workers. `read`: see workflows, packages and resources. `edit`: change them and start runs.
 * `operate`: control workers. `admin`: see and change everything of the tenant. `worker`: open sessions. `metrics`: the metrics of all
 * tenants, and nothing else.
 */
export type Permission = "worker" | "view" | "read" | "edit" | "operate" | "admin" | "metrics";

export interface QueryParameter {
  readonly schema: TSchema;
  readonly default?: string | number | boolean;
  readonly description?: string;
}

/** Every parameter that a path may have. */
const pathParameters = {
  bulkId: t.id(),
  commandId: t.id(),
  grantId: t.id(),
  nodeId: t.id("Id of the node; if the node runs more than once, the id or slot of a task."),
  packageId: t.id("Id of the workflow package."),
  packageName: t.id(),
  partNumber: t.integer(0),
  resourceId: t.id(),
  role: t.oneOf(userRoles),
  runId: t.id(),
  taskId: t.id(),
  type: t.string({
    pattern: "^ext\\.vendor\\.(?!astraflow\\.)[a-z0-9][a-z0-9._-]{0,100}$",
    description: "Type of the frames; ext.vendor.astraflow.* is not for callers.",
  }),
  uploadId: t.id(),
  userId: t.id(),
  version: t.integer(1),
  viewId: t.id(),
  workerId: t.id("Instance id of the worker."),
  workerName: t.id("Name or instance id; of several of one name, the one that is connected."),
  workflowId: t.id("Id of the workflow."),
} as const;
type PathParameters = typeof pathParameters;
type ParameterNames<P extends string> = P extends `${string}{${infer N}}${infer Rest}` ? N | ParameterNames<Rest> : never;
type ParametersOf<P extends string> = Pick<PathParameters, ParameterNames<P> & keyof PathParameters>;

type RouteRow<P extends string, D> = Omit<Route, keyof D | "params"> & D & { readonly params: ParametersOf<P> };
type RouteDetails = Partial<Omit<Route, "method" | "path" | "params" | "grant" | "isOpen">> & Pick<Route, "summary">;

/**
 * One row of the table. `access` is a permission, any `token`, or `open` to everybody. Unless the row says otherwise its status is 200
 * and its faults are those of any reading or changing route.
 */
export function route<P extends string, const D extends RouteDetails>(
  method: Route["method"],
  path: P & (ParameterNames<P> extends keyof PathParameters ? unknown : never),
  access: Permission | "token" | "open",
  details: D & Readonly<Record<Exclude<keyof D, keyof Route>, never>>,
): RouteRow<P, D> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as keyof PathParameters);
  const lookupFaults = names.length === 0 ? readFaults : ([...readFaults, "E.NOT_FOUND"] as const);
  const isRepeatable = method === "POST" && access !== "open" && access !== "read";
  const row: Route = {
    method,
    path,
    status: 200,
    params: Object.fromEntries(names.map((name) => [name, pathParameters[name]])),
    faults: method === "GET" ? lookupFaults : changeFaults,
    ...(isRepeatable && { headers: idempotencyKeyHeader }),
    ...(access === "open" ? { isOpen: true } : access !== "token" && { grant: access }),
    ...details,
  };
  return row as Route & RouteRow<P, D>;
}

export const pagingQuery = {
  limit: { schema: t.between(1, limits.pageItemsMax), default: limits.pageItemsDefault },
  cursor: { schema: t.string({ maxLength: 1_024 }), description: "nextCursor of the previous page." },
} as const satisfies Record<string, QueryParameter>;
/** Of lists that dashboards of the field ask for once, because there they have no pages. */
export const fullPageQuery = {
  ...pagingQuery,
  limit: { ...pagingQuery.limit, default: limits.pageItemsMax },
} as const satisfies Record<string, QueryParameter>;
/** Of every route that changes something when it is posted to. */
const idempotencyKeyHeader = {
  "Idempotency-Key": t.optional(
    t.string({
      minLength: 1,
      maxLength: limits.idempotencyKeyCharsMax,
      description: "The same key and body again return the same response, without a second effect.",
    }),
  ),
};

/** Only if the resource is still as the caller read it. */
export const ifMatchHeaderOf = (subject: "draft" | "view") => ({
  "If-Match": t.optional(
    t.string({ maxLength: 256, description: `ETag that was read; refused if the ${subject} has changed since.` }),
  ),
});

/** Faults of any route that needs a token. */
export const authFaults = ["E.AUTH.MISSING_TOKEN", "E.AUTH.INVALID_TOKEN", "E.AUTH.FORBIDDEN", "E.INTERNAL"] as const;
export const readFaults = [...authFaults, "E.REQUEST.INVALID", "E.OVERLOADED"] as const;
export const writeFaults = [
  ...readFaults,
  "E.REQUEST.TOO_LARGE",
  "E.IDEMPOTENCY.MISMATCH",
  "E.STORE.BUSY",
  "E.SHUTTING_DOWN",
] as const;
/** Faults of routes that change one thing from a body. */
export const changeFaults = [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.CONFLICT"] as const;
