// What a store keeps of a tenant, for operators. Both SQL stores count it.

import type { Millis, Position, Tenant } from "@astraflow/engine";

export interface KeptRows {
  readonly tenant: Tenant;
  readonly runs: number;
  readonly endedRuns: number;
  /** When the oldest run was created. */
  readonly oldestRunAt: Millis | null;
  /** Up to here entries of the log were removed, and where it ends. */
  readonly floor: Position;
  readonly head: Position;
  readonly keys: number;
  /** Workers that are lost or have left. */
  readonly goneWorkers: number;
}
