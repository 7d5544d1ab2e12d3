import type { Store } from "@astraflow/engine";

/** A store that is passed through but for the calls a test replaces. */
export const overrideStore = (store: Store, changes: Partial<Store>): Store => ({
  open: (me) => store.open(me),
  begin: (want) => store.begin(want),
  settle: (turn) => store.settle(turn),
  onHint: (listener) => store.onHint(listener),
  remove: (slice) => store.remove(slice),
  events: (query) => store.events(query),
  page: (query) => store.page(query),
  close: () => store.close(),
  ...changes,
});
