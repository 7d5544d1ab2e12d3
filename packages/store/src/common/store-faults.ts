// Faults that several stores answer, in the same words. `where` names the file or the server.

import { type Fault, fault } from "@astraflow/protocol";

export const foreignClusterFault = (
  place: string,
  cluster: string,
  given: string,
  where: Readonly<Record<string, string>> = {},
): Fault => fault("E.STORE.OPEN", `${place} belongs to cluster ${cluster}, not to ${given}`, { ...where, cluster, given });

/** Refuses tables that a newer program has made. */
export function refuseNewerSchema(place: string, schema: number, known: number, where: Readonly<Record<string, string>>): void {
  const advice = "start the newer version again, or restore a backup";
  if (schema > known)
    throw fault("E.STORE.SCHEMA_NEWER", `${place} has schema ${schema}, this program knows up to ${known}; ${advice}`, {
      ...where,
      schema,
      known,
    });
}

/** This process may no longer write: another one has opened its replica and taken over. */
export function supersededFault(replica: string, epoch: number, current: number | string): Fault {
  const message = `another process has opened replica ${replica} (epoch ${current}); this one (epoch ${epoch}) may no longer write`;
  return fault("E.STORE.IN_USE", message, { replica, epoch });
}

export const notSettledFault = (turn: number, why: string, cause: unknown): Fault =>
  fault("E.STORE.UNKNOWN_OUTCOME", `turn ${turn} cannot be settled yet: ${why}`, { turn }, cause);
