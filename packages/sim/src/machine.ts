// A machine that processes live and die on. It lasts: its clock, its disk, its name; the process on it is killed, held, stopped in good order and
// started again. Which of that happens when is decided by others; what runs on it is scheduler-machine.ts and worker-machine.ts.

import type { Dice } from "./dice.ts";
import { Life } from "./life.ts";
import type { MachineClock } from "./machine-clock.ts";
import type { Network } from "./network.ts";
import type { BrokenSeen, ProcessSeen } from "./observation.ts";
import type { StoreServer } from "./store-server.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";

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

export abstract class Machine {
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
