// One package version and the process that runs its adapters: started when needed, replaced when it crashes or does not obey.

import { fault } from "@astraflow/protocol";
import type { IncomingVendorFrame } from "@astraflow/sdk";
import type { AttemptContext } from "../handlers/attempt-context.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import { killProcessGroup } from "../system/child-processes.ts";
import { CrashHistory } from "../system/crash-history.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import { HostCalls } from "./host-calls.ts";
import {
  type FromHost,
  type HostedPackage,
  type HostProblem,
  type HostSettings,
  hostLimits,
  hostProtocolVersion,
} from "./host-frames.ts";
import type { HostHandle, HostListener } from "./spawn-host.ts";

export interface PackageHostPorts {
  readonly environment: Pick<WorkerEnvironment, "now" | "after" | "defer">;
  spawnHost(listener: HostListener): HostHandle;
  /** For the watchdog: processes that must not outlive the worker. */
  groupStarted(pid: number): void;
  groupEnded(pid: number): void;
  /** Which vendor frames its adapters listen to now. */
  listenedTypesChanged(types: readonly string[]): void;
  sendVendorFrame(draft: OutgoingVendorFrame): Promise<boolean>;
  reportProblem(problem: { message: string; cause: unknown }): void;
}

export interface PackageHostSettings extends HostSettings {
  /** How long a cancelled attempt may take to end before its host is replaced. */
  readonly cancelGraceMs: number;
}

export interface HostInventory {
  readonly runtime: string;
  readonly handlers: readonly string[];
  readonly problems: readonly HostProblem[];
}

/** One life of the process. */
interface HostLife {
  readonly handle: HostHandle;
  readonly calls: HostCalls;
  readonly ready: PromiseWithResolvers<HostInventory>;
  readonly gone: PromiseWithResolvers<void>;
  readonly groups: Set<number>;
  isReady: boolean;
  /** It takes no more calls and ends after those it has. */
  isRetired: boolean;
  /** It was told to end: what follows is no crash. */
  isEnding: boolean;
  lastOutput: string;
  strayReports: number;
  cancelStartTimer: () => void;
  cancelDrainTimer: () => void;
}

export class PackageHost {
  readonly package: HostedPackage;
  readonly #ports: PackageHostPorts;
  readonly #settings: PackageHostSettings;
  readonly #crashes = new CrashHistory();
  #current: HostLife | null = null;
  /** Lives whose end is awaited, the current one among them. */
  readonly #lives = new Set<HostLife>();
  /** Before this no new process is started. */
  #notBefore = 0;
  #isClosed = false;

  constructor(hosted: HostedPackage, ports: PackageHostPorts, settings: PackageHostSettings) {
    this.package = hosted;
    this.#ports = ports;
    this.#settings = settings;
  }

  get #title(): string {
    return `the host of package ${this.package.name} ${this.package.version}`;
  }

  /** Process that takes new calls; for people. */
  get pid(): number | undefined {
    return this.#current?.handle.pid;
  }

  /** Starts it; resolves with what it has found. Rejects with a sentence where it does not come up. */
  open(): Promise<HostInventory> {
    return this.#startLife().ready.promise;
  }

  /** Runs one attempt of a node. Rejects as its handler failed, or with what happened to the host. */
  async call(context: AttemptContext, nodeType = context.nodeType): Promise<unknown> {
    const life = await this.#findReadyLife(context.signal);
    return life.calls.start(context, nodeType);
  }

  deliverVendorFrame(frame: IncomingVendorFrame): void {
    if (this.#current?.isReady) this.#current.handle.send({ type: "ext", frame });
  }

  /** Its version was removed: no more calls come, those that run may end. Resolves once the process is gone. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    const lives = [...this.#lives];
    for (const life of lives) this.#retire(life, "the package was removed");
    await Promise.all(lives.map(({ gone }) => gone.promise));
  }

  /** Ends now whatever runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const lives = [...this.#lives];
    for (const life of lives) this.#endLife(life, "the worker ends");
    await Promise.all(lives.map(({ gone }) => gone.promise));
  }

  async #findReadyLife(signal: AbortSignal): Promise<HostLife> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#isClosed) throw fault("E.RUNNER.CANCELLED", `${this.#title} has ended`);
      const life = this.#current;
      if (life?.isReady) return life;
      if (life !== null) await life.ready.promise;
      else await this.#restart();
    }
  }

  async #restart(): Promise<void> {
    const pauseMs = this.#notBefore - this.#ports.environment.now();
    if (pauseMs > 0) await this.#wait(pauseMs);
    else this.#startLife();
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#ports.environment.after(ms, resolve));
  }

  #startLife(): HostLife {
    const ready = Promise.withResolvers<HostInventory>();
    // Whoever waits for it is told; nobody may.
    ready.promise.catch(() => {});
    const handle = this.#ports.spawnHost({
      frameReceived: (frame) => this.#handleFrame(life, frame),
      outputReceived: (channel, text) => this.#handleOutput(life, channel, text),
      hostExited: (reason) => this.#handleExit(life, reason),
    });
    const life: HostLife = {
      handle,
      calls: new HostCalls((frame) => handle.send(frame), {
        package: this.package,
        cancelGraceMs: this.#settings.cancelGraceMs,
        after: this.#ports.environment.after,
        cancelIgnored: (task) => this.#handleIgnoredCancel(life, task),
        callEnded: () => this.#endIfIdle(life),
        sendVendorFrame: (draft) => this.#ports.sendVendorFrame(draft),
      }),
      ready,
      gone: Promise.withResolvers<void>(),
      groups: new Set(),
      isReady: false,
      isRetired: false,
      isEnding: false,
      lastOutput: "",
      strayReports: 0,
      cancelStartTimer: () => {},
      cancelDrainTimer: () => {},
    };
    this.#current = life;
    this.#lives.add(life);
    if (handle.pid !== undefined) this.#ports.groupStarted(handle.pid);
    life.cancelStartTimer = this.#ports.environment.after(hostLimits.startMsMax, () =>
      handle.kill(`it was not ready within ${hostLimits.startMsMax / 1_000} s`),
    );
    const { cancelGraceMs: _, ...settings } = this.#settings;
    const { frameBytesMax, pendingFeedbackMax } = hostLimits;
    const limits = { frameBytesMax, pendingFeedbackMax };
    handle.send({ type: "hello", protocol: hostProtocolVersion, package: this.package, settings, limits });
    return life;
  }

  #handleFrame(life: HostLife, frame: FromHost): void {
    switch (frame.type) {
      case "ready":
        life.cancelStartTimer();
        life.isReady = true;
        life.ready.resolve(frame);
        return;
      case "group":
        if (frame.isAlive) life.groups.add(frame.pid);
        else life.groups.delete(frame.pid);
        return frame.isAlive ? this.#ports.groupStarted(frame.pid) : this.#ports.groupEnded(frame.pid);
      case "listening":
        if (life === this.#current) this.#ports.listenedTypesChanged(frame.types);
        return;
      case "output":
        return this.#handleOutput(life, frame.channel, frame.text);
      case "report":
        return this.#ports.reportProblem(frame);
      case "pong":
        return;
      default:
        life.calls.handleFrame(frame);
    }
  }

  /** Printed by something that the host cannot tell whose it is, as a library in C or a program that an adapter has started. */
  #handleOutput(life: HostLife, channel: "stdout" | "stderr", text: string): void {
    life.lastOutput = (life.lastOutput + text).slice(-hostLimits.crashOutputCharsMax);
    if (life.calls.giveOutput(channel, text) || life.strayReports >= hostLimits.strayOutputReportsMax) return;
    life.strayReports++;
    const isLast = life.strayReports === hostLimits.strayOutputReportsMax;
    const message = `${this.#title} printed to ${channel} outside of any task${isLast ? "; more of it is not reported" : ""}`;
    this.#ports.reportProblem({ message, cause: life.calls.maskSecrets(text).slice(0, hostLimits.crashOutputCharsMax) });
  }

  #handleIgnoredCancel(life: HostLife, task: string): void {
    if (life.isEnding || life.isRetired) return;
    const message = `task ${task} did not end when it was cancelled; ${this.#title} is replaced`;
    this.#ports.reportProblem({ message, cause: `no end within ${this.#settings.cancelGraceMs} ms` });
    this.#retire(life, `task ${task} did not end when it was cancelled`);
  }

  #retire(life: HostLife, why: string): void {
    if (life.isEnding || life.isRetired) return;
    life.isRetired = true;
    if (life === this.#current) this.#current = null;
    if (this.#endIfIdle(life, why)) return;
    life.cancelDrainTimer = this.#ports.environment.after(hostLimits.drainMsMax, () =>
      this.#endLife(life, `${why}, and others did not end in time`),
    );
  }

  /** Nothing runs in it that anybody still waits for. */
  #endIfIdle(life: HostLife, why = "it is replaced"): boolean {
    if (!life.isRetired || life.calls.wantedCount > 0) return false;
    this.#endLife(life, why);
    return true;
  }

  #endLife(life: HostLife, why: string): void {
    if (life.isEnding) return;
    life.isEnding = true;
    if (life === this.#current) this.#current = null;
    life.handle.send({ type: "end" });
    life.handle.terminate(why);
  }

  #handleExit(life: HostLife, reason: string): void {
    life.cancelStartTimer();
    life.cancelDrainTimer();
    this.#lives.delete(life);
    if (life === this.#current) this.#current = null;
    for (const pid of life.groups) {
      killProcessGroup(pid, "SIGKILL");
      this.#ports.groupEnded(pid);
    }
    if (life.handle.pid !== undefined) this.#ports.groupEnded(life.handle.pid);
    const printed = life.calls.maskSecrets(life.lastOutput).trim();
    if (!life.isEnding) {
      const { pauseMs } = this.#crashes.add(this.#ports.environment.now());
      this.#notBefore = this.#ports.environment.now() + pauseMs;
      this.#ports.reportProblem({ message: `${this.#title} ended unexpectedly: ${reason}`, cause: printed });
    }
    life.ready.reject(new Error(`${this.#title} did not start: ${reason}${printed === "" ? "" : `: ${printed}`}`));
    life.calls.failAll(describeLoss(life, this.#title, reason, printed));
    life.gone.resolve();
  }
}

/** A single running attempt caused the end and fails. Of several the culprit is unknown: they go back to the scheduler, which counts them. */
function describeLoss(life: HostLife, title: string, reason: string, printed: string): Error {
  const message = `${title} ended while this task was running: ${reason}`;
  if (life.isEnding || life.calls.runningCount > 1) return fault("E.RUNNER.CANCELLED", message);
  // What others have printed is not for this task.
  return new Error(printed === "" ? message : `${message}: ${printed.split("\n").at(-1)}`);
}
