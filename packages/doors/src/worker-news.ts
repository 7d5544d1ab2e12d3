// What the engine finds out about workers (late, lost, strained, full, cloned, and well again), as lines of the log.

import type { Link } from "./link.ts";
import type { Outside } from "./outside.ts";

/** The returned function ends that. */
export function logWorkerNews(link: Link, outside: Outside): () => void {
  return link.on("worker", ({ tenant, worker, event, isGood, data }) =>
    outside.log({ ...data, level: isGood ? "info" : "warn", event, tenant, sender: { id: worker.slice(tenant.length + 1) } }),
  );
}
