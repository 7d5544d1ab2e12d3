import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fault, type PackageEventPayload } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openInstallJournal, type TakenPackageCommand } from "./install-journal.ts";
import type { InstallOutcome } from "./install-package.ts";
import type { InstallerJob, InstallerListener } from "./installer-thread.ts";
import { type PackageLogEvent, PackageManager } from "./package-manager.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "manager-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

interface StartedJob {
  readonly job: InstallerJob;
  readonly listener: Pick<InstallerListener, "stageReached">;
  resolve(outcome: InstallOutcome): void;
  reject(thrown: unknown): void;
}

/** A manager whose jobs end when the test says so. */
class ManagerHarness {
  readonly jobs: StartedJob[] = [];
  readonly events: [PackageEventPayload, string | null][] = [];
  readonly logEvents: PackageLogEvent[] = [];
  readonly timers: (() => void)[] = [];
  readonly steps: string[] = [];
  readonly attempts = new Set<string>();
  readonly journal = openInstallJournal(path.join(root, "journal"));
  readonly manager: PackageManager;

  constructor() {
    this.manager = new PackageManager({
      environment: {
        wallClock: () => 1_000,
        after: (_, call) => {
          this.timers.push(call);
          return () => {};
        },
      },
      journal: this.journal,
      startJob: (job, listener) => {
        const { promise, resolve, reject } = Promise.withResolvers<InstallOutcome>();
        if (job.type === "clean") resolve({ details: {} });
        else this.jobs.push({ job, listener, resolve, reject });
        this.steps.push(job.type);
        return { outcome: promise, terminate: async () => reject(new Error("terminated")) };
      },
      log: (event) => void this.logEvents.push(event),
    });
  }

  async start(): Promise<this> {
    await this.manager.start({
      packagesChanged: async () => void this.steps.push("changed"),
      hasAttemptsOf: (name, version) => this.attempts.has(`${name}/${version}`),
      sendPackageEvent: (event, command) => void this.events.push([event, command]),
    });
    return this;
  }

  /** The job that runs now, once it does. */
  async job(index = 0): Promise<StartedJob> {
    await vi.waitUntil(() => this.jobs[index] !== undefined);
    return this.jobs[index] as StartedJob;
  }

  async terminalEvent(index = 0): Promise<PackageEventPayload> {
    await vi.waitUntil(() => this.#terminal[index] !== undefined);
    return this.#terminal[index] as PackageEventPayload;
  }

  get #terminal(): PackageEventPayload[] {
    return this.events.flatMap(([event, command]) => (command === null ? [] : [event]));
  }

  get journaled(): string[] {
    return readdirSync(path.join(root, "journal"));
  }
}

const install = (id: string, version = "1.0.0"): TakenPackageCommand => ({
  id,
  type: "install",
  frame: { type: "biz.pkg.install", id: `f-${id}`, corr: id, seq: 4 },
  payload: { name: "acme.tools", version, url: "https://example.com/a.cwx", command_id: id },
});
const uninstall = (id: string, version?: string): TakenPackageCommand => ({
  id,
  type: "uninstall",
  frame: { type: "biz.pkg.uninstall", id: `f-${id}` },
  payload: { name: "acme.tools", command_id: id, ...(version !== undefined && { version }) },
});

describe("the package manager", () => {
  it("[W750] a command is on disk when it is taken, its stages and its end are reported, and it is forgotten once its end is acked", async () => {
    const harness = await new ManagerHarness().start();

    await harness.manager.takeCommand(install("c-1"));
    const journaledWhenTaken = harness.journaled.length;
    const { listener, resolve } = await harness.job();
    listener.stageReached("download", 0);
    resolve({ details: { sha256: "abc" } });

    expect(journaledWhenTaken).toBe(1);
    const about = { name: "acme.tools", version: "1.0.0", command_id: "c-1" };
    expect(await harness.terminalEvent()).toEqual({ ...about, status: "installed", details: { sha256: "abc" } });
    expect(harness.events[0]).toEqual([{ ...about, status: "installing", stage: "download", progress: 0 }, null]);
    expect(harness.steps).toEqual(["clean", "install", "changed"]);
    harness.manager.eventAcked("c-1");
    await vi.waitUntil(() => harness.journaled.length === 0);
  });

  it("[W750] a failure is reported with its code, its reason and what it was about; commands run one after the other", async () => {
    const harness = await new ManagerHarness().start();

    await harness.manager.takeCommand(install("c-1"));
    await harness.manager.takeCommand(install("c-2", "1.0.1"));
    const first = await harness.job();
    const jobsBefore = harness.jobs.length;
    first.reject(fault("E.PKG.PERMISSION", "it is not signed", { keyId: "k" }));

    expect(await harness.terminalEvent()).toMatchObject({
      status: "failed",
      command_id: "c-1",
      details: { code: "E.PKG.PERMISSION", reason: "it is not signed", op: "install", keyId: "k" },
    });
    expect(jobsBefore).toBe(1);
    expect((await harness.job(1)).job).toMatchObject({ request: { version: "1.0.1" } });
  });

  it("[W750] the same command sent again is carried out once, and its end is sent again", async () => {
    const harness = await new ManagerHarness().start();
    await harness.manager.takeCommand(install("c-1"));
    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).resolve({ details: {} });
    await harness.terminalEvent();

    await harness.manager.takeCommand(install("c-1"));

    expect(await harness.terminalEvent(1)).toEqual(await harness.terminalEvent(0));
    expect(harness.jobs).toHaveLength(1);
  });

  it("[W751] after a restart an unfinished command is carried out again, and an end that was not acked is reported again", async () => {
    const before = await new ManagerHarness().start();
    await before.manager.takeCommand(install("c-1"));
    (await before.job()).resolve({ details: { n: 1 } });
    await before.terminalEvent();
    await before.manager.takeCommand(install("c-2", "1.0.1"));
    await before.job(1);

    const after = await new ManagerHarness().start();

    expect(await after.terminalEvent()).toMatchObject({ command_id: "c-1", status: "installed", details: { n: 1 } });
    const { job, resolve } = await after.job();
    expect(job).toMatchObject({ request: { version: "1.0.1" } });
    resolve({ details: {} });
    expect(await after.terminalEvent(1)).toMatchObject({ command_id: "c-2", status: "installed" });
  });

  it("[W751] a command during which the worker ended three times is given up", async () => {
    const [first, ...others] = [new ManagerHarness(), new ManagerHarness(), new ManagerHarness()];
    await first?.start();
    await first?.manager.takeCommand(install("c-1"));
    await first?.job();
    for (const harness of others) await (await harness.start()).job();

    const last = await new ManagerHarness().start();

    expect(await last.terminalEvent()).toMatchObject({
      status: "failed",
      details: { reason: expect.stringContaining("ended 3 times") },
    });
    expect(last.jobs).toEqual([]);
  });

  it("[W752] an uninstall is no longer offered, waits for the attempts that use the version, and removes it then", async () => {
    const harness = await new ManagerHarness().start();
    harness.attempts.add("acme.tools/1.0.0");

    await harness.manager.takeCommand(uninstall("c-1", "1.0.0"));
    await vi.waitUntil(() => harness.timers.length === 1);
    const isLeavingMeanwhile = harness.manager.isLeaving("acme.tools", "1.0.0");
    const stepsMeanwhile = [...harness.steps];
    harness.attempts.clear();
    for (const timer of harness.timers) timer();
    (await harness.job()).resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({ status: "removed", details: { versions: ["1.0.0"] } });
    expect(isLeavingMeanwhile).toBe(true);
    expect(stepsMeanwhile).toEqual(["clean", "changed"]);
    expect(harness.steps).toEqual(["clean", "changed", "uninstall", "changed"]);
    expect(harness.manager.isLeaving("acme.tools", "1.0.0")).toBe(false);
    expect(harness.events[0]?.[0]).toMatchObject({ status: "removing", stage: "wait" });
  });

  it("[W752] an uninstall without a version removes all versions and ends with one event", async () => {
    const harness = await new ManagerHarness().start();

    await harness.manager.takeCommand(uninstall("c-1"));
    (await harness.job()).resolve({ details: { versions: ["1.0.0", "1.1.0"] } });
    (await harness.job(1)).resolve({ details: {} });
    (await harness.job(2)).resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({
      version: "*",
      status: "removed",
      details: { versions: ["1.0.0", "1.1.0"] },
    });
    expect(harness.jobs.map(({ job }) => job)).toMatchObject([{ type: "list" }, { version: "1.0.0" }, { version: "1.1.0" }]);
  });

  it("[W753] begin, stages and end of a command are in the log at level info, with the type, id, corr and seq of its frame; a failure is a warning with its code", async () => {
    const harness = await new ManagerHarness().start();
    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).reject(fault("E.PKG.INVALID", "no"));
    await harness.terminalEvent();

    const frame = { type: "biz.pkg.install", id: "f-c-1", corr: "c-1", seq: 4, package: "acme.tools", version: "1.0.0" };
    expect(harness.logEvents.map(({ level, message, details }) => [level, message, details])).toEqual([
      ["info", "install of acme.tools 1.0.0 begins", frame],
      ["warn", "install of acme.tools 1.0.0 failed: no", { ...frame, code: "E.PKG.INVALID" }],
    ]);
  });

  it("[W751] a manager that closes ends its job without reporting it: the command goes on after the next start", async () => {
    const harness = await new ManagerHarness().start();
    await harness.manager.takeCommand(install("c-1"));
    await harness.job();

    await harness.manager.close();

    expect(harness.events).toEqual([]);
    expect((await (await new ManagerHarness().start()).job()).job).toMatchObject({ type: "install" });
  });
});
