// A fault in words that may leave the house: what broke inside (statements, paths, stacks) stays in the log.

import type { FaultData } from "@astraflow/engine";
import { type FaultCode, faultCodes, isFaultCode } from "@astraflow/protocol";

export interface PublicFault {
  readonly code: FaultCode;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The table says what a code means; whoever waits for an answer wants to know what became of the request. */
const storeMessages: Partial<Record<FaultCode, string>> = {
  "E.STORE.BUSY": "The store is away or takes no changes at this moment; nothing was changed. Try again.",
  "E.STORE.DURABILITY":
    "The store does not promise to keep what it is given, so it is given nothing; nothing was changed. An operator must look at it.",
};

/** What broke inside is said in a sentence of the house; every other fault keeps its own. A code nobody knows is E.INTERNAL. */
export function toPublicFault(data: FaultData): PublicFault {
  const code = isFaultCode(data.code) ? data.code : "E.INTERNAL";
  if (faultCodes[code].http === 500 || code.startsWith("E.STORE."))
    return { code, message: storeMessages[code] ?? faultCodes[code].cause };
  return { code, message: data.message, ...(data.details !== undefined && { details: data.details }) };
}

/** Whether the same word, said again later, may be taken. */
export const isRetryable = (data: FaultData): boolean => !isFaultCode(data.code) || faultCodes[data.code].retry;
