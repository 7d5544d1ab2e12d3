// A machine with a worker's process on it: its disk, where it is sent, its end in good order. Which kind of worker runs there is in its shape.

import type { LinkSettings } from "@astraflow/runtime";
import type { Dice } from "./dice.ts";
import type { Life } from "./life.ts";
import { type Ground, Machine } from "./machine.ts";
import type { MachineClock } from "./machine-clock.ts";
import type { WorkerShape } from "./observation.ts";
import { OlderWorker } from "./older-worker.ts";
import { OutboxDrive } from "./outbox-drive.ts";
import { WorkerProcess } from "./worker-process.ts";

export interface WorkerSetUp {
  readonly shape: WorkerShape;
  readonly schedulers: readonly string[];
  readonly settings: Partial<LinkSettings>;
  /** How often a worker of an older dialect beats. */
  readonly quietBeatMs: number;
}

export class WorkerMachine extends Machine {
  readonly #setUp: WorkerSetUp;
  readonly #dialDice: Dice;
  readonly drive: OutboxDrive | null;
  #process: WorkerProcess | OlderWorker | null = null;
  #starts = 0;
  /** Where it is sent first; a balancer sends it elsewhere now and then, whatever it asks for. */
  #home: string;
  #isMoved = false;

  constructor(name: string, clock: MachineClock, ground: Ground, setUp: WorkerSetUp) {
    super(name, "worker", clock, ground);
    this.#setUp = setUp;
    this.#dialDice = this.dice.fork("dial");
    this.drive = setUp.shape.hasDisk ? new OutboxDrive(ground.timeline, this.dice.fork("disk")) : null;
    this.#home = this.#dialDice.pick(setUp.schedulers);
  }

  /** False where it is sent already. */
  moveTo(scheduler: string): boolean {
    if (this.#home === scheduler) return false;
    this.#home = scheduler;
    this.#isMoved = true;
    return true;
  }

  #choose(last: string | null): string {
    const isMoved = this.#isMoved;
    this.#isMoved = false;
    if (last !== null && !isMoved) return last;
    return isMoved || this.#dialDice.chance(0.7) ? this.#home : this.#dialDice.pick(this.#setUp.schedulers);
  }

  get shape(): WorkerShape {
    return this.#setUp.shape;
  }

  /** Handlers started so far. */
  get starts(): number {
    return this.#starts + (this.#process?.troupe.starts ?? 0);
  }

  get isReady(): boolean {
    return this.#process?.phase === "READY";
  }

  /** Finishes what it holds within its grace and goes; a new process comes after so long. */
  leave(graceMs: number, backInMs: number): void {
    const { life } = this;
    const process = this.#process;
    if (life === null || process === null) return;
    this.see("leaves");
    life.hear(() => {
      void process.leave(graceMs).then(() => {
        if (this.life !== life) return;
        this.see("left");
        this.ground.sometimes("a worker left in good order");
        life.end();
        this.life = null;
        for (const connection of this.ground.network.connectionsOf(this.name)) connection.orphan("worker", false);
        this.bury(false);
        this.startAfter(backInMs);
      });
    });
  }

  protected boot(life: Life): void {
    const { shape, settings, quietBeatMs } = this.#setUp;
    const { timeline, trace, network } = this.ground;
    const { worker, instance, tenant } = shape;
    const broken = (message: string): void => this.ground.broken("report", this.bootName, message);
    const common = {
      shape,
      face: { worker, instance, boot: this.bootName, tenant },
      life,
      trace,
      network,
      dice: this.dice.fork(`life ${this.lives}`),
      choose: (last: string | null) => this.#choose(last),
      kill: () => {
        this.ground.sometimes("a handler killed its process");
        this.kill(500 + this.dice.below(1_500), "a handler killed it");
      },
    };
    this.#process =
      shape.dialect !== undefined
        ? new OlderWorker({ ...common, beatMs: quietBeatMs, disliked: broken })
        : new WorkerProcess({ ...common, timeline, settings, drive: this.drive, damaged: broken });
    this.#process.begin();
    this.see("is up");
  }

  protected bury(isPowerLoss: boolean): void {
    if (isPowerLoss) this.drive?.losePower();
    this.#starts += this.#process?.troupe.starts ?? 0;
    this.#process?.troupe.end();
    this.#process = null;
  }
}
