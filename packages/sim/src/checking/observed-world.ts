// The state of the simulated world: its set-up, its phase, which processes run, which connections are open. It only records.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type {
  ConnectionObservation,
  Observation,
  SimulatedWorkerSpec,
  TrueTime,
  WorldSetupObservation,
} from "../observation/observation.ts";

interface ObservedProcess {
  isAlive: boolean;
  isPaused: boolean;
  boot: string;
  /** When it last came up, went down, paused or resumed. */
  changedAt: TrueTime;
}

const processEndEvents: ReadonlySet<string> = new Set(["crashes", "left", "stopped", "failed to start"]);

export class ObservedWorld {
  setup: WorldSetupObservation | null = null;
  phase: "storm" | "heal" | "converged" | "end" = "storm";
  faultsEndedAt: TrueTime = Number.POSITIVE_INFINITY;
  now: TrueTime = 0;
  #disturbedAt: TrueTime = 0;
  /** Faults of the store that are active. Two of a kind may overlap, so they are counted. */
  #activeStoreFaults = 0;
  readonly processes = new Map<string, ObservedProcess>();
  readonly #openConnections = new Map<string, ConnectionObservation>();

  /** When a scheduler or the store was last disturbed: now, while one is. Time limits start anew then. */
  get disturbedAt(): TrueTime {
    const isWell =
      this.#activeStoreFaults === 0 && (this.setup?.schedulers ?? []).every((scheduler) => this.isRunning(scheduler));
    return isWell ? this.#disturbedAt : this.now;
  }

  get areFaultsOver(): boolean {
    return this.phase !== "storm";
  }

  observe(observation: Observation): void {
    this.now = observation.at;
    switch (observation.kind) {
      case "set-up":
        this.setup = observation;
        return;
      case "phase":
        this.phase = observation.phase;
        if (observation.phase === "heal") this.faultsEndedAt = this.#disturbedAt = observation.at;
        return;
      case "fault":
        return this.#observeFault(observation);
      case "process":
        return this.#observeProcess(observation);
      case "link":
        if (observation.event === "opened") this.#openConnections.set(observation.connection, observation);
        else if (observation.event === "closed") this.#openConnections.delete(observation.connection);
        return;
      default:
    }
  }

  /** Only faults of the store or a scheduler count: those of workers and of the network extend no time limit. */
  #observeFault({ at, name, target, event }: Extract<Observation, { kind: "fault" }>): void {
    if (!name.startsWith("store-") && target !== "store" && !this.processes.has(target)) return;
    if (this.setup?.workers.some(({ worker }) => worker === target) === true) return;
    this.#disturbedAt = at;
    // A connection is lost in an instant; the others say when they end.
    if (name.startsWith("store-") && name !== "store-connection-lost") this.#activeStoreFaults += event === "begins" ? 1 : -1;
  }

  #observeProcess(observation: Extract<Observation, { kind: "process" }>): void {
    if (observation.role === "scheduler") this.#disturbedAt = observation.at;
    const observed = getOrCreate(this.processes, observation.process, () => ({
      isAlive: false,
      isPaused: false,
      boot: observation.boot,
      changedAt: observation.at,
    }));
    observed.changedAt = observation.at;
    observed.boot = observation.boot;
    if (observation.event === "starts" || observation.event === "is up") {
      observed.isAlive = true;
      observed.isPaused = false;
    }
    if (observation.event === "pauses") observed.isPaused = true;
    if (observation.event === "resumes") observed.isPaused = false;
    if (!processEndEvents.has(observation.event)) return;
    observed.isAlive = false;
    observed.isPaused = false;
    for (const [connection, { scheduler, worker }] of this.#openConnections)
      if (scheduler === observation.process || worker === observation.process) this.#openConnections.delete(connection);
  }

  isOpen(connection: string): boolean {
    return this.#openConnections.has(connection);
  }

  isRunning(process: string): boolean {
    const observed = this.processes.get(process);
    return observed?.isAlive === true && !observed.isPaused;
  }

  /** Workers of older dialects do not list what they hold, cannot be cancelled, and lose results. By machine or by tenant and instance. */
  isLegacyWorker(worker: string): boolean {
    const spec = this.setup?.workers.find((one) => one.worker === worker || `${one.tenant}/${one.instance}` === worker);
    return spec?.dialect !== undefined;
  }

  /** By tenant and instance. */
  workerSpecOf(worker: string): SimulatedWorkerSpec | undefined {
    return this.setup?.workers.find((one) => `${one.tenant}/${one.instance}` === worker);
  }

  /** Whether the outbox of this machine is on a disk. */
  hasDisk(machine: string): boolean {
    return this.setup?.workers.find(({ worker }) => worker === machine)?.hasDisk === true;
  }
}
