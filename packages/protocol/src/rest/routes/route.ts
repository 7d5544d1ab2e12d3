// The type of a row in the route tables, and the parameters, headers and faults that many rows share.

import type { TSchema } from "typebox";
import type { FaultCode } from "../../faults/fault-codes.ts";
import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { resourceLimits } from "../bodies/resource-bodies.ts";
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
  /** Another permission that will do as well. */
  readonly orGrant?: Permission;
  readonly isOpen?: true;
  /** The body's media type if it is not JSON, such as multipart/form-data. Such a body is streamed, never held whole. */
  readonly takes?: string;
  /** The fields of such a body. */
  readonly form?: TSchema;
  /** What such a body may have; absent: as much as one part of a file. */
  readonly bodyBytesMax?: number;
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
  /** What its value must be, in words, for refusals; absent: what the schema says. */
  readonly rule?: string;
}

/** The parameter that may have slashes in it; it ends its path. */
export const tailParameter = "resourcePath";

/** Every parameter that a path may have. */
const pathParameters = {
  bulkId: t.id(),
  commandId: t.id(),
  grantId: t.id(),
  installId: t.id("Id of an install on many workers."),
  keyId: t.id("Id of a public key."),
  nodeId: t.id("Id of the node; if the node runs more than once, the id or slot of a task."),
  packageId: t.id("Id of the workflow package."),
  packageName: t.id(),
  packageVersion: t.id("Version of the package."),
  partNumber: t.between(0, resourceLimits.partsMax - 1),
  resourceId: t.id(),
  resourcePath: t.id("Path of a file inside the package; slashes may stand as they are."),
  role: t.oneOf(userRoles),
  rolloutId: t.id(),
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

/** Parameters of a query that name a place in a list or in the log, which need not be there. */
const positionParameters: readonly string[] = ["cursor", "at", "after"];

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
  const row = withPositionFault({
    method,
    path,
    status: 200,
    params: Object.fromEntries(names.map((name) => [name, pathParameters[name]])),
    faults: method === "GET" ? lookupFaults : changeFaults,
    ...(isRepeatable && {
      headers: idempotencyKeyHeaderOf("The same key and body again return the same response, without a second effect."),
    }),
    ...(access === "open" ? { isOpen: true } : access !== "token" && { grant: access }),
    ...details,
  });
  return row as Route & RouteRow<P, D>;
}

function withPositionFault(row: Route): Route {
  const isPositioned =
    row.response !== undefined && Object.keys(row.query ?? {}).some((name) => positionParameters.includes(name));
  return isPositioned ? { ...row, faults: [...row.faults, "E.CURSOR.UNKNOWN"] } : row;
}

export const pagingQuery = {
  limit: { schema: t.between(1, limits.pageItemsMax), default: limits.pageItemsDefault },
  cursor: cursorQuery({ pattern: "^[A-Za-z0-9_-]+$" }),
} as const satisfies Record<string, QueryParameter>;
/** Of lists whose cursors are positions of the log. */
export const positionPagingQuery = { ...pagingQuery, cursor: cursorQuery({ pattern: "^[0-9]{1,15}$" }) };
/** Of lists of a run, whose cursors are ids of its tasks. */
export const taskPagingQuery = { ...pagingQuery, cursor: cursorQuery({ pattern: "^[^\\u0000-\\u001f\\u007f]+$" }) };
export const logCursorQuery = cursorQuery({ pattern: "^[0-9]{1,12}[.][0-9]{1,12}:[^\\u0000-\\u001f\\u007f]+$" });

function cursorQuery(format: { readonly pattern: string }) {
  const rule = "must be the nextCursor of a page before";
  const schema = t.string({ ...format, maxLength: limits.idCharsMax });
  return { schema, rule, description: "nextCursor of the previous page." } as const;
}

const pathRoot = "(parameters|results)";
/** Names that would reach the prototype of an object are no steps. */
const pathStepWithout = (signs: string) =>
  `(?!(__proto__|constructor|prototype)([${signs}]|$))[^${signs}\\u0000-\\u001f\\u007f]+`;
/** Where a value is inside a node. */
export const valuePathQuery = {
  schema: t.string({
    maxLength: limits.idCharsMax,
    pattern: `^(/${pathRoot}(/${pathStepWithout("/")})*|${pathRoot}([.]${pathStepWithout("./\\[\\]")}|\\[[0-9]{1,9}\\])*)$`,
  }),
  rule: "must begin with parameters or results and go on as in results.page.url or /results/page/url",
  description: "Under results or parameters, dotted or a JSON pointer.",
} as const;

/** Words to search for. */
export const searchQuery = (description: string) => ({ schema: t.line(limits.idCharsMax), description });

const datePattern = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
const minutesPattern = "([01][0-9]|2[0-3]):[0-5][0-9]";
const clockPattern = `${minutesPattern}(:[0-5][0-9]([.][0-9]{1,9})?)?`;
const zonePattern = `([zZ]|[+-]${minutesPattern})`;
/** A date, or a time of a day, with its zone or in that of the scheduler. */
export const timeQuery = (description: string) => ({
  schema: t.string({ maxLength: 64, pattern: `^${datePattern}([T ]${clockPattern}${zonePattern}?)?$` }),
  rule: "must be a date or a time such as 2026-01-31T12:00:00Z",
  description,
});
/** With a zone: the same text must mean the same instant for every reader. */
export const instantQuery = (description: string) => ({
  ...timeQuery(description),
  schema: t.string({ maxLength: 64, pattern: `^${datePattern}T${clockPattern}${zonePattern}$` }),
});
/** Of lists that dashboards of the field ask for once, because there they have no pages. */
export const fullPageQuery = {
  ...pagingQuery,
  limit: { ...pagingQuery.limit, default: limits.pageItemsMax },
} as const satisfies Record<string, QueryParameter>;
/** Of every route that changes something when it is posted to. Those that keep nothing under the key say what it does there. */
export const idempotencyKeyHeaderOf = (description: string) => ({
  "Idempotency-Key": t.optional(
    t.string({ minLength: 1, maxLength: limits.idempotencyKeyCharsMax, pattern: "^[!-~]+$", description }),
  ),
});

const entityTag = '(W/)?"[!#-~]{0,64}"';
/** Only if the resource is still as the caller read it. */
export const ifMatchHeaderOf = (subject: "draft" | "view") => ({
  "If-Match": t.optional(
    t.string({
      pattern: `^([*]|${entityTag}( ?, ?${entityTag}){0,9})$`,
      description: `ETag that was read, or up to ten; refused if the ${subject} has changed since. With * any will do.`,
    }),
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
