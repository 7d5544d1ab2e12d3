// Takes the scheduler's package commands, carries them out beside the link, and reports each stage and the end. What has to survive a crash
// is in the journal; the work itself is done by the installer's threads. Commands for one version are carried out in the order in which they
// came; an uninstall that waits for tasks holds up no other version.

import path from "node:path";
import { errorMessage, fault, type PackageEventPayload } from "@astraflow/protocol";
import type { LoadedPackagesSummary } from "../handlers/package-loader.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { InstallJournal, JournaledCommand, TakenPackageCommand } from "./install-journal.ts";
import type { InstallOutcome } from "./install-package.ts";
import type { InstallerJob, InstallerListener, RunningJob } from "./installer-thread.ts";
import { JobQueue } from "./job-queue.ts";
import { createFailureEvent, createPackageEvent } from "./package-events.ts";

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
  /** Handlers are loaded again, and the scheduler is told what is installed. Rejects where they cannot be loaded just now. */
  packagesChanged(): Promise<LoadedPackagesSummary>;
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
/** Each may run pip or npm beside the tasks of this worker. */
const parallelJobsMax = 4;

export class PackageManager {
  readonly #ports: PackageManagerPorts;
  #host: PackageManagerHost | null = null;
  #restored: Promise<void> | null = null;
  readonly #known = new Map<string, JournaledCommand>();
  /** Commands that are being written to the journal. */
  readonly #recording = new Map<string, Promise<void>>();
  /** Commands that have not ended, in the order in which they came, and those of them that have begun. */
  readonly #unfinished: JournaledCommand[] = [];
  readonly #begun = new Set<JournaledCommand>();
  readonly #jobs = new JobQueue(parallelJobsMax);
  readonly #runningJobs = new Set<RunningJob>();
  /** Versions that are about to be removed: they are no longer offered, and take no new work. */
  readonly #leaving = new Set<string>();
  #lastTakenAt = 0;
  #isClosed = false;

  constructor(ports: PackageManagerPorts) {
    this.#ports = ports;
  }

  /** Removes what an earlier process left unfinished, and goes on with the commands that it had taken. */
  async start(host: PackageManagerHost): Promise<void> {
    this.#host = host;
    try {
      await this.#restore();
    } catch (thrown) {
      const message = `no package command is taken, because those of an earlier process cannot be read: ${errorMessage(thrown)}`;
      this.#log("warn", message, {});
    }
  }

  /** Resolves once the command is on disk; the same command sent again is taken once, also while an earlier process's are still read. */
  async takeCommand(command: TakenPackageCommand): Promise<void> {
    await this.#restore();
    const known = this.#known.get(command.id);
    if (known !== undefined) {
      if (known.outcome !== null) this.#host?.sendPackageEvent(known.outcome, command.id);
      return this.#recording.get(command.id);
    }
    // Commands of one millisecond keep their order in the journal.
    this.#lastTakenAt = Math.max(this.#ports.environment.wallClock(), this.#lastTakenAt + 1);
    const entry: JournaledCommand = { command, takenAt: this.#lastTakenAt, starts: 0, outcome: null };
    this.#known.set(command.id, entry);
    const recorded = this.#ports.journal.record(entry);
    this.#recording.set(command.id, recorded);
    try {
      await recorded;
    } catch (thrown) {
      this.#known.delete(command.id);
      throw thrown;
    } finally {
      this.#recording.delete(command.id);
    }
    this.#unfinished.push(entry);
    this.#startReady();
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
    await Promise.all([...this.#runningJobs].map((job) => job.terminate()));
    this.#ports.closed?.();
  }

  /** Once; tried again with the next command where it failed. */
  #restore(): Promise<void> {
    this.#restored ??= this.#loadJournal().catch((thrown: unknown) => {
      this.#restored = null;
      throw thrown;
    });
    return this.#restored;
  }

  async #loadJournal(): Promise<void> {
    await this.#startJob({ type: "clean" }).outcome;
    for (const entry of await this.#ports.journal.load()) {
      const { command, outcome, takenAt } = entry;
      this.#known.set(command.id, entry);
      this.#lastTakenAt = Math.max(this.#lastTakenAt, takenAt);
      if (outcome !== null) this.#host?.sendPackageEvent(outcome, command.id);
      else this.#unfinished.push(entry);
    }
    this.#startReady();
  }

  /** Begins all commands that concern nothing an earlier one has still to do. */
  #startReady(): void {
    if (this.#isClosed) return;
    for (const [index, entry] of this.#unfinished.entries()) {
      const isHeldUp = this.#unfinished.slice(0, index).some((earlier) => concernsSame(earlier.command, entry.command));
      if (isHeldUp || this.#begun.has(entry)) continue;
      this.#begun.add(entry);
      void this.#run(entry).finally(() => {
        this.#begun.delete(entry);
        this.#unfinished.splice(this.#unfinished.indexOf(entry), 1);
        this.#startReady();
      });
    }
  }

  async #run(entry: JournaledCommand): Promise<void> {
    const { command } = entry;
    const version = command.payload.version ?? "*";
    this.#logCommand("info", command, `${command.type} of ${command.payload.name} ${version} begins`);
    let event: PackageEventPayload;
    try {
      const details = command.type === "install" ? await this.#install(entry, command) : await this.#uninstall(entry, command);
      event = createPackageEvent(command, command.type === "install" ? "installed" : "removed", details);
    } catch (thrown) {
      if (this.#isClosed) return; // goes on after the next start
      event = createFailureEvent(command, thrown);
    }
    await this.#finish(entry, event);
  }

  /** Before anything is changed on disk: a command that kills its worker must not do so for ever. */
  async #recordStart(entry: JournaledCommand): Promise<void> {
    const begun = { ...entry, starts: entry.starts + 1 };
    if (begun.starts > startsMax) throw new Error(`the worker ended ${startsMax} times while it carried this out`);
    await this.#ports.journal.record(begun);
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
    else this.#logCommand("info", command, `${about} is done`, "OK");
    this.#host?.sendPackageEvent(event, command.id);
  }

  async #install(
    entry: JournaledCommand,
    command: TakenPackageCommand & { type: "install" },
  ): Promise<InstallOutcome["details"]> {
    const { name } = command.payload;
    return this.#jobs.run(name, async () => {
      await this.#recordStart(entry);
      const { details } = await this.#startJob({ type: "install", request: command.payload }, command).outcome;
      const problems = await this.#findLoadProblems(command.payload);
      return problems.length === 0 ? details : { ...details, problems };
    });
  }

  /** What does not work of a version that was just installed. One of which nothing works is removed again. */
  async #findLoadProblems({ name, version }: { readonly name: string; readonly version: string }): Promise<readonly string[]> {
    const loaded = await this.#reloadPackages();
    if (loaded === null) return [];
    const place = path.sep + path.join(name, version);
    const problems = loaded.problems.filter(({ dir }) => dir.endsWith(place)).map(({ message }) => message);
    if (loaded.packages.some(({ dir }) => dir.endsWith(place))) return problems;
    await this.#startJob({ type: "uninstall", name, version }).outcome;
    await this.#reloadPackages();
    throw fault("E.PKG.INVALID", `${name} ${version} was removed again, because it cannot be loaded: ${problems.join("; ")}`);
  }

  async #uninstall(
    entry: JournaledCommand,
    command: TakenPackageCommand & { type: "uninstall" },
  ): Promise<InstallOutcome["details"]> {
    const { name, version } = command.payload;
    const versions = version === undefined ? await this.#listVersions(name) : [version];
    for (const one of versions) this.#leaving.add(versionKey(name, one));
    try {
      // Offered no longer, so that the wait ends.
      await this.#reloadPackages();
      const details: Record<string, unknown> = {};
      for (const one of versions) {
        this.#reportStage(command, one, "wait", 0);
        await this.#untilUnused(name, one);
        const outcome = await this.#jobs.run(name, async () => {
          await this.#recordStart(entry);
          return this.#startJob({ type: "uninstall", name, version: one }, command, one).outcome;
        });
        Object.assign(details, outcome.details);
      }
      return { ...details, versions };
    } finally {
      for (const one of versions) this.#leaving.delete(versionKey(name, one));
      await this.#reloadPackages();
    }
  }

  /** Null: not possible just now. What was done on disk is done all the same; whoever loads the handlers next finds it. */
  async #reloadPackages(): Promise<LoadedPackagesSummary | null> {
    if (this.#host === null || this.#isClosed) return null;
    try {
      return await this.#host.packagesChanged();
    } catch (thrown) {
      this.#log("warn", `the packages cannot be loaded again: ${errorMessage(thrown)}`, {});
      return null;
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
    if (this.#isClosed) throw new Error("the worker is closing");
    const running = this.#ports.startJob(job, { stageReached });
    this.#runningJobs.add(running);
    const forget = () => void this.#runningJobs.delete(running);
    running.outcome.then(forget, forget);
    return running;
  }

  #reportStage(command: TakenPackageCommand, version: string, stage: string, progress: number): void {
    const status = command.type === "install" ? "installing" : "removing";
    const rounded = Math.round(progress * 100) / 100;
    const event = { ...createPackageEvent(command, status, null), version, stage, progress: rounded };
    this.#logCommand("info", command, `${command.type} of ${command.payload.name} ${version}: ${stage}`);
    this.#host?.sendPackageEvent(event, null);
  }

  #logCommand(level: PackageLogEvent["level"], { frame, payload }: TakenPackageCommand, message: string, code?: unknown): void {
    const { name, version } = payload;
    this.#log(level, message, { ...frame, package: name, version: version ?? "*", ...(code !== undefined && { code }) });
  }

  #log(level: PackageLogEvent["level"], message: string, details: PackageLogEvent["details"]): void {
    this.#ports.log({ level, event: "package", message, details });
  }
}

/** The same version, or any where one of them is about all. */
function concernsSame({ payload: one }: TakenPackageCommand, { payload: other }: TakenPackageCommand): boolean {
  const isOfAll = one.version === undefined || other.version === undefined;
  return one.name === other.name && (isOfAll || one.version === other.version);
}

const versionKey = (name: string, version: string): string => `${name}/${version}`;
