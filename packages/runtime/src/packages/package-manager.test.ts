import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fault, type PackageEventPayload } from "@astraflow/protocol";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LoadedPackagesSummary } from "../handlers/package-loader.ts";
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

const loadedFrom = (dir: string, name = "acme.tools", version = "1.0.0") => ({
  name,
  version,
  dir,
  manifestJson: {},
  nodeTypes: ["a"],
});
const allLoaded: LoadedPackagesSummary = {
  packages: [
    loadedFrom("packages/acme.tools/1.0.0"),
    loadedFrom("packages/acme.tools/1.0.1", "acme.tools", "1.0.1"),
    loadedFrom("packages/acme.other/1.0.0", "acme.other"),
  ],
  problems: [],
};

/** A manager whose jobs end when the test says so. */
class ManagerHarness {
  readonly jobs: StartedJob[] = [];
  readonly events: [PackageEventPayload, string | null][] = [];
  readonly logEvents: PackageLogEvent[] = [];
  readonly timers: (() => void)[] = [];
  readonly steps: string[] = [];
  readonly attempts = new Set<string>();
  /** What the worker could load. */
  loaded: LoadedPackagesSummary | Error = allLoaded;
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
      packagesChanged: async () => {
        this.steps.push("changed");
        if (this.loaded instanceof Error) throw this.loaded;
        return this.loaded;
      },
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

const install = (id: string, version = "1.0.0", name = "acme.tools"): TakenPackageCommand => ({
  id,
  type: "install",
  frame: { type: "biz.pkg.install", id: `f-${id}`, corr: id, seq: 4 },
  payload: { name, version, url: "https://example.com/a.cwx", command_id: id },
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

  it("[W1101] a command that is sent again while the manager still starts is carried out once", async () => {
    const before = await new ManagerHarness().start();
    await before.manager.takeCommand(install("c-1"));
    await before.job();
    const after = new ManagerHarness();

    const started = after.start();
    await after.manager.takeCommand(install("c-1"));
    await started;
    (await after.job()).resolve({ details: {} });
    await after.terminalEvent();
    await after.manager.takeCommand(install("c-2"));

    expect((await after.job(1)).job).toMatchObject({ request: { command_id: "c-2" } });
  });

  it("[W1101] a command that its scheduler sends again at each start of the worker is given up after three starts all the same", async () => {
    const harnesses = [new ManagerHarness(), new ManagerHarness(), new ManagerHarness()];
    for (const harness of harnesses) {
      const started = harness.start();
      await harness.manager.takeCommand(install("c-1"));
      await started;
      await harness.job();
    }
    const last = new ManagerHarness();
    const started = last.start();

    await last.manager.takeCommand(install("c-1"));
    await started;

    expect(await last.terminalEvent()).toMatchObject({
      status: "failed",
      details: { reason: expect.stringContaining("ended 3 times") },
    });
    expect(last.jobs).toEqual([]);
  });

  it("[W1101] while the journal of the commands cannot be read every command is refused, and taken once it can be", async () => {
    mkdirSync(path.join(root, "journal"), { recursive: true });
    const damaged = path.join(root, "journal", "damaged.json");
    writeFileSync(damaged, '{"command');
    const harness = await new ManagerHarness().start();

    await expect(harness.manager.takeCommand(install("c-1"))).rejects.toThrow(`${damaged} is not JSON; remove it`);
    rmSync(damaged);
    await harness.manager.takeCommand(install("c-1"));

    expect((await harness.job()).job).toMatchObject({ type: "install" });
    expect(harness.logEvents[0]).toMatchObject({ level: "warn", message: expect.stringContaining("is not JSON") });
  });

  it("[W1101] commands that come in the same millisecond are carried out in the order of their arrival after a restart", async () => {
    const before = await new ManagerHarness().start();
    const ids = ["c-1", "c-2", "c-3", "c-4", "c-5"];
    for (const id of ids) await before.manager.takeCommand(install(id));
    const after = await new ManagerHarness().start();

    for (const index of ids.keys()) (await after.job(index)).resolve({ details: {} });
    await after.terminalEvent(ids.length - 1);

    expect(after.jobs.map(({ job }) => (job.type === "install" ? job.request.command_id : ""))).toEqual(ids);
  });

  it("[W1102] a version that cannot be loaded is removed again, and its install fails with E.PKG.INVALID and the reason", async () => {
    const harness = await new ManagerHarness().start();
    const dir = path.join("packages", "acme.tools", "1.0.0");
    const problem = { dir, code: "E.PKG.INVALID", message: "entrypoint main.mjs cannot be imported: no such module" };
    harness.loaded = { packages: [], problems: [problem] };

    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).resolve({ details: {} });
    const rollback = await harness.job(1);
    const eventsBefore = harness.events.length;
    rollback.resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({
      status: "failed",
      details: { code: "E.PKG.INVALID", reason: expect.stringContaining("cannot be imported: no such module"), op: "install" },
    });
    expect(rollback.job).toEqual({ type: "uninstall", name: "acme.tools", version: "1.0.0" });
    expect(eventsBefore).toBe(0);
    expect(harness.steps).toEqual(["clean", "install", "changed", "uninstall", "changed"]);
  });

  it("[W1102] a version that another folder holds already is removed again and named", async () => {
    const harness = await new ManagerHarness().start();
    const problem = { dir: "packages/acme.tools/1.0.0", code: "E.PKG.INVALID", message: "already loaded from packages/copy" };
    harness.loaded = { packages: [loadedFrom("packages/copy")], problems: [problem] };

    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).resolve({ details: {} });
    (await harness.job(1)).resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({
      status: "failed",
      details: { reason: expect.stringContaining("already loaded from packages/copy") },
    });
  });

  it("[W1102] a version that works in part is installed, and the event names what does not", async () => {
    const harness = await new ManagerHarness().start();
    const problem = { dir: "packages/acme.tools/1.0.0", code: "E.PKG.INVALID", message: "acme.b names handler b" };
    harness.loaded = { ...allLoaded, problems: [problem] };

    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({
      status: "installed",
      details: { problems: ["acme.b names handler b"] },
    });
  });

  it("[W1103] what was installed or removed is reported as that also where the handlers cannot be loaded again just then", async () => {
    const harness = await new ManagerHarness().start();
    harness.loaded = new Error("the handler thread ended");

    await harness.manager.takeCommand(install("c-1"));
    (await harness.job()).resolve({ details: {} });
    await harness.manager.takeCommand(uninstall("c-2", "1.0.0"));
    (await harness.job(1)).resolve({ details: {} });

    expect(await harness.terminalEvent()).toMatchObject({ status: "installed" });
    expect(await harness.terminalEvent(1)).toMatchObject({ status: "removed" });
    expect(harness.logEvents.filter(({ level }) => level === "warn").map(({ message }) => message)).toContain(
      "the packages cannot be loaded again: the handler thread ended",
    );
  });

  it("[W1103] an uninstall during which the worker was killed ends with its own event after the restart, not before the version is gone", async () => {
    const before = await new ManagerHarness().start();
    await before.manager.takeCommand(uninstall("c-1", "1.0.0"));
    await before.job();
    const after = await new ManagerHarness().start();

    const { job, resolve } = await after.job();
    const terminalBefore = after.events.filter(([, command]) => command !== null);
    resolve({ details: { wasInstalled: false } });

    expect(job).toEqual({ type: "uninstall", name: "acme.tools", version: "1.0.0" });
    expect(terminalBefore).toEqual([]);
    expect(await after.terminalEvent()).toMatchObject({ status: "removed", command_id: "c-1" });
  });

  it("[W1104] while an uninstall waits for a task, commands for other packages and other versions are carried out, those for its version wait", async () => {
    const harness = await new ManagerHarness().start();
    harness.attempts.add("acme.tools/1.0.0");
    await harness.manager.takeCommand(uninstall("c-1", "1.0.0"));
    await vi.waitUntil(() => harness.timers.length === 1);

    await harness.manager.takeCommand(install("c-2", "1.0.0"));
    await harness.manager.takeCommand(install("c-3", "1.0.1"));
    await harness.manager.takeCommand(install("c-4", "1.0.0", "acme.other"));
    (await harness.job(0)).resolve({ details: {} });
    (await harness.job(1)).resolve({ details: {} });
    const meanwhile = [await harness.terminalEvent(0), await harness.terminalEvent(1)].map(({ command_id }) => command_id);
    harness.attempts.clear();
    for (const timer of harness.timers.splice(0)) timer();
    (await harness.job(2)).resolve({ details: {} });
    (await harness.job(3)).resolve({ details: {} });

    expect(new Set(meanwhile)).toEqual(new Set(["c-3", "c-4"]));
    expect(await harness.terminalEvent(2)).toMatchObject({ command_id: "c-1", status: "removed" });
    expect(await harness.terminalEvent(3)).toMatchObject({ command_id: "c-2", status: "installed" });
  });

  it("[W1104] restarts of a worker do not count against an uninstall that only waits", async () => {
    for (const index of [0, 1, 2, 3]) {
      const harness = new ManagerHarness();
      harness.attempts.add("acme.tools/1.0.0");
      await harness.start();
      if (index === 0) await harness.manager.takeCommand(uninstall("c-1", "1.0.0"));
      await vi.waitUntil(() => harness.timers.length === 1);
      await harness.manager.close();
    }

    const last = await new ManagerHarness().start();

    expect((await last.job()).job).toMatchObject({ type: "uninstall" });
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

    await harness.manager.takeCommand(install("c-2"));
    (await harness.job(1)).resolve({ details: {} });
    await harness.terminalEvent(1);

    const frame = { type: "biz.pkg.install", id: "f-c-1", corr: "c-1", seq: 4, package: "acme.tools", version: "1.0.0" };
    const second = { ...frame, id: "f-c-2", corr: "c-2" };
    expect(harness.logEvents.map(({ level, message, details }) => [level, message, details])).toEqual([
      ["info", "install of acme.tools 1.0.0 begins", frame],
      ["warn", "install of acme.tools 1.0.0 failed: no", { ...frame, code: "E.PKG.INVALID" }],
      ["info", "install of acme.tools 1.0.0 begins", second],
      ["info", "install of acme.tools 1.0.0 is done", { ...second, code: "OK" }],
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
