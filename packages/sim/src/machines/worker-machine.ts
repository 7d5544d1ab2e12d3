// A machine that runs a worker process: its disk, the scheduler it dials, graceful stops. Its spec says which kind of worker it runs.

import type { LinkSettings } from "@astraflow/runtime";
import type { MachineClock } from "../kernel/machine-clock.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import { LegacyWorker } from "../worker/legacy/legacy-worker.ts";
import { SimulatedOutboxDisk } from "../worker/simulated-outbox-disk.ts";
import { WorkerProcess } from "../worker/worker-process.ts";
import { type MachineContext, SimulatedMachine } from "./simulated-machine.ts";

export interface WorkerMachineOptions {
  readonly spec: SimulatedWorkerSpec;
  readonly schedulers: readonly string[];
  readonly settings: Partial<LinkSettings>;
  /** How often a worker of an older dialect beats. */
  readonly legacyHeartbeatMs: number;
}

export class WorkerMachine extends SimulatedMachine {
  readonly #options: WorkerMachineOptions;
  readonly #dialRandom: SeededRandom;
  readonly outboxDisk: SimulatedOutboxDisk | null;
  #process: WorkerProcess | LegacyWorker | null = null;
  #endedStartCount = 0;
  /** Where it is sent first; a balancer sends it elsewhere now and then, whatever it asks for. */
  #preferredScheduler: string;
  #isMovedAway = false;

  constructor(name: string, clock: MachineClock, context: MachineContext, options: WorkerMachineOptions) {
    super(name, "worker", clock, context);
    this.#options = options;
    this.#dialRandom = this.random.fork("dial");
    this.outboxDisk = options.spec.hasDisk ? new SimulatedOutboxDisk(context.timeline, this.random.fork("disk")) : null;
    this.#preferredScheduler = this.#dialRandom.pick(options.schedulers);
  }

  /** False where it is sent already. */
  preferScheduler(scheduler: string): boolean {
    if (this.#preferredScheduler === scheduler) return false;
    this.#preferredScheduler = scheduler;
    this.#isMovedAway = true;
    return true;
  }

  #chooseScheduler(last: string | null): string {
    const isMoved = this.#isMovedAway;
    this.#isMovedAway = false;
    if (last !== null && !isMoved) return last;
    return isMoved || this.#dialRandom.chance(0.7) ? this.#preferredScheduler : this.#dialRandom.pick(this.#options.schedulers);
  }

  get spec(): SimulatedWorkerSpec {
    return this.#options.spec;
  }

  /** Handlers started so far. */
  get handlerStartCount(): number {
    return this.#endedStartCount + (this.#process?.handlers.startCount ?? 0);
  }

  get isReady(): boolean {
    return this.#process?.phase === "READY";
  }

  /** Finishes what it holds within its grace and goes; a new process comes after so long. */
  stopGracefully(graceMs: number, backInMs: number): void {
    const { eventLoop } = this;
    const process = this.#process;
    if (eventLoop === null || process === null) return;
    this.record("leaves");
    eventLoop.deliver(() => {
      void process.stopGracefully(graceMs).then(() => {
        if (this.eventLoop !== eventLoop) return;
        this.record("left");
        this.context.countEvent("a worker left in good order");
        eventLoop.end();
        this.eventLoop = null;
        for (const connection of this.context.network.connectionsOf(this.name)) connection.handleProcessEnd("worker", false);
        this.cleanUpAfterProcess(false);
        this.startAfter(backInMs);
      });
    });
  }

  protected startProcess(eventLoop: ProcessEventLoop): void {
    const { spec, settings, legacyHeartbeatMs } = this.#options;
    const { timeline, trace, network } = this.context;
    const { worker, instance, tenant } = spec;
    const broken = (message: string): void => this.context.reportDefect("report", this.bootName, message);
    const common = {
      spec,
      identity: { worker, instance, boot: this.bootName, tenant },
      eventLoop,
      trace,
      network,
      random: this.random.fork(`life ${this.bootCount}`),
      chooseScheduler: (last: string | null) => this.#chooseScheduler(last),
      killProcess: () => {
        this.context.countEvent("a handler killed its process");
        this.kill(500 + this.random.integerBelow(1_500), "a handler killed it");
      },
    };
    this.#process =
      spec.dialect !== undefined
        ? new LegacyWorker({ ...common, heartbeatMs: legacyHeartbeatMs, onUnreadableFrame: broken })
        : new WorkerProcess({ ...common, timeline, settings, outboxDisk: this.outboxDisk, onOutboxDamaged: broken });
    this.#process.start();
    this.record("is up");
  }

  protected cleanUpAfterProcess(isPowerLoss: boolean): void {
    if (isPowerLoss) this.outboxDisk?.losePower();
    this.#endedStartCount += this.#process?.handlers.startCount ?? 0;
    this.#process?.handlers.endAll();
    this.#process = null;
  }
}
