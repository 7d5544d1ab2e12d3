// Orders that a door itself refuses, about something that is there: what the engine refuses it keeps in the audit by itself, these are told to
// it afterwards. What does not exist, or is another tenant's, leaves no entry: the engine looks.

import type { AuditEntry } from "@astraflow/engine";
import { Fault, faultCodes } from "@astraflow/protocol";
import type { EngineClient } from "../environment/engine-client.ts";
import type { Caller } from "../identity/caller.ts";

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
    const { tenant, user: by } = caller.identity;
    // If the refusal cannot be stored, the caller gets that error and can retry.
    await engineClient.request({
      type: "docs.write",
      tenant,
      by,
      corr: caller.requestId,
      puts: [],
      audit: { ...audit, outcome: why.code },
    });
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
