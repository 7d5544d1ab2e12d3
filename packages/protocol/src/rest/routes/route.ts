// The type of a row in the route tables, and the parameters, headers and faults that many rows share.

import Type, { type TSchema } from "typebox";
import type { FaultCode } from "../../faults/fault-codes.ts";
import { limits } from "../../json/limits.ts";
import { idString, integer, optional } from "../../schema/field-types.ts";

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
 * `operate`: control workers. `admin`: see and change everything of the tenant. `worker`: open sessions.
 */
export type Permission = "worker" | "view" | "read" | "edit" | "operate" | "admin";

export interface QueryParameter {
  readonly schema: TSchema;
  readonly default?: string | number | boolean;
  readonly description?: string;
}

/** One row of the table; its status is 200 unless the row says otherwise. */
export const route = <const M extends Route["method"], const R extends RouteRest>(
  method: M,
  path: string,
  rest: R & Readonly<Record<Exclude<keyof R, keyof Route>, never>>,
) => ({ method, path, status: 200, ...(rest as R) });
type RouteRest = Omit<Route, "method" | "path" | "status"> & Partial<Pick<Route, "status">>;

export const runIdParam = { runId: idString() };
export const nodeIdParam = {
  ...runIdParam,
  nodeId: idString("Id of the node; if the node runs more than once, the id or slot of a task."),
};
export const workflowIdParam = { workflowId: idString("Id of the workflow.") };
export const workerIdParam = { workerId: idString("Instance id of the worker.") };
export const pagingQuery = {
  limit: { schema: integer(1, limits.pageItemsMax), default: limits.pageItemsDefault },
  cursor: { schema: Type.String({ maxLength: 1_024 }), description: "nextCursor of the previous page." },
} as const satisfies Record<string, QueryParameter>;
export const idempotencyKeyHeader = {
  "Idempotency-Key": optional(
    Type.String({
      minLength: 1,
      maxLength: limits.idempotencyKeyCharsMax,
      description: "The same key and body again return the same response, without a second effect.",
    }),
  ),
};

/** Only if the resource is still as the caller read it. */
export const ifMatchHeaderOf = (subject: "draft" | "view") => ({
  "If-Match": optional(
    Type.String({ maxLength: 256, description: `ETag that was read; refused if the ${subject} has changed since.` }),
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
