// Many workers in one process that hold a session each and get no work: the clients of the session bench. Each one is the real worker link over a real
// socket, without packages and without a disk. Ends with the channel to its parent.

import { randomBytes, randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWorker, HandlerRegistry, type SessionWorker } from "@astraflow/runtime";

/** What the parent asks of the idle workers. */
export interface IdleWorkersRequest {
  readonly url: string;
  readonly sessions: number;
  /** New sessions per second. */
  readonly perSecond: number;
}

/** What it says: sockets in session now, and, once all are, the instants (ms since the ask or the last loss) at which each became so. */
export type IdleWorkersMessage =
  | { readonly say: "all-ready"; readonly readyAt: readonly number[]; readonly resumed: number }
  | { readonly say: "all-lost" };

const idleWorkers: SessionWorker[] = [];
const readyWorkers = new Set<number>();
let readyAt: number[] = [];
let measuredSince = performance.now();
let wantedSessions = 0;
let resumed = 0;

function startWorker(request: IdleWorkersRequest, at: number): void {
  const instance = `crowd-${String(at).padStart(5, "0")}`;
  const worker = createWorker({
    url: request.url,
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
      randomBytes,
      after(ms, call) {
        const timer = setTimeout(call, ms);
        return () => clearTimeout(timer);
      },
      defer: (call) => void setImmediate(call),
    },
    log(note) {
      if (note.event === "ready") return recordReady(at, note.details?.["isResumed"] === true);
      if (note.event === "lost" || note.event === "reset") recordLost(at);
    },
  });
  idleWorkers.push(worker);
  worker.start();
}

function recordReady(at: number, isResumed: boolean): void {
  if (readyWorkers.has(at)) return;
  readyWorkers.add(at);
  readyAt.push(performance.now() - measuredSince);
  if (isResumed) resumed++;
  if (readyWorkers.size === wantedSessions) process.send?.({ say: "all-ready", readyAt, resumed } satisfies IdleWorkersMessage);
}

function recordLost(at: number): void {
  if (readyWorkers.size === wantedSessions) {
    measuredSince = performance.now();
    readyAt = [];
    resumed = 0;
  }
  if (readyWorkers.delete(at) && readyWorkers.size === 0) process.send?.({ say: "all-lost" } satisfies IdleWorkersMessage);
}

process.on("disconnect", () => process.exit(0));
process.on("message", (message) => {
  const request = message as IdleWorkersRequest;
  wantedSessions = request.sessions;
  measuredSince = performance.now();
  const stepMs = 100;
  const perStep = Math.max(1, Math.round((request.perSecond * stepMs) / 1_000));
  const timer = setInterval(() => {
    for (let left = perStep; left > 0 && idleWorkers.length < request.sessions; left--) startWorker(request, idleWorkers.length);
    if (idleWorkers.length >= request.sessions) clearInterval(timer);
  }, stepMs);
});
process.send?.("ready");
