// Many workers in one process that hold a session each and are given nothing to do: the clients of the session bench. Each is the
// real link of our worker over a real socket, without packages and without a disk. It ends with the channel to its parent.

import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWorker, HandlerRegistry, type SessionWorker } from "@astraflow/runtime";

/** What the crowd is asked for. */
export interface CrowdAsk {
  readonly url: string;
  readonly sessions: number;
  /** New ones a second while the crowd is let in. */
  readonly perSecond: number;
}

/** What it says: sockets in session now, and, once all are, the instants (ms since the ask or the last loss) at which each became so. */
export type CrowdWord =
  | { readonly say: "all-ready"; readonly readyAt: readonly number[]; readonly resumed: number }
  | { readonly say: "all-lost" };

const crowd: SessionWorker[] = [];
const ready = new Set<number>();
let readyAt: number[] = [];
let since = performance.now();
let wanted = 0;
let resumed = 0;

function letIn(ask: CrowdAsk, at: number): void {
  const instance = `crowd-${String(at).padStart(5, "0")}`;
  const worker = createWorker({
    url: ask.url,
    identity: {
      tenant: "default",
      instance,
      name: instance,
      version: "0.1.0",
      hostname: "bench",
      boot: randomUUID(),
      auth: { mode: "token", token: "dev-token" },
    },
    capabilities: { maxParallel: 1, runtimes: ["node"], features: [] },
    loadedPackages: { packages: [], problems: [], handlers: new HandlerRegistry() },
    workRoot: join(tmpdir(), "astra-crowd"),
    environment: {
      now: () => performance.now(),
      wallClock: () => Date.now(),
      random: () => Math.random(),
      after(ms, call) {
        const timer = setTimeout(call, ms);
        return () => clearTimeout(timer);
      },
      defer: (call) => void setImmediate(call),
    },
    log(note) {
      if (note.event === "ready") return enter(at, note.details?.["isResumed"] === true);
      if (note.event === "lost" || note.event === "reset") leave(at);
    },
  });
  crowd.push(worker);
  worker.start();
}

function enter(at: number, isResumed: boolean): void {
  if (ready.has(at)) return;
  ready.add(at);
  readyAt.push(performance.now() - since);
  if (isResumed) resumed++;
  if (ready.size === wanted) process.send?.({ say: "all-ready", readyAt, resumed } satisfies CrowdWord);
}

function leave(at: number): void {
  if (ready.size === wanted) {
    since = performance.now();
    readyAt = [];
    resumed = 0;
  }
  if (ready.delete(at) && ready.size === 0) process.send?.({ say: "all-lost" } satisfies CrowdWord);
}

process.on("disconnect", () => process.exit(0));
process.on("message", (word) => {
  const ask = word as CrowdAsk;
  wanted = ask.sessions;
  since = performance.now();
  const stepMs = 100;
  const perStep = Math.max(1, Math.round((ask.perSecond * stepMs) / 1_000));
  const timer = setInterval(() => {
    for (let left = perStep; left > 0 && crowd.length < ask.sessions; left--) letIn(ask, crowd.length);
    if (crowd.length >= ask.sessions) clearInterval(timer);
  }, stepMs);
});
process.send?.("ready");
