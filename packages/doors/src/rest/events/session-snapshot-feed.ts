// The snapshots that a reader with a client session gets before anything else, one run at a time, and which later events they already include.

import { type EventLookup, isPartOfSnapshot, type StreamEvent, snapshotEventsOf } from "@astraflow/services";
import type { EventStream } from "../requests/event-stream.ts";
import type { EventFilter } from "./event-filter.ts";

/** Indexes from here on belong to no event of a fact: a reader that returns with one was cut off among its snapshots and gets them again. */
export const snapshotIndexMin = 900_000;

export interface SessionSnapshotOptions {
  readonly lookup: EventLookup;
  readonly tenant: string;
  readonly filter: EventFilter;
  /** Oldest first. */
  readonly runIds: readonly string[];
  /** Where the stream continues after the snapshots. */
  readonly position: number;
}

export class SessionSnapshotFeed {
  readonly #options: SessionSnapshotOptions;
  readonly #asOf = new Map<string, number>();
  #runIndex = 0;
  #sentCount = 0;

  constructor(options: SessionSnapshotOptions) {
    this.#options = options;
  }

  get isDone(): boolean {
    return this.#runIndex >= this.#options.runIds.length;
  }

  /** Sends the events of the next run. It is read now, so it may be newer than the position that the stream continues at. */
  async sendNext(stream: EventStream): Promise<void> {
    const { lookup, tenant, filter, runIds, position } = this.#options;
    const runId = runIds[this.#runIndex];
    if (runId === undefined) return;
    const snapshot = await snapshotEventsOf(lookup, tenant, runId);
    this.#runIndex += 1;
    if (snapshot === null) return;
    this.#asOf.set(runId, snapshot.asOf);
    for (const event of snapshot.events.filter(filter)) {
      const { type, occurredAt, scope, data } = event;
      const id = `${position - 1}.${snapshotIndexMin + this.#sentCount}`;
      this.#sentCount += 1;
      const body = { version: "v1", id, type, occurredAt, scope, replayed: true, data };
      stream.send({ id, type, data: JSON.stringify(body) });
    }
  }

  /** Whether the reader has the content of this event already, in the snapshot of its run. */
  includes(position: number, event: StreamEvent): boolean {
    const asOf = this.#asOf.get(event.scope.runId ?? "");
    return asOf !== undefined && position <= asOf && isPartOfSnapshot(event);
  }
}
