// Faults as callers may see them: internal details (statements, paths, stacks) stay in the log.

import type { FaultData } from "@astraflow/engine";
import { type FaultCode, faultCodes, isFaultCode } from "@astraflow/protocol";

export interface PublicFault extends FaultData {
  readonly code: FaultCode;
}

/** The fault table explains a code; a caller wants to know what became of the request. */
const storeMessages: Partial<Record<FaultCode, string>> = {
  "E.STORE.BUSY": "The store is unavailable or read-only. Nothing was changed; try again.",
  "E.STORE.DURABILITY": "The store cannot guarantee durability, so nothing was written. An operator must check it.",
};

/** Operators and callers are often the same people, and this one they can mend. */
const diskFullMessage = "The disk of the scheduler's store is full. Nothing was changed; free some space, then try again.";

/** Internal faults get a general message; every other fault keeps its own. An unknown code is E.INTERNAL. */
export function toPublicFault(
  data: Pick<FaultData, "code" | "message"> & { readonly details?: PublicFault["details"] | undefined },
): PublicFault {
  const code = isFaultCode(data.code) ? data.code : "E.INTERNAL";
  if (faultCodes[code].http === 500 || code.startsWith("E.STORE."))
    return {
      code,
      message: data.details?.["isDiskFull"] === true ? diskFullMessage : (storeMessages[code] ?? faultCodes[code].cause),
    };
  return { code, message: data.message, ...(data.details !== undefined && { details: data.details }) };
}

/** Whether the same request may succeed later. */
export const isRetryable = (data: FaultData): boolean => !isFaultCode(data.code) || faultCodes[data.code].retry;
