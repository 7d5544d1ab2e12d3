// Audit entries of orders that are refused before they reach the engine, which records its own refusals. What does not exist, or is another
// tenant's, leaves no entry: the engine looks.

import type { AuditEntry } from "@astraflow/engine";
import { Fault, faultCodes } from "@astraflow/protocol";
import type { EngineClient } from "../environment/engine-client.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { writeDocuments } from "./documents.ts";

/** Does the work; where it is refused the audit gets the order with the refusal's code. Failures of the store or engine (5xx) are not recorded. */
export async function auditRefusal<T>(
  engineClient: EngineClient,
  caller: Caller,
  audit: AuditEntry,
  work: () => T | Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (why) {
    if (!(why instanceof Fault) || faultCodes[why.code].http >= 500) throw why;
    // If the refusal cannot be stored, the caller gets that error and can retry.
    await writeDocuments(engineClient, actorOf(caller), { audit: { ...audit, outcome: why.code } });
    throw why;
  }
}

/** An order about a run, in the words of the audit. */
export const runAudit = (action: string, run: string, data: Readonly<Record<string, unknown>>): AuditEntry => ({
  action,
  targetType: "run",
  target: run,
  data: Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined)),
});
