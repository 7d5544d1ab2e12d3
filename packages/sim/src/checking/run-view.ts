// Runs as reads of the API show them, as far as checkers look at them.

import type { ApiExchange } from "./checker.ts";

export interface ShownNode {
  readonly nodeId: string;
  readonly taskId: string;
  readonly status: string;
  readonly fence?: number;
  readonly attempt?: number;
  readonly result?: unknown;
  /** Why it was not run. */
  readonly why?: string;
}

export interface ShownRun {
  readonly runId: string;
  readonly status: string;
  readonly clientId: string;
  readonly repeatOf?: string;
  readonly openTasks?: number;
  readonly nodesNextCursor?: string | null;
  /** A list shows none. */
  readonly nodes?: readonly ShownNode[];
}

export const endedStatuses: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "skipped"]);

/** The run, or the page of a list of runs, that an exchange shows; none for other exchanges. */
export function runsShownBy({ call, answer }: ApiExchange): readonly ShownRun[] {
  if (answer.status !== 200) return [];
  if (call.route === "getRun") return [answer.body as ShownRun];
  return call.route === "listRuns" ? (answer.body as { items: readonly ShownRun[] }).items : [];
}

/** False for an answer that was lost, and for one that says nothing but that the caller should try again. */
export const isFinalAnswer = ({ status }: { readonly status: number }): boolean => status !== 0 && status !== 429 && status < 500;

/** Equal for values that differ only in the order of their keys. `isLeftOut`: fields that do not count. */
export function canonicalJson(value: unknown, isLeftOut: (name: string, owner: object) => boolean = () => false): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const fields = Object.entries(inner).filter(([name]) => !isLeftOut(name, inner));
    return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
