// A machine that processes run on. Its clock, disk and name last; the process on it is started, killed, paused and stopped. fault-effects.ts decides
// when; the two kinds are scheduler-machine.ts and worker-machine.ts.

import type { MachineClock } from "../kernel/machine-clock.ts";
import type { ObservationTrace } from "../kernel/observation-trace.ts";
import { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { SimulatedNetwork } from "../network/simulated-network.ts";
import type { DefectObservation, ProcessObservation } from "../observation/observation.ts";
import type { SimulatedStoreServer } from "../store/simulated-store-server.ts";

/** What all machines share. */
export interface MachineContext {
  readonly timeline: Timeline;
  readonly trace: ObservationTrace;
  readonly network: SimulatedNetwork;
  readonly store: SimulatedStoreServer;
  readonly random: SeededRandom;
  /** Counts things worth happening at least once in a campaign. */
  countEvent(name: string): void;
  reportDefect(name: DefectObservation["name"], process: string, message: string): void;
  /** Two processes of this world have shared a name. */
  readonly hasClones: () => boolean;
}

export abstract class SimulatedMachine {
  readonly name: string;
  readonly clock: MachineClock;
  protected readonly context: MachineContext;
  protected readonly random: SeededRandom;
  protected readonly role: ProcessObservation["role"];
  protected eventLoop: ProcessEventLoop | null = null;
  protected bootCount = 0;
  #isRestartScheduled = false;
  #isRetired = false;
  #pauseCount = 0;

  constructor(name: string, role: ProcessObservation["role"], clock: MachineClock, context: MachineContext) {
    this.name = name;
    this.role = role;
    this.clock = clock;
    this.context = context;
    this.random = context.random.fork(name);
  }

  get isUp(): boolean {
    return this.eventLoop !== null;
  }

  protected abstract startProcess(eventLoop: ProcessEventLoop): void;
  /** Whatever must follow the end of a life. */
  protected abstract cleanUpAfterProcess(isPowerLoss: boolean): void;

  start(): void {
    this.#isRestartScheduled = false;
    this.#isRetired = false;
    if (this.eventLoop !== null) return;
    this.bootCount++;
    this.#pauseCount = 0;
    this.eventLoop = new ProcessEventLoop(this.bootName, this.context.timeline, this.clock, (problem) =>
      this.#handleUncaughtError(problem),
    );
    this.record("starts");
    this.startProcess(this.eventLoop);
  }

  /** One life of the process. */
  protected get bootName(): string {
    return `${this.name}#${this.bootCount}`;
  }

  /** kill -9, or the whole machine loses power. Comes back after so long. */
  kill(backInMs: number, why: string, isPowerLoss = false): void {
    if (this.eventLoop === null) return;
    this.record("crashes", why);
    this.#endProcess(this.eventLoop, backInMs, isPowerLoss);
  }

  /** Lets the process end by itself. Comes back after so long. */
  protected stopProcess(stop: () => Promise<void>, backInMs: number): void {
    const { eventLoop, role } = this;
    if (eventLoop === null) return;
    this.record(role === "worker" ? "leaves" : "stops");
    const handleStopped = (): void => {
      if (this.eventLoop !== eventLoop) return;
      this.record(role === "worker" ? "left" : "stopped");
      this.context.countEvent(role === "worker" ? "a worker left in good order" : "a scheduler stopped in good order");
      this.#endProcess(eventLoop, backInMs, false);
    };
    eventLoop.deliver(() => void stop().then(handleStopped));
  }

  #endProcess(eventLoop: ProcessEventLoop, backInMs: number, isPowerLoss: boolean): void {
    eventLoop.end();
    this.eventLoop = null;
    for (const connection of this.context.network.connectionsOf(this.name)) connection.handleProcessEnd(this.role, isPowerLoss);
    this.cleanUpAfterProcess(isPowerLoss);
    this.#startAfter(backInMs);
  }

  /** Killed, and nobody starts it again before they are told to. */
  retire(): void {
    this.#isRetired = true;
    this.#isRestartScheduled = false;
    this.kill(0, "retired");
  }

  #startAfter(ms: number): void {
    if (this.#isRestartScheduled || this.#isRetired) return;
    this.#isRestartScheduled = true;
    this.context.timeline.after(ms, () => {
      if (this.#isRestartScheduled) this.start();
    });
  }

  /** SIGSTOP; a suspended machine's clock stands still as well. The answer lets it go on. */
  pause(isSuspended: boolean): () => void {
    const { eventLoop } = this;
    if (eventLoop === null) return () => undefined;
    eventLoop.pause();
    this.#pauseCount++;
    if (isSuspended) this.clock.freeze();
    this.record("pauses", isSuspended ? "suspended" : "stopped");
    this.onPaused(eventLoop);
    return () => {
      if (isSuspended) this.clock.thaw();
      if (this.eventLoop !== eventLoop || --this.#pauseCount > 0) return;
      this.record("resumes");
      eventLoop.resume(this.random.chance(0.5));
    };
  }

  protected onPaused(_eventLoop: ProcessEventLoop): void {}

  protected record(event: ProcessObservation["event"], detail?: string): void {
    const { name: process, role, bootName: boot } = this;
    this.context.trace.record({ kind: "process", role, process, boot, event, ...(detail !== undefined && { detail }) });
  }

  #handleUncaughtError(problem: unknown): void {
    const message = problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
    this.context.reportDefect("crash", this.bootName, message);
    this.kill(1_000, "it threw");
  }
}
