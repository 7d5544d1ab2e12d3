// A session worker, whole: link, socket, the runner of its handlers and the clock wired together. Config, logs and signals belong to the
// app. createWorker keeps all in one thread, for the simulator and tests; createThreadedWorker gives the handlers a thread of their own.

import path from "node:path";
import type { Attempt } from "./attempt.ts";
import { type DialEvents, Dialler, type Dialling, type TlsFiles } from "./dial.ts";
import { createGroupWatch, type GroupWatch } from "./group-watch.ts";
import { Host } from "./host.ts";
import { spawnHost } from "./host-spawn.ts";
import type { HostShelf } from "./host-words.ts";
import { Link } from "./link.ts";
import {
  type Announced,
  type LinkCounter,
  type LinkIdentity,
  type LinkInventory,
  type LinkNote,
  type LinkOffer,
  type LinkSettings,
  type LinkView,
  linkDefaults,
  type Vitals,
} from "./link-ports.ts";
import type { OutboxDisk } from "./outbox-disk.ts";
import { type KeeperNote, OutboxKeeper } from "./outbox-keeper.ts";
import type { Outside } from "./outside.ts";
import { offerPackages, type PackageShelf } from "./packages.ts";
import { lostWith } from "./removed-resources.ts";
import { type ResourceSettings, resourceDefaults } from "./resource.ts";
import { createLocalRunner, type Runner, type RunnerEars } from "./runner.ts";

interface CommonOptions {
  /** Where the scheduler is; of several replicas each new session dials the next. */
  readonly url: string | readonly string[];
  readonly identity: LinkIdentity;
  readonly offer: Omit<LinkOffer, "packages" | "manifests">;
  /** Results are kept here until they are acked, and survive this process; absent: they are kept in memory only. */
  readonly outbox?: OutboxDisk;
  /** Attempts get directories of their own below this. */
  readonly workRoot: string;
  /** What handlers keep for later lies here; absent: beside the attempts' directories. */
  readonly resourceDir?: string;
  readonly resources?: Partial<Omit<ResourceSettings, "workerName">>;
  readonly outside: Outside;
  readonly settings?: Partial<LinkSettings>;
  /** The line to the scheduler; a WebSocket to `url` where absent. */
  readonly dial?: (events: DialEvents) => Dialling;
  /** Certificates for `wss:`, read anew at each dial. */
  readonly tls?: () => TlsFiles;
  /** Numbers for the heartbeat, and what is wrong with this worker. Cheap, and never throws. */
  readonly vitals?: (announced: Announced) => Vitals;
  readonly count?: (name: LinkCounter) => void;
  /** The outcome of an attempt is known, so many milliseconds after its handler was to be called. */
  readonly ended?: (nodeType: string, durationMs: number) => void;
  /** Every note of the link, and problems of runner and outbox. Must not throw. */
  readonly note: (note: LinkNote | WorkerNote) => void;
}

export interface WorkerOptions extends CommonOptions {
  readonly shelf: PackageShelf;
}

export interface ThreadedWorkerOptions extends CommonOptions {
  /** Packages are read and imported by the thread that will call them. */
  readonly packagesDir: string;
  /** What the heap of that thread may grow to; absent: as Node decides. */
  readonly heapMbMax?: number;
}

export type WorkerNote =
  | KeeperNote
  | {
      readonly level: "warn";
      readonly event: "executor";
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

export interface Worker {
  /** Dials, once it has read what an earlier process left in the outbox. One that is damaged ends the worker before it began. */
  begin(): void;
  /** Takes no new work and ends when all is finished and acked; at the latest after so long. */
  leave(graceMs: number): void;
  /** Ends now; what runs is given back. */
  stop(): void;
  /** Resolves once the link is closed for good, its socket is gone and its handlers were told to let go. */
  readonly closed: Promise<void>;
  readonly view: LinkView;
  inventory(): LinkInventory;
  /** Whether results can be kept; true where they are kept in memory only. */
  readonly isOutboxWritable: boolean;
}

export interface ThreadedWorker extends Worker {
  /** What the handlers' thread has loaded. */
  readonly shelf: HostShelf;
  /** How full the memory of the handlers' thread is, in percent; null where it is not known. */
  readonly heapPct: number | null;
  /** For how long the handlers' thread has not got to a question: the sign that a handler blocks it. */
  readonly lagMs: number;
  /** After `closed`: the handlers' thread sits in a call into the system and cannot be ended; only the end of the process ends it. */
  readonly isStuck: boolean;
}

const tickMsMax = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { shelf, outside } = options;
  const settings = { ...handlerSettings(options), shelf, outside, watch: watchFor(options) };
  return assemble(
    options,
    (ears) => createLocalRunner(ears, settings),
    () => offerPackages(shelf),
  );
}

/**
 * The link has this thread to itself: a handler that blocks its own never looks like a dead worker, and one that ends it takes no
 * session with it. Resolves once the packages are loaded; rejects where that ended their thread.
 */
export async function createThreadedWorker(options: ThreadedWorkerOptions): Promise<ThreadedWorker> {
  const { packagesDir, heapMbMax } = options;
  const settings = { ...handlerSettings(options), packagesDir, ...(heapMbMax !== undefined && { heapMbMax }) };
  const host = new Host({
    outside: options.outside,
    spawn: (ears) => spawnHost(settings, ears),
    watch: watchFor(options),
  });
  try {
    await host.open();
  } catch (problem) {
    await host.close();
    throw problem;
  }
  const begin = (ears: RunnerEars) => {
    host.listen(ears);
    return host;
  };
  const worker = assemble(options, begin, () => offerPackages(host.shelf));
  return Object.defineProperties(worker, {
    shelf: { get: () => host.shelf },
    heapPct: { get: () => host.heapPct },
    lagMs: { get: () => host.lagMs },
    isStuck: { get: () => host.isStuck },
  }) as ThreadedWorker;
}

const watchFor = ({ note }: CommonOptions): GroupWatch =>
  createGroupWatch(({ message, cause }) =>
    note({ level: "warn", event: "executor", message, details: { cause: String(cause) } }),
  );

function handlerSettings({ workRoot, identity, resources, resourceDir = path.join(workRoot, "kept") }: CommonOptions) {
  return {
    tenant: identity.tenant,
    workRoot: path.join(workRoot, identity.boot),
    resourceDir,
    resources: { ...resourceDefaults, ...resources, workerName: identity.name },
  };
}

function assemble(
  options: CommonOptions,
  makeRunner: (ears: RunnerEars) => Runner,
  offered: () => Pick<LinkOffer, "packages" | "manifests">,
): Worker {
  const { outside } = options;
  let cancelTick = () => {};
  let cancelGrace = () => {};
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<void>();

  const startedAt = new Map<Attempt, number>();
  const runner = makeRunner({
    finished(attempt, outcome) {
      const at = startedAt.get(attempt);
      if (at !== undefined && startedAt.delete(attempt)) options.ended?.(attempt.dispatch.node_type, outside.now() - at);
      link.finished(attempt, outcome);
    },
    settled: (attempt) => link.settled(attempt),
    feedback: (attempt, input) => link.feedback(attempt, input),
    next: (attempt, draft, answer) => link.next(attempt, draft, answer),
    ext: (draft) => link.sendExt(draft),
    removed: (resource, reason) => link.removed(resource, reason),
    report: ({ message, cause }) =>
      options.note({ level: "warn", event: "executor", message, details: { cause: String(cause) } }),
    changed: () => link.healthChanged(),
  });

  const events: DialEvents = {
    opened: () => link.opened(),
    received: (text) => link.received(text),
    lost: (reason, hint) => link.lost(reason, hint),
  };
  const dialler =
    options.dial?.(events) ??
    new Dialler([options.url].flat(), events, outside, options.tls === undefined ? {} : { tls: options.tls });

  const keeper =
    options.outbox === undefined
      ? null
      : new OutboxKeeper({ disk: options.outbox, outside, note: options.note, changed: () => link.healthChanged() });

  const link: Link = new Link({
    ports: {
      now: outside.now,
      stamp: createStamp(outside.wall),
      roll: outside.roll,
      dial: (hint) => dialler.dial(hint),
      send: (text) => dialler.send(text),
      buffered: () => dialler.buffered?.() ?? 0,
      hangUp: (code, reason) => dialler.hangUp(code, reason),
      wake(at) {
        cancelTick();
        // A tick too early only asks again, so the cap costs nothing and no timer overflows.
        cancelTick = outside.after(Math.min(Math.max(0, Math.ceil(at - outside.now())), tickMsMax), () => link.tick());
      },
      // After all that one poll of the sockets brought in: frames that came together are acked together.
      soon: () => outside.soon(() => link.flush()),
      start(attempt) {
        if (options.ended !== undefined) startedAt.set(attempt, outside.now());
        runner.start(attempt);
      },
      vitals(announced) {
        const { metrics, problems } = options.vitals?.(announced) ?? { metrics: {}, problems: [] };
        const all = runner.problems.length === 0 ? problems : [...problems, ...runner.problems];
        return { metrics: { ...metrics, ...runner.metrics }, problems: all };
      },
      ext: (frame) => runner.hearExt(frame),
      count: options.count ?? (() => {}),
      note(note) {
        options.note(note);
        if (note.event === "closed") end();
      },
    },
    identity: options.identity,
    offer: () => ({ ...options.offer, ...offered(), resources: runner.kept }),
    settings: { ...linkDefaults, ...options.settings },
    keeping: keeper,
  });

  const begin = async (outbox: OutboxKeeper): Promise<void> => {
    const left = await outbox.open();
    if (link.view.phase === "CLOSED") return;
    if (left === null) return link.stop();
    link.recall(left);
    for (const resource of lostWith(left, new Set(runner.kept))) link.removed(resource, "lost");
    link.begin();
  };

  function end(): void {
    cancelTick();
    cancelGrace();
    // What was sent last must leave before the process does.
    void Promise.all([dialler.closed(), keeper?.close(), runner.close()]).then(() => resolveClosed());
  }

  return {
    begin: () => (keeper === null ? link.begin() : void begin(keeper)),
    leave(graceMs) {
      link.leave();
      if (link.view.phase !== "CLOSED") cancelGrace = outside.after(graceMs, () => link.stop());
    },
    stop: () => link.stop(),
    closed,
    get view() {
      return link.view;
    },
    inventory: () => link.inventory(),
    get isOutboxWritable() {
      return keeper?.isHealthy ?? true;
    },
  };
}

/** Writing a date costs more than the rest of an envelope; within one millisecond it is the same text. */
function createStamp(wallNow: () => number): () => string {
  let at = -1;
  let text = "";
  return () => {
    const wall = wallNow();
    if (wall !== at) {
      at = wall;
      text = new Date(wall).toISOString();
    }
    return text;
  };
}
