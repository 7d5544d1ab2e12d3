// The orders in which all stores show rows: by text, by place in a queue, by deadline, by what is counted.

import type { Millis, RowKey, TaskRow } from "@astraflow/engine";

export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export const compareIds = (a: { readonly id: string }, b: { readonly id: string }): number => compareText(a.id, b.id);

type QueuedTask = Pick<TaskRow, "band" | "rank" | "id">;

export const compareQueuedTasks = (a: QueuedTask, b: QueuedTask): number =>
  a.band - b.band || (a.rank ?? 0) - (b.rank ?? 0) || compareText(a.id, b.id);

export interface Deadline {
  readonly due: Millis;
  readonly key: RowKey;
}

/** Oldest first, ties by key. */
export const compareDeadlines = (a: Deadline, b: Deadline): number => a.due - b.due || compareText(a.key, b.key);

interface Count {
  readonly tenant: string;
  readonly phase: string;
  readonly draining?: boolean;
}

export const countKey = ({ tenant, phase, draining }: Count): string => `${tenant}\n${phase}\n${draining}`;

export const compareCounts = (a: Count, b: Count): number => compareText(countKey(a), countKey(b));
