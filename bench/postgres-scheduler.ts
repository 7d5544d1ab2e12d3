// A scheduler of the postgres bench as a process of its own: engine, store and the load's workers, without sockets. Started by
// postgres-sides.ts with its settings as one word; told over its channel how much to do; ends with that channel.

import { openPostgres } from "@astraflow/store";
import { type LoadShape, PostgresLoad } from "./postgres-load.ts";

export interface SchedulerSettings extends LoadShape {
  readonly url: string;
  readonly replica: string;
}

/** Sums since the start. */
export interface SchedulerSums {
  readonly turns: number;
  readonly commits: number;
  readonly statements: number;
  readonly roundTrips: number;
  readonly rows: number;
  readonly problems: Readonly<Record<string, number>>;
}

export type ChildAsk = { readonly run: number } | "sums";
export type ChildWord =
  | { readonly said: "ready" }
  | { readonly said: "ended"; readonly ended: number }
  | { readonly said: "sums"; readonly sums: SchedulerSums }
  | { readonly said: "failed"; readonly message: string };

const settings = JSON.parse(process.argv[2] ?? "{}") as SchedulerSettings;
const say = (word: ChildWord) => process.send?.(word);
const store = openPostgres({ url: settings.url, lanes: settings.turnsInFlight });
const load = new PostgresLoad(store, settings.replica, settings);
load.onEnded = (ended) => say({ said: "ended", ended });
load.onFailed = ({ message }) => say({ said: "failed", message });
process.on("message", (ask: ChildAsk) => {
  if (ask === "sums") say({ said: "sums", sums: { ...store.stats(), problems: load.problems } });
  else load.run(ask.run);
});
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());
await load.start();
say({ said: "ready" });
