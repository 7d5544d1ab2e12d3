// A session worker, whole: link, socket, executor and the clock wired together. Config, logs and signals belong to the app.

import path from "node:path";
import { type DialEvents, Dialler, type Dialling } from "./dial.ts";
import { Executor } from "./executor.ts";
import { Link } from "./link.ts";
import {
  type LinkIdentity,
  type LinkNote,
  type LinkOffer,
  type LinkSettings,
  type LinkView,
  linkDefaults,
} from "./link-ports.ts";
import type { OutboxDisk } from "./outbox-disk.ts";
import { type KeeperNote, OutboxKeeper } from "./outbox-keeper.ts";
import type { Outside } from "./outside.ts";
import { offerPackages, type PackageShelf } from "./packages.ts";

export interface WorkerOptions {
  /** Where the scheduler is; of several replicas each dial takes the next. */
  readonly url: string | readonly string[];
  readonly identity: LinkIdentity;
  readonly offer: Omit<LinkOffer, "packages" | "manifests">;
  readonly shelf: PackageShelf;
  /** Results are kept here until they are acked, and survive this process; absent: they are kept in memory only. */
  readonly outbox?: OutboxDisk;
  /** Attempts get directories of their own below this. */
  readonly workRoot: string;
  readonly outside: Outside;
  readonly settings?: Partial<LinkSettings>;
  /** The line to the scheduler; a WebSocket to `url` where absent. */
  readonly dial?: (events: DialEvents) => Dialling;
  /** Numbers for the heartbeat. */
  readonly vitals?: () => Readonly<Record<string, number>>;
  /** Every note of the link, and problems of executor and outbox. Must not throw. */
  readonly note: (note: LinkNote | WorkerNote) => void;
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
  /** Resolves once the link is closed for good and its socket is gone. */
  readonly closed: Promise<void>;
  readonly view: LinkView;
}

const tickMsMax = 60_000;

export function createWorker(options: WorkerOptions): Worker {
  const { outside } = options;
  let cancelTick = () => {};
  let cancelGrace = () => {};
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<void>();

  const executor = new Executor(
    {
      now: outside.now,
      after: outside.after,
      finished: (attempt, outcome) => link.finished(attempt, outcome),
      settled: (attempt) => link.settled(attempt),
      feedback: (attempt, input) => link.feedback(attempt, input),
      report: ({ message, cause }) =>
        options.note({ level: "warn", event: "executor", message, details: { cause: String(cause) } }),
    },
    {
      tenant: options.identity.tenant,
      handlers: options.shelf.handlers,
      workRoot: path.join(options.workRoot, options.identity.boot),
    },
  );

  const events: DialEvents = {
    opened: () => link.opened(),
    received: (text) => link.received(text),
    lost: (reason) => link.lost(reason),
  };
  const dialler = options.dial?.(events) ?? new Dialler([options.url].flat(), events, outside);

  const keeper =
    options.outbox === undefined
      ? null
      : new OutboxKeeper({ disk: options.outbox, outside, note: options.note, changed: () => link.healthChanged() });

  const link: Link = new Link({
    ports: {
      now: outside.now,
      stamp: createStamp(outside.wall),
      roll: outside.roll,
      dial: () => dialler.dial(),
      send: (text) => dialler.send(text),
      hangUp: (code, reason) => dialler.hangUp(code, reason),
      wake(at) {
        cancelTick();
        // A tick too early only asks again, so the cap costs nothing and no timer overflows.
        cancelTick = outside.after(Math.min(Math.max(0, Math.ceil(at - outside.now())), tickMsMax), () => link.tick());
      },
      // After all that one poll of the sockets brought in: frames that came together are acked together.
      soon: () => outside.soon(() => link.flush()),
      start: (attempt) => executor.start(attempt),
      vitals: options.vitals ?? (() => ({})),
      note(note) {
        options.note(note);
        if (note.event === "closed") end();
      },
    },
    identity: options.identity,
    offer: () => ({ ...options.offer, ...offerPackages(options.shelf) }),
    settings: { ...linkDefaults, ...options.settings },
    keeping: keeper,
  });

  const begin = async (outbox: OutboxKeeper): Promise<void> => {
    const left = await outbox.open();
    if (link.view.phase === "CLOSED") return;
    if (left === null) return link.stop();
    link.recall(left);
    link.begin();
  };

  function end(): void {
    cancelTick();
    cancelGrace();
    // What was sent last must leave before the process does.
    void Promise.all([dialler.closed(), keeper?.close()]).then(() => resolveClosed());
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
