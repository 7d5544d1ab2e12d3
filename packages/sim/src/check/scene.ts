// Where the world stands: its set-up, its phase, which processes live, which connections are open. Judges nothing.

import type { Observation, SetUp, TrueTime } from "../observation.ts";

interface ProcessLife {
  isAlive: boolean;
  isPaused: boolean;
  boot: string;
  /** When it last came up, went down, paused or resumed. */
  changedAt: TrueTime;
}

interface LinkLife {
  readonly scheduler: string;
  readonly worker: string;
  readonly instance: string;
  readonly tenant: string;
  readonly boot: string;
  isOpen: boolean;
}

export class Scene {
  setUp: SetUp | null = null;
  phase: "storm" | "heal" | "converged" | "end" = "storm";
  healedAt: TrueTime = Number.POSITIVE_INFINITY;
  now: TrueTime = 0;
  #troubledAt: TrueTime = 0;
  /** Troubles of the store that go on. Two of a kind may overlap, so they are counted. */
  #ailing = 0;
  readonly processes = new Map<string, ProcessLife>();
  readonly links = new Map<string, LinkLife>();

  /** The last moment at which a scheduler or the store was disturbed: now, while one is. Bounds that they keep begin anew then. */
  get troubledAt(): TrueTime {
    const isWell = this.#ailing === 0 && (this.setUp?.schedulers ?? []).every((scheduler) => this.isRunning(scheduler));
    return isWell ? this.#troubledAt : this.now;
  }

  get isCalm(): boolean {
    return this.phase !== "storm";
  }

  see(seen: Observation): void {
    this.now = seen.at;
    switch (seen.kind) {
      case "set-up":
        this.setUp = seen;
        return;
      case "phase":
        this.phase = seen.phase;
        if (seen.phase === "heal") this.healedAt = this.#troubledAt = seen.at;
        return;
      case "fault":
        return this.#seeFault(seen);
      case "process":
        return this.#seeProcess(seen);
      case "link":
        if (seen.event === "opened") this.links.set(seen.connection, { ...seen, isOpen: true });
        else if (seen.event === "closed") this.#close(seen.connection);
        return;
      default:
    }
  }

  /** Only what strikes the store or a scheduler: a worker's troubles, and those of the ways to it, move no bound. */
  #seeFault({ at, name, target, event }: Extract<Observation, { kind: "fault" }>): void {
    if (!name.startsWith("store-") && target !== "store" && !this.processes.has(target)) return;
    if (this.setUp?.workers.some(({ worker }) => worker === target) === true) return;
    this.#troubledAt = at;
    // A connection is lost in an instant; the others say when they end.
    if (name.startsWith("store-") && name !== "store-connection-lost") this.#ailing += event === "begins" ? 1 : -1;
  }

  #seeProcess(seen: Extract<Observation, { kind: "process" }>): void {
    if (seen.role === "scheduler") this.#troubledAt = seen.at;
    const life = this.processes.get(seen.process) ?? { isAlive: false, isPaused: false, boot: seen.boot, changedAt: seen.at };
    this.processes.set(seen.process, life);
    life.changedAt = seen.at;
    life.boot = seen.boot;
    if (seen.event === "starts" || seen.event === "is up") {
      life.isAlive = true;
      life.isPaused = false;
    }
    if (seen.event === "pauses") life.isPaused = true;
    if (seen.event === "resumes") life.isPaused = false;
    if (seen.event !== "crashes" && seen.event !== "left" && seen.event !== "stopped" && seen.event !== "failed to start") return;
    life.isAlive = false;
    life.isPaused = false;
    for (const [connection, link] of this.links)
      if (link.scheduler === seen.process || link.worker === seen.process) this.#close(connection);
  }

  #close(connection: string): void {
    const link = this.links.get(connection);
    if (link !== undefined) link.isOpen = false;
  }

  isRunning(process: string): boolean {
    const life = this.processes.get(process);
    return life?.isAlive === true && !life.isPaused;
  }

  /** Workers of older dialects cannot say what they hold, cannot be told to stop, and forget. By machine or by tenant and instance. */
  isOlder(worker: string): boolean {
    const shape = this.setUp?.workers.find((one) => one.worker === worker || `${one.tenant}/${one.instance}` === worker);
    return shape?.dialect !== undefined;
  }

  shapeOf(worker: string): SetUp["workers"][number] | undefined {
    return this.setUp?.workers.find((one) => `${one.tenant}/${one.instance}` === worker);
  }
}
