// A machine that runs a worker process: its disk, the scheduler it dials, graceful stops. Its spec says which kind of worker it runs.

import type { MachineClock } from "../kernel/machine-clock.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import type { WorldPlan } from "../plan/world-plan.ts";
import { LegacyWorker } from "../worker/legacy/legacy-worker.ts";
import { SimulatedOutboxDisk } from "../worker/simulated-outbox-disk.ts";
import { type CommonWorkerOptions, WorkerProcess } from "../worker/worker-process.ts";
import { type MachineContext, SimulatedMachine } from "./simulated-machine.ts";

export interface WorkerMachineOptions extends Pick<WorldPlan, "schedulers" | "linkSettings" | "engineSettings"> {
  readonly spec: SimulatedWorkerSpec;
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

  /** Handlers started so far. */
  get handlerStartCount(): number {
    return this.#endedStartCount + (this.#process?.handlers.startCount ?? 0);
  }

  /** Finishes what it holds within its grace and goes; a new process comes after so long. */
  stopGracefully(graceMs: number, backInMs: number): void {
    const process = this.#process;
    if (process !== null) this.stopProcess(() => process.stopGracefully(graceMs), backInMs);
  }

  protected startProcess(eventLoop: ProcessEventLoop): void {
    const { spec, linkSettings: settings, engineSettings } = this.#options;
    const { timeline, trace, network } = this.context;
    const { worker, instance, tenant } = spec;
    const broken = (message: string): void => this.context.reportDefect("report", this.bootName, message);
    const common: CommonWorkerOptions = {
      spec,
      identity: { worker, instance, boot: this.bootName, tenant },
      eventLoop,
      trace,
      network,
      random: this.random.fork(`life ${this.bootCount}`),
      chooseScheduler: (last) => this.#chooseScheduler(last),
      killProcess: () => {
        this.context.countEvent("a handler killed its process");
        this.kill(500 + this.random.integerBelow(1_500), "a handler killed it");
      },
    };
    this.#process =
      spec.dialect !== undefined
        ? new LegacyWorker({ ...common, heartbeatMs: engineSettings.quietHeartbeatMs, onUnreadableFrame: broken })
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
