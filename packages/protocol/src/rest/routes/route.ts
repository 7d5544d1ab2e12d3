// What the tables of routes are made of: the shape of a row, and the parameters, headers and faults that many rows share.

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
  /** Other answers that are no refusal, by status; null: without a body. */
  readonly also?: Readonly<Record<number, TSchema | null>>;
  readonly faults: readonly FaultCode[];
  /** What the caller must be allowed to do; absent: any token will do, or none at all where the route is open. */
  readonly grant?: Permission;
  readonly isOpen?: true;
  /** The body's media type where it is not JSON, such as multipart/form-data. Such a body is read as it comes, never whole. */
  readonly takes?: string;
}

/**
 * What a caller may be allowed to do. `view` sees runs and workers, `read` sees workflows, packages and resources, `edit` changes them and
 * starts runs, `operate` steers workers, `admin` sees and changes what concerns everyone; `worker` opens sessions.
 */
export type Permission = "worker" | "view" | "read" | "edit" | "operate" | "admin";

export interface QueryParameter {
  readonly schema: TSchema;
  readonly default?: string | number | boolean;
  readonly description?: string;
}

export const runIdParam = { runId: idString() };
export const workerIdParam = { workerId: idString("Instance id of the worker.") };
export const pagingQuery = {
  limit: { schema: integer(1, limits.pageItemsMax), default: limits.pageItemsDefault },
  cursor: { schema: Type.String({ maxLength: 1_024 }), description: "nextCursor of the page before." },
} as const satisfies Record<string, QueryParameter>;
export const idempotencyKeyHeader = {
  "Idempotency-Key": optional(
    Type.String({
      minLength: 1,
      maxLength: limits.idempotencyKeyCharsMax,
      description: "The same key and body again give the same answer and no second effect.",
    }),
  ),
};

/** What any route that asks for a token may answer. */
export const authFaults = ["E.AUTH.MISSING_TOKEN", "E.AUTH.INVALID_TOKEN", "E.AUTH.FORBIDDEN", "E.INTERNAL"] as const;
export const readFaults = [...authFaults, "E.REQUEST.INVALID", "E.OVERLOADED"] as const;
export const writeFaults = [
  ...readFaults,
  "E.REQUEST.TOO_LARGE",
  "E.IDEMPOTENCY.MISMATCH",
  "E.STORE.BUSY",
  "E.SHUTTING_DOWN",
] as const;
