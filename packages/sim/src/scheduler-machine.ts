// A machine with a scheduler's process on it: its way to the store, its named points of death, its stop in good order.

import type { SessionLimits } from "@astraflow/doors";
import type { EngineFailpoint, EngineSettings } from "@astraflow/engine";
import type { Plant as EnginePlant } from "@astraflow/engine/testing";
import type { Life } from "./life.ts";
import { type Ground, Machine } from "./machine.ts";
import type { MachineClock } from "./machine-clock.ts";
import { SchedulerProcess } from "./scheduler-process.ts";
import type { SessionPlant } from "./session-plants.ts";
import { idleTransactionMs, StoreAccess } from "./store-access.ts";
import type { WorkflowPlant } from "./workflow-plants.ts";

export interface SchedulerSetUp {
  readonly settings: EngineSettings;
  readonly limits: Partial<SessionLimits>;
  readonly tenants: readonly string[];
  readonly plant: EnginePlant | null;
  readonly sessionPlant: SessionPlant | null;
  readonly workflowPlant: WorkflowPlant | null;
  readonly hintsLostShare: number;
  readonly tokenMs: number;
}

export class SchedulerMachine extends Machine {
  readonly #setUp: SchedulerSetUp;
  #access: StoreAccess | null = null;
  #process: SchedulerProcess | null = null;
  /** The next passing of this point kills the process, and it comes back after so long. */
  armed: { readonly point: EngineFailpoint; readonly backInMs: number } | null = null;

  constructor(name: string, clock: MachineClock, ground: Ground, setUp: SchedulerSetUp) {
    super(name, "scheduler", clock, ground);
    this.#setUp = setUp;
  }

  /** Null while nothing listens. */
  get listening(): SchedulerProcess | null {
    return this.#process?.isUp === true ? this.#process : null;
  }

  /** Its way to the store is cut until the answer is called. */
  loseStore(): (() => void) | undefined {
    return this.life === null ? undefined : this.#access?.cut(this.ground.timeline);
  }

  /** Its next transaction loses its connection. */
  breakStore(): boolean {
    if (this.life !== null) this.#access?.breakNext();
    return this.life !== null;
  }

  /** In good order, as on SIGTERM; comes back after so long. */
  stop(backInMs: number): void {
    const { life } = this;
    const process = this.listening;
    if (life === null || process === null) return;
    process.isUp = false;
    this.see("stops");
    life.hear(() => {
      void process.stop().then(() => {
        if (this.life !== life) return;
        this.see("stopped");
        this.ground.sometimes("a scheduler stopped in good order");
        this.#end(life);
        this.startAfter(backInMs);
      });
    });
  }

  protected boot(life: Life): void {
    const dice = this.dice.fork(`life ${this.lives}`);
    const { store, timeline } = this.ground;
    const access = new StoreAccess(store.cluster.handle(), life, timeline, {
      dice: dice.fork("hints"),
      lostShare: this.#setUp.hintsLostShare,
    });
    this.#access = access;
    const process = new SchedulerProcess({
      ...this.#setUp,
      replica: this.name,
      life,
      access,
      dice,
      failpoint: (name) => this.#pass(name),
      report: (message) => this.ground.broken("report", this.bootName, message),
      alarm: (message) => {
        if (this.ground.hasClones()) this.ground.sometimes("a cloned worker was found");
        else this.ground.broken("report", this.bootName, message);
      },
    });
    this.#process = process;
    process.start().then(
      () => this.see("is up"),
      (problem: unknown) => {
        this.see("failed to start", String(problem));
        this.kill(500, "it could not start");
      },
    );
  }

  protected bury(): void {
    this.#process = null;
    this.#access?.drop();
  }

  /** The server waits so long for a client that holds a transaction open, then ends it. */
  protected override held(life: Life): void {
    const access = this.#access;
    this.ground.timeline.after(idleTransactionMs, () => {
      if (life.isHeld && !life.isOver) access?.endIdle();
    });
  }

  #pass(point: EngineFailpoint): void {
    if (this.armed?.point !== point) return;
    const { backInMs } = this.armed;
    this.armed = null;
    this.ground.sometimes(`killed at ${point}`);
    this.kill(backInMs, `killed at ${point}`);
  }

  #end(life: Life): void {
    life.end();
    this.life = null;
    for (const connection of this.ground.network.connectionsOf(this.name)) connection.orphan("scheduler", false);
    this.bury();
  }
}
