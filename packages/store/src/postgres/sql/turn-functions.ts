// The two functions of a turn under the names that this version of the program calls them by.

import { createHash } from "node:crypto";
import { createBeginFunctionSql } from "./begin-function.ts";
import { callCommitFunctionSql, createCommitFunctionSql } from "./commit-function.ts";

/**
 * A function's name holds the digest of its text: two versions of this program may work on one database side by side, each with its
 * own, as long as the tables suit both.
 */
function versionedFunction(base: string, textOf: (name: string) => string): { name: string; sql: string } {
  const digest = createHash("sha256").update(textOf(base)).digest("hex").slice(0, 12);
  const name = `${base}_${digest}`;
  return { name, sql: textOf(name) };
}

export const beginTurnFunction = versionedFunction("turn_begin", createBeginFunctionSql);
export const commitTurnFunction = versionedFunction("turn_commit", createCommitFunctionSql);
export const commitTurnSql = callCommitFunctionSql(commitTurnFunction.name);
