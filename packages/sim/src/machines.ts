// The machines that processes live and die on. A machine lasts: its clock, its disk, its name; the process on it is killed, held,
// stopped in good order and started again. Which of that happens when is decided by others.

import type { SessionLimits } from "@astraflow/doors";
import type { EngineFailpoint, Settings } from "@astraflow/engine";
import type { Plant as EnginePlant } from "@astraflow/engine/testing";
import type { LinkSettings } from "@astraflow/runtime";
import type { Dice } from "./dice.ts";
import { Life } from "./life.ts";
import type { MachineClock } from "./machine-clock.ts";
import type { Network } from "./network.ts";
import type { BrokenSeen, ProcessSeen, WorkerShape } from "./observation.ts";
import { OlderWorker } from "./older-worker.ts";
import { OutboxDrive } from "./outbox-drive.ts";
import { SchedulerProcess } from "./scheduler-process.ts";
import type { SessionPlant } from "./session-plants.ts";
import { idleTransactionMs, StoreAccess } from "./store-access.ts";
import type { StoreServer } from "./store-server.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";
import { WorkerProcess } from "./worker-process.ts";

/** What all machines share. */
export interface Ground {
  readonly timeline: Timeline;
  readonly trace: Trace;
  readonly network: Network;
  readonly store: StoreServer;
  readonly dice: Dice;
  /** Counts things worth happening at least once in a campaign. */
  sometimes(name: string): void;
  broken(name: BrokenSeen["name"], process: string, message: string): void;
  /** Two processes of this world have shared a name. */
  readonly hasClones: () => boolean;
}

abstract class Machine {
  readonly name: string;
  readonly clock: MachineClock;
  protected readonly ground: Ground;
  protected readonly dice: Dice;
  protected readonly role: ProcessSeen["role"];
  protected life: Life | null = null;
  protected lives = 0;
  #isRestartAsked = false;
  #isRetired = false;
  #holds = 0;

  constructor(name: string, role: ProcessSeen["role"], clock: MachineClock, ground: Ground) {
    this.name = name;
    this.role = role;
    this.clock = clock;
    this.ground = ground;
    this.dice = ground.dice.fork(name);
  }

  get isUp(): boolean {
    return this.life !== null;
  }

  protected abstract boot(life: Life): void;
  /** Whatever must follow the end of a life. */
  protected abstract bury(isPowerLoss: boolean): void;

  start(): void {
    this.#isRestartAsked = false;
    this.#isRetired = false;
    if (this.life !== null) return;
    this.lives++;
    this.#holds = 0;
    this.life = new Life(this.bootName, this.ground.timeline, this.clock, (problem) => this.#threw(problem));
    this.see("starts");
    this.boot(this.life);
  }

  /** One life of the process. */
  protected get bootName(): string {
    return `${this.name}#${this.lives}`;
  }

  /** kill -9, or the whole machine loses power. Comes back after so long. */
  kill(backInMs: number, why: string, isPowerLoss = false): void {
    if (this.life === null) return;
    this.life.end();
    this.life = null;
    this.see("crashes", why);
    for (const connection of this.ground.network.connectionsOf(this.name)) connection.orphan(this.role, isPowerLoss);
    this.bury(isPowerLoss);
    this.startAfter(backInMs);
  }

  /** Killed, and nobody starts it again before they are told to. */
  retire(): void {
    this.#isRetired = true;
    this.#isRestartAsked = false;
    this.kill(0, "retired");
  }

  protected startAfter(ms: number): void {
    if (this.#isRestartAsked || this.#isRetired) return;
    this.#isRestartAsked = true;
    this.ground.timeline.after(ms, () => {
      if (this.#isRestartAsked) this.start();
    });
  }

  /** SIGSTOP; a suspended machine's clock stands still as well. The answer lets it go on. */
  hold(isSuspended: boolean): () => void {
    const { life } = this;
    if (life === null) return () => undefined;
    life.hold();
    this.#holds++;
    if (isSuspended) this.clock.freeze();
    this.see("pauses", isSuspended ? "suspended" : "stopped");
    this.held(life);
    return () => {
      if (isSuspended) this.clock.thaw();
      if (this.life !== life || --this.#holds > 0) return;
      this.see("resumes");
      life.release(this.dice.chance(0.5));
    };
  }

  protected held(_life: Life): void {}

  protected see(event: ProcessSeen["event"], detail?: string): void {
    const { name: process, role, bootName: boot } = this;
    this.ground.trace.see({ kind: "process", role, process, boot, event, ...(detail !== undefined && { detail }) });
  }

  #threw(problem: unknown): void {
    this.ground.broken("crash", this.bootName, problem instanceof Error ? (problem.stack ?? problem.message) : String(problem));
    this.kill(1_000, "it threw");
  }
}

export interface SchedulerSetUp {
  readonly settings: Settings;
  readonly limits: Partial<SessionLimits>;
  readonly tenants: readonly string[];
  readonly plant: EnginePlant | null;
  readonly sessionPlant: SessionPlant | null;
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
