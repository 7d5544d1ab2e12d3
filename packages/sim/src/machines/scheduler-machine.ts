// A machine that runs a scheduler process: its connection to the store, kills at named failpoints, graceful stops.

import type { EngineFailpoint } from "@astraflow/engine";
import type { MachineClock } from "../kernel/machine-clock.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { WorldPlan } from "../plan/world-plan.ts";
import { SchedulerProcess, type SimulatedSchedulerSettings } from "../scheduler/scheduler-process.ts";
import { idleTransactionMs, StoreConnection } from "../store/store-connection.ts";
import { type MachineContext, SimulatedMachine } from "./simulated-machine.ts";

export type SchedulerMachineOptions = SimulatedSchedulerSettings & Pick<WorldPlan, "hintsLostShare">;

export class SchedulerMachine extends SimulatedMachine {
  readonly #options: SchedulerMachineOptions;
  #storeConnection: StoreConnection | null = null;
  #process: SchedulerProcess | null = null;
  /** The next passing of this point kills the process, and it comes back after so long. */
  killAtFailpoint: { readonly point: EngineFailpoint; readonly backInMs: number } | null = null;

  constructor(name: string, clock: MachineClock, context: MachineContext, options: SchedulerMachineOptions) {
    super(name, "scheduler", clock, context);
    this.#options = options;
  }

  /** Null while nothing listens. */
  get listeningProcess(): SchedulerProcess | null {
    return this.#process?.isUp === true ? this.#process : null;
  }

  /** Its way to the store is cut until the answer is called. */
  cutStoreConnection(): (() => void) | undefined {
    return this.eventLoop === null ? undefined : this.#storeConnection?.beginOutage(this.context.timeline);
  }

  /** Its next transaction loses its connection. */
  loseNextTransaction(): boolean {
    if (this.eventLoop !== null) this.#storeConnection?.loseNextTransaction();
    return this.eventLoop !== null;
  }

  /** In good order, as on SIGTERM; comes back after so long. */
  stopGracefully(backInMs: number): void {
    const process = this.listeningProcess;
    if (process === null) return;
    process.isUp = false;
    this.stopProcess(() => process.stop(), backInMs);
  }

  protected startProcess(eventLoop: ProcessEventLoop): void {
    const random = this.random.fork(`life ${this.bootCount}`);
    const { store, timeline } = this.context;
    const storeConnection = new StoreConnection(store.cluster.createHandle(), eventLoop, timeline, {
      dice: random.fork("hints"),
      lostShare: this.#options.hintsLostShare,
    });
    this.#storeConnection = storeConnection;
    const process = new SchedulerProcess({
      ...this.#options,
      replica: this.name,
      eventLoop,
      storeConnection,
      random,
      onFailpoint: (name) => this.#handleFailpoint(name),
      onDefect: (message) => this.context.reportDefect("report", this.bootName, message),
      onDuplicateWorker: (message) => {
        if (this.context.hasClones()) this.context.countEvent("a cloned worker was found");
        else this.context.reportDefect("report", this.bootName, message);
      },
    });
    this.#process = process;
    process.start().then(
      () => this.record("is up"),
      (problem: unknown) => {
        this.record("failed to start", String(problem));
        this.kill(500, "it could not start");
      },
    );
  }

  protected cleanUpAfterProcess(): void {
    this.#process = null;
    this.#storeConnection?.closeAfterProcessEnd();
  }

  /** The server waits so long for a client that holds a transaction open, then ends it. */
  protected override onPaused(eventLoop: ProcessEventLoop): void {
    const storeConnection = this.#storeConnection;
    this.context.timeline.after(idleTransactionMs, () => {
      if (eventLoop.isPaused && !eventLoop.hasEnded) storeConnection?.endOpenTransactions();
    });
  }

  #handleFailpoint(point: EngineFailpoint): void {
    if (this.killAtFailpoint?.point !== point) return;
    const { backInMs } = this.killAtFailpoint;
    this.killAtFailpoint = null;
    this.context.countEvent(`killed at ${point}`);
    this.kill(backInMs, `killed at ${point}`);
  }
}
