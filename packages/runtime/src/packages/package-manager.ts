// Takes the scheduler's package commands, carries them out one after the other beside the link, and reports each stage and the end. What
// has to survive a crash is in the journal; the work itself is done by the installer's thread.

import { errorMessage, Fault, type FaultCode, type PackageEventPayload } from "@astraflow/protocol";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { InstallOutcome } from "./install-package.ts";
import type { InstallJournal, JournaledCommand, TakenPackageCommand } from "./install-journal.ts";
import type { InstallerJob, InstallerListener, RunningJob } from "./installer-thread.ts";

export interface PackageManagerPorts {
  readonly environment: Pick<WorkerEnvironment, "after" | "wallClock">;
  readonly journal: InstallJournal;
  startJob(job: InstallerJob, listener: Pick<InstallerListener, "stageReached">): RunningJob;
  /** Nothing more will be started. */
  closed?(): void;
  log(event: PackageLogEvent): void;
}

/** The worker that the manager belongs to. */
export interface PackageManagerHost {
  /** Handlers are loaded again, and the scheduler is told what is installed. */
  packagesChanged(): Promise<void>;
  /** Whether an attempt of this worker runs, or waits to run, a node of the version. */
  hasAttemptsOf(name: string, version: string): boolean;
  /** `key`: the event ends a command, and `eventAcked` is to be called with it. */
  sendPackageEvent(event: PackageEventPayload, key: string | null): void;
}

export interface PackageLogEvent {
  readonly level: "info" | "warn";
  readonly event: "package";
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

const startsMax = 3;
const unusedPollMs = 200;

export class PackageManager {
  readonly #ports: PackageManagerPorts;
  #host: PackageManagerHost | null = null;
  readonly #known = new Map<string, JournaledCommand>();
  readonly #queue: JournaledCommand[] = [];
  /** Versions that are about to be removed: they are no longer offered, and take no new work. */
  readonly #leaving = new Set<string>();
  #running: RunningJob | null = null;
  #isBusy = true;
  #isClosed = false;

  constructor(ports: PackageManagerPorts) {
    this.#ports = ports;
  }

  /** Removes what an earlier process left unfinished, and goes on with the commands that it had taken. */
  async start(host: PackageManagerHost): Promise<void> {
    this.#host = host;
    try {
      const running = this.#startJob({ type: "clean" });
      await running.outcome;
      for (const entry of await this.#ports.journal.load()) this.#restore(entry);
    } catch (thrown) {
      this.#log("warn", `packages that an earlier process was installing cannot be looked at: ${errorMessage(thrown)}`, {});
    }
    this.#isBusy = false;
    this.#runNext();
  }

  /** Resolves once the command is on disk; the same command sent again is taken once. */
  async takeCommand(command: TakenPackageCommand): Promise<void> {
    const known = this.#known.get(command.id);
    if (known !== undefined) {
      if (known.outcome !== null) this.#host?.sendPackageEvent(known.outcome, command.id);
      return;
    }
    const entry: JournaledCommand = { command, takenAt: this.#ports.environment.wallClock(), starts: 0, outcome: null };
    this.#known.set(command.id, entry);
    try {
      await this.#ports.journal.record(entry);
    } catch (thrown) {
      this.#known.delete(command.id);
      throw thrown;
    }
    this.#queue.push(entry);
    this.#runNext();
  }

  /** The scheduler has the event that ended a command. */
  eventAcked(id: string): void {
    this.#known.delete(id);
    this.#ports.journal.remove(id).catch((thrown: unknown) => {
      // It is reported once more after the next start, which the scheduler takes for a repeat.
      this.#log("warn", `the end of a package command cannot be removed from the journal: ${errorMessage(thrown)}`, { id });
    });
  }

  isLeaving(name: string, version: string): boolean {
    return this.#leaving.has(versionKey(name, version));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running?.terminate();
    this.#ports.closed?.();
  }

  #restore(entry: JournaledCommand): void {
    this.#known.set(entry.command.id, entry);
    if (entry.outcome !== null) this.#host?.sendPackageEvent(entry.outcome, entry.command.id);
    else this.#queue.push(entry);
  }

  #runNext(): void {
    if (this.#isBusy || this.#isClosed) return;
    const entry = this.#queue.shift();
    if (entry === undefined) return;
    this.#isBusy = true;
    void this.#run(entry).finally(() => {
      this.#isBusy = false;
      this.#runNext();
    });
  }

  async #run(entry: JournaledCommand): Promise<void> {
    const { command } = entry;
    const version = command.payload.version ?? "*";
    this.#logCommand("info", command, `${command.type} of ${command.payload.name} ${version} begins`);
    let event: PackageEventPayload;
    try {
      const begun = { ...entry, starts: entry.starts + 1 };
      if (begun.starts > startsMax) throw new Error(`the worker ended ${startsMax} times while it carried this out`);
      await this.#ports.journal.record(begun);
      const details = command.type === "install" ? await this.#install(command) : await this.#uninstall(command);
      event = this.#createEvent(command, command.type === "install" ? "installed" : "removed", details);
    } catch (thrown) {
      if (this.#isClosed) return; // goes on after the next start
      event = this.#createFailure(command, thrown);
    }
    await this.#finish(entry, event);
  }

  async #finish(entry: JournaledCommand, event: PackageEventPayload): Promise<void> {
    const { command } = entry;
    const ended = { ...entry, outcome: event };
    this.#known.set(command.id, ended);
    try {
      await this.#ports.journal.record(ended);
    } catch (thrown) {
      // Reported all the same; after a crash the command would be carried out again, which changes nothing.
      this.#logCommand("warn", command, `the end of a package command cannot be recorded: ${errorMessage(thrown)}`);
    }
    const reason = event.details?.["reason"];
    const about = `${command.type} of ${event.name} ${event.version}`;
    if (event.status === "failed")
      this.#logCommand("warn", command, `${about} failed: ${String(reason)}`, event.details?.["code"]);
    else this.#logCommand("info", command, `${about} is done`);
    this.#host?.sendPackageEvent(event, command.id);
  }

  async #install(command: TakenPackageCommand & { type: "install" }): Promise<InstallOutcome["details"]> {
    const running = this.#startJob({ type: "install", request: command.payload }, command);
    const { details } = await running.outcome;
    await this.#host?.packagesChanged();
    return details;
  }

  async #uninstall(command: TakenPackageCommand & { type: "uninstall" }): Promise<InstallOutcome["details"]> {
    const { name, version } = command.payload;
    const versions = version === undefined ? await this.#listVersions(name) : [version];
    for (const one of versions) this.#leaving.add(versionKey(name, one));
    try {
      // Offered no longer, so that the wait ends.
      await this.#host?.packagesChanged();
      const details: Record<string, unknown> = {};
      for (const one of versions) {
        this.#reportStage(command, one, "wait", 0);
        await this.#untilUnused(name, one);
        const { outcome } = this.#startJob({ type: "uninstall", name, version: one }, command, one);
        Object.assign(details, (await outcome).details);
      }
      return { ...details, versions };
    } finally {
      for (const one of versions) this.#leaving.delete(versionKey(name, one));
      await this.#host?.packagesChanged();
    }
  }

  async #listVersions(name: string): Promise<string[]> {
    const { details } = await this.#startJob({ type: "list", name }).outcome;
    return (details["versions"] as string[] | undefined) ?? [];
  }

  async #untilUnused(name: string, version: string): Promise<void> {
    while (this.#host?.hasAttemptsOf(name, version) === true && !this.#isClosed) {
      const later = Promise.withResolvers<void>();
      this.#ports.environment.after(unusedPollMs, later.resolve);
      await later.promise;
    }
    if (this.#isClosed) throw new Error("the worker is closing");
  }

  #startJob(job: InstallerJob, command?: TakenPackageCommand, version = command?.payload.version ?? "*"): RunningJob {
    const stageReached: InstallerListener["stageReached"] = (stage, progress) => {
      if (command !== undefined) this.#reportStage(command, version, stage, progress);
    };
    const running = this.#ports.startJob(job, { stageReached });
    this.#running = running;
    return running;
  }

  #reportStage(command: TakenPackageCommand, version: string, stage: string, progress: number): void {
    const status = command.type === "install" ? "installing" : "removing";
    const rounded = Math.round(progress * 100) / 100;
    const event = { ...this.#createEvent(command, status, null), version, stage, progress: rounded };
    this.#logCommand("info", command, `${command.type} of ${command.payload.name} ${version}: ${stage}`);
    this.#host?.sendPackageEvent(event, null);
  }

  #createFailure(command: TakenPackageCommand, thrown: unknown): PackageEventPayload {
    const code: FaultCode = thrown instanceof Fault ? thrown.code : "E.INTERNAL";
    const details = { ...(thrown instanceof Fault ? thrown.details : {}), code, reason: errorMessage(thrown), op: command.type };
    return this.#createEvent(command, "failed", details);
  }

  #createEvent(
    { id, payload }: TakenPackageCommand,
    status: PackageEventPayload["status"],
    details: object | null,
  ): PackageEventPayload {
    const version = payload.version ?? "*";
    const more = details === null ? {} : { details: details as NonNullable<PackageEventPayload["details"]> };
    return { name: payload.name, version, status, command_id: payload.command_id ?? id, ...more };
  }

  #logCommand(level: PackageLogEvent["level"], { frame, payload }: TakenPackageCommand, message: string, code?: unknown): void {
    const { name, version } = payload;
    this.#log(level, message, { ...frame, package: name, version: version ?? "*", ...(code !== undefined && { code }) });
  }

  #log(level: PackageLogEvent["level"], message: string, details: PackageLogEvent["details"]): void {
    this.#ports.log({ level, event: "package", message, details });
  }
}

const versionKey = (name: string, version: string): string => `${name}/${version}`;
