// Errors between handlers and the worker. They are recognised by name and code: a package may have another copy of these classes.

import type { JsonObject } from "./json.ts";

/**
 * Fails the task with a code of docs/faults.md, such as `E.PARAMS.INVALID`; any other error fails it with `E.RUNNER.FAILURE`. Whether the
 * task is tried again is decided by the retry policy of its node, which may list codes.
 */
export class TaskError extends Error {
  override readonly name = "TaskError";
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What `next` throws: the inner call failed, was cancelled or skipped, ran out of time, or could not be made. */
export class NextError extends Error {
  override readonly name = "NextError";
  /** `next_failed`, `next_timeout` and their like, or the code that the inner call failed with. */
  readonly code: string;
  readonly trace: JsonObject;

  constructor(code: string, message: string, trace: JsonObject = {}) {
    super(message);
    this.code = code;
    this.trace = trace;
  }
}

export const isNextError = (thrown: unknown): thrown is NextError => thrown instanceof Error && thrown.name === "NextError";
