// A worker process: the real worker (link, executor, outbox) in the simulated environment. One object for each process; worker-machine.ts starts and
// kills it.

import { createHash } from "node:crypto";
import { createWorker, type LinkSettings, linkDefaults, type SessionWorker, type WorkerEnvironment } from "@astraflow/runtime";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import { tokenOfTenant } from "../network/simulated-authentication.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import { type SimulatedHandlerHost, SimulatedHandlers } from "./simulated-handlers.ts";
import type { SimulatedOutboxDisk } from "./simulated-outbox-disk.ts";
import { SimulatedWorkerConnection, type WorkerConnectionOptions } from "./simulated-worker-connection.ts";

/** What worker processes of all dialects are given. */
export interface CommonWorkerOptions extends Omit<WorkerConnectionOptions, "events">, Omit<SimulatedHandlerHost, "fenceOf"> {
  readonly spec: SimulatedWorkerSpec;
  readonly random: SeededRandom;
}

export interface WorkerProcessOptions extends CommonWorkerOptions {
  readonly timeline: Timeline;
  readonly settings: Partial<LinkSettings>;
  /** Null: its outbox is in memory only. */
  readonly outboxDisk: SimulatedOutboxDisk | null;
  /** The worker finds that its outbox makes no sense: no fault that is played here explains that. */
  readonly onOutboxDamaged: (message: string) => void;
}

export class WorkerProcess {
  readonly handlers: SimulatedHandlers;
  readonly #worker: SessionWorker;

  constructor(options: WorkerProcessOptions) {
    const { spec, identity, eventLoop, timeline, random } = options;
    let keyCount = 0;
    const engineRandom = random.fork("worker");
    const environment: WorkerEnvironment = {
      now: () => eventLoop.clock.mono(),
      wallClock: () => eventLoop.clock.wall(),
      random: () => engineRandom.random(),
      // Not drawn from the dice: whether sessions have keys must not change what a seed does.
      randomBytes: (count) => createHash("sha512").update(`${identity.boot} ${keyCount++}`).digest().subarray(0, count),
      after: (ms, call) => eventLoop.after(ms, call),
      // As setImmediate: after all that has arrived by now.
      defer: (call) => void timeline.after(0, () => eventLoop.deliver(call)),
    };
    // A handler is not told its fence; the worker holds one attempt of a task, and it is the one that starts. Dispatches that have arrived
    // say less: a later one may wait behind a gap, under the same attempt number.
    const fenceOf = (task: string): number => this.#worker.inventory().attempts.find((held) => held.task === task)?.fence ?? -1;
    this.handlers = new SimulatedHandlers({ ...options, fenceOf });
    this.#worker = createWorker({
      url: "sim:",
      identity: {
        tenant: spec.tenant,
        instance: spec.instance,
        name: spec.worker,
        version: "1.0.0",
        hostname: spec.worker,
        boot: identity.boot,
        auth: { mode: "token", token: tokenOfTenant(spec.tenant) },
      },
      capabilities: {
        maxParallel: spec.slots,
        ...(spec.perNodeLimits !== undefined && { perNodeLimits: spec.perNodeLimits }),
        runtimes: ["node"],
        features: [],
        ...(spec.pool !== null && { pool: spec.pool }),
      },
      loadedPackages: this.handlers.createPackageShelf(spec.nodeTypes),
      workRoot: "/nowhere",
      environment,
      settings: { ...linkDefaults, ...options.settings },
      createDialer: (events) => new SimulatedWorkerConnection({ ...options, events }),
      ...(options.outboxDisk !== null && { outbox: options.outboxDisk.open(eventLoop) }),
      log: (note) => {
        if (note.event === "outbox-damaged") options.onOutboxDamaged(note.message);
      },
    });
  }

  start(): void {
    this.#worker.start();
  }

  /** Resolves once it has finished what it holds and is gone. */
  async stopGracefully(graceMs: number): Promise<void> {
    this.#worker.drain(graceMs);
    await this.#worker.closed;
  }
}
