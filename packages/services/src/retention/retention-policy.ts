// How long finished work is kept. One policy for every tenant; a tenant may have settings of its own.

import type { Millis } from "@astraflow/engine";

export interface RetentionPolicy {
  /** Finished runs with their tasks, output, dead letters and log entries, and other log entries; null: for ever. */
  readonly runsMs: Millis | null;
  /** Finished runs of a tenant, the newest ones; null: any number. */
  readonly runsMax: number | null;
  readonly keysMs: Millis | null;
  /** Workers that are lost or have left, since they were last seen. */
  readonly workersMs: Millis | null;
  /** Audit entries; null: for ever. */
  readonly auditMs: Millis | null;
}

const hourMs = 3_600_000;
export const defaultRetention: RetentionPolicy = {
  runsMs: 30 * 24 * hourMs,
  runsMax: null,
  keysMs: 24 * hourMs,
  workersMs: 7 * 24 * hourMs,
  auditMs: null,
};

/** A run that ended less than this ago is kept whatever the number of runs: its caller may still want the result. */
export const freshRunMs = 60_000;
