// The one error type that crosses packages and wires. A broken invariant of our own is not a Fault: assert it.

import { type FaultCode, faultCodes } from "./fault-codes.ts";

export type FaultDetails = Readonly<Record<string, unknown>>;

/** Something refused or failed in a way that a caller can act on. Branch on `code`, never on the words. */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly details: FaultDetails | undefined;

  constructor(code: FaultCode, message: string, details?: FaultDetails, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }

  /** The body of an error answer. The cause and the stack stay home: they may hold paths, statements or secrets. */
  toJSON(): { error: FaultCode; message: string; details?: FaultDetails } {
    const body = { error: this.code, message: this.message };
    return this.details === undefined ? body : { ...body, details: this.details };
  }

  /** Whether the same request, unchanged, may succeed later. */
  get isRetryable(): boolean {
    return faultCodes[this.code].retry;
  }
}

export const errorMessage = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

export function fault(code: FaultCode, message: string, details?: FaultDetails, cause?: unknown): Fault {
  return new Fault(code, message, details, cause);
}
