// A worker's process: the real worker (link, executor, outbox) on the simulated outside. One object per life; what makes it live, die
// and live again is worker-machine.ts.

import { createWorker, type LinkSettings, linkDefaults, type SessionWorker, type WorkerEnvironment } from "@astraflow/runtime";
import type { Dice } from "./dice.ts";
import { Troupe } from "./handlers.ts";
import type { Life } from "./life.ts";
import type { Network } from "./network.ts";
import type { WorkerFace, WorkerShape } from "./observation.ts";
import type { OutboxDrive } from "./outbox-drive.ts";
import { tokenOf } from "./tenants.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";
import { WorkerLine } from "./worker-line.ts";

export interface WorkerProcessOptions {
  readonly shape: WorkerShape;
  readonly face: WorkerFace;
  readonly life: Life;
  readonly timeline: Timeline;
  readonly trace: Trace;
  readonly dice: Dice;
  readonly network: Network;
  readonly settings: Partial<LinkSettings>;
  /** Which scheduler to dial: the last one where it is named, unless somebody sends the worker elsewhere. */
  readonly choose: (last: string | null) => string;
  /** Null: its outbox is in memory only. */
  readonly drive: OutboxDrive | null;
  /** A handler ends the process. */
  readonly kill: () => void;
  /** The worker finds that its outbox makes no sense: no fault that is played here explains that. */
  readonly damaged: (message: string) => void;
}

export class WorkerProcess {
  readonly troupe: Troupe;
  readonly #worker: SessionWorker;

  constructor(options: WorkerProcessOptions) {
    const { shape, face, life, timeline, trace, dice, network } = options;
    const rolls = dice.fork("worker");
    const outside: WorkerEnvironment = {
      now: () => life.clock.mono(),
      wallClock: () => life.clock.wall(),
      random: () => rolls.roll(),
      after: (ms, call) => life.after(ms, call),
      // As setImmediate: after all that has arrived by now.
      defer: (call) => void timeline.after(0, () => life.hear(call)),
    };
    let line: WorkerLine | null = null;
    this.troupe = new Troupe({
      face,
      life,
      trace,
      kill: options.kill,
      fenceOf: (task, attempt) => line?.fenceOf(task, attempt) ?? -1,
    });
    this.#worker = createWorker({
      url: "sim:",
      identity: {
        tenant: shape.tenant,
        instance: shape.instance,
        name: shape.worker,
        version: "1.0.0",
        hostname: shape.worker,
        boot: face.boot,
        auth: { mode: "token", token: tokenOf(shape.tenant) },
      },
      capabilities: {
        maxParallel: shape.slots,
        ...(shape.perNodeLimits !== undefined && { perNodeLimits: shape.perNodeLimits }),
        runtimes: ["node"],
        features: [],
        ...(shape.pool !== null && { pool: shape.pool }),
      },
      loadedPackages: this.troupe.shelf(shape.nodeTypes),
      workRoot: "/nowhere",
      environment: outside,
      settings: { ...linkDefaults, ...options.settings },
      createDialer: (events) => {
        line = new WorkerLine({ face, life, network, events, choose: options.choose });
        return line;
      },
      ...(options.drive !== null && { outbox: options.drive.open(life) }),
      log: (note) => {
        if (note.event === "outbox-damaged") options.damaged(note.message);
      },
    });
  }

  begin(): void {
    this.#worker.start();
  }

  /** Resolves once it has finished what it holds and is gone. */
  async leave(graceMs: number): Promise<void> {
    this.#worker.drain(graceMs);
    await this.#worker.closed;
  }

  get phase(): string {
    return this.#worker.status.phase;
  }
}
