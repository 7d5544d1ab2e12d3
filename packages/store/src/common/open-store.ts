// A store that reads outside of turns through a reader of its own, which it has while it is open, and that somebody keeps small.

import type {
  EventPage,
  EventQuery,
  Millis,
  PageOf,
  PageQuery,
  Position,
  Store,
  StoreHint,
  StoreReader,
  Tenant,
} from "@astraflow/engine";

/** What a store offers beyond the engine's port. `Count` is a number, or a promise of one. */
export interface MaintainedStore<Stats, Count> extends Store {
  stats(): Readonly<Stats>;
  /** Removes the log of a tenant up to a position; answers how many rows went. Call again until it answers 0. */
  trim(tenant: Tenant, floor: Position): Count;
  /** Removes what tasks printed before an instant; answers how many rows went. Call again until it answers 0. */
  trimChunks(before: Millis): Count;
}

export abstract class OpenStore<Opened extends { readonly reader: StoreReader }> {
  protected opened: Opened | null = null;
  protected hintListener: (hint: StoreHint) => void = () => undefined;

  events(query: EventQuery): Promise<EventPage> {
    return this.requireOpen().reader.events(query);
  }

  page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.requireOpen().reader.page(query);
  }

  onHint(listener: (hint: StoreHint) => void): void {
    this.hintListener = listener;
  }

  protected requireOpen(): Opened {
    if (this.opened === null) throw new Error("the store is not open");
    return this.opened;
  }
}
