// A scheduler of the postgres bench as a process of its own: engine, store and the load's workers, without sockets. Started by contenders.ts with its
// settings as one argument; gets the amount of work over its channel and ends with it.

import { openPostgres } from "@astraflow/store";
import { PostgresLoad, type PostgresLoadShape } from "./postgres-load.ts";

export interface SchedulerChildSettings extends PostgresLoadShape {
  readonly url: string;
  readonly replica: string;
}

/** Sums since the start. */
export interface SchedulerChildCounts {
  readonly turns: number;
  readonly commits: number;
  readonly statements: number;
  readonly roundTrips: number;
  readonly rows: number;
  readonly problems: Readonly<Record<string, number>>;
}

export type ChildRequest = { readonly run: number } | "sums";
export type ChildMessage =
  | { readonly said: "ready" }
  | { readonly said: "ended"; readonly ended: number }
  | { readonly said: "sums"; readonly sums: SchedulerChildCounts }
  | { readonly said: "failed"; readonly message: string };

const settings = JSON.parse(process.argv[2] ?? "{}") as SchedulerChildSettings;
const sendToParent = (message: ChildMessage) => process.send?.(message);
const store = openPostgres({ url: settings.url, connections: settings.turnsInFlight });
const load = new PostgresLoad(store, settings.replica, settings);
load.onEnded = (ended) => sendToParent({ said: "ended", ended });
load.onFailed = ({ message }) => sendToParent({ said: "failed", message });
process.on("message", (request: ChildRequest) => {
  if (request === "sums") sendToParent({ said: "sums", sums: { ...store.stats(), problems: load.problems } });
  else load.addTasks(request.run);
});
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());
await load.start();
sendToParent({ said: "ready" });
