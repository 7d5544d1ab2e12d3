// Package commands that a worker leaves without an answer, what it shows later, and which reports end an uninstall.
import type { PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { describeWorker, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const minute = 60_000;
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0" };
const uninstall: PackageCommand = { type: "pkg.uninstall", name: "extra", version: "2.0.0" };
const extra = { name: "extra", version: "2.0.0", status: "installed" };
/** What every worker of these tests has besides. */
const base = { name: "test", version: "1.0.0", status: "installed" };
const older = { dialect: "first", features: [], running: null } as const;
const reporting = { features: ["fence", "cancel", "held", "pkg.install"] };

async function readCommand(harness: EngineHarness, id: string): Promise<WorkerCommandRecord> {
  const { items } = await harness.store.page({ page: "doc", tenant: "t1", collection: "command", names: [id] });
  return JSON.parse(items[0]?.body ?? "null") as WorkerCommandRecord;
}

async function commandFacts(harness: EngineHarness): Promise<string[]> {
  const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, subject: "worker/t1/w" });
  return items
    .filter(({ type }) => type.startsWith("command."))
    .map(({ type, data }) => `${type.slice(8)} ${String(data["id"])}`);
}

/** A worker to which one command was sent. */
async function sendCommand(order: PackageCommand, about: object = older, settings: object = {}) {
  const harness = await new EngineHarness({ settings }).start();
  const worker = await harness.joinWorker("w", about);
  await issueCommand(harness, "c-1", order);
  return { harness, worker };
}

const issueCommand = (harness: EngineHarness, id: string, order: PackageCommand) =>
  harness.ask({ type: "worker.order", tenant: "t1", by: "ada", worker: "t1/w", id, order });

/** Heartbeats and nothing else: the worker lives and does not answer. */
async function passMinutes(harness: EngineHarness, worker: TestWorker, minutes: number): Promise<void> {
  for (let half = 0; half < minutes * 4; half++) {
    await harness.advance(minute / 4);
    await worker.heartbeat(null);
  }
}

const reportPackage = (worker: TestWorker, status: "installing" | "installed" | "removed" | "failed", details: object) =>
  worker.harness.ask({
    type: "worker.package",
    tenant: "t1",
    worker: worker.worker,
    session: worker.session,
    name: "extra",
    version: "2.0.0",
    status,
    details: details as Record<string, unknown>,
  });

const announce = (worker: TestWorker, packages: (typeof base)[], about: object = reporting) =>
  worker.harness.ask({
    type: "worker.describe",
    tenant: "t1",
    worker: worker.worker,
    session: worker.session,
    about: describeWorker({ ...about, packages }),
  });

describe("a package command without an answer", () => {
  it("[E1157] a package command that its worker never answers fails with E.TIMEOUT after 30 minutes", async () => {
    const { harness, worker } = await sendCommand(install);

    await passMinutes(harness, worker, 29);
    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "sent" });
    await passMinutes(harness, worker, 2);

    const { status, error } = await readCommand(harness, "c-1");
    expect({ status, code: error?.code }).toEqual({ status: "failed", code: "E.TIMEOUT" });
    expect(error?.message).toMatch(/worker w did not answer the command within 18\d\d s; its next register shows/);
    expect(await commandFacts(harness)).toEqual(["sent c-1", "failed c-1"]);
  });

  it("[E1157] the deadline of a command counts before the scheduler's, and an uninstall has one too", async () => {
    const own = await sendCommand({ ...uninstall, deadlineMs: 2 * minute });
    const general = await sendCommand(uninstall, older, { packageDeadlineMs: 5 * minute });

    for (const { harness, worker } of [own, general]) await passMinutes(harness, worker, 3);

    expect(await readCommand(own.harness, "c-1")).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
    expect(await readCommand(general.harness, "c-1")).toMatchObject({ status: "sent" });
  });

  it("[E1157] a worker that reports its progress has answered: the time begins anew", async () => {
    const { harness, worker } = await sendCommand(install, reporting);
    for (let report = 0; report < 3; report++) {
      await passMinutes(harness, worker, 20);
      await reportPackage(worker, "installing", { command: "c-1" });
    }
    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "sent" });

    await passMinutes(harness, worker, 31);

    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "failed" });
  });
});

describe("what a worker shows after the deadline", () => {
  it("[E1158] a later register that shows the version is recorded as the outcome, and the command has ended once", async () => {
    const { harness, worker } = await sendCommand(install);
    await passMinutes(harness, worker, 31);

    await harness.joinWorker("w", { ...older, packages: [base, extra] });

    const record = await readCommand(harness, "c-1");
    expect(record).toMatchObject({ status: "failed", details: { lateOutcome: { status: "installed", at: harness.now } } });
    await harness.joinWorker("w", { ...older, packages: [base, extra] });
    expect(await commandFacts(harness)).toEqual(["sent c-1", "failed c-1", "outcome c-1"]);
    expect(harness.effects.filter(({ type }) => type === "order")).toHaveLength(1);
  });

  it("[E1158] a register without the version records nothing", async () => {
    const { harness, worker } = await sendCommand(install);
    await passMinutes(harness, worker, 31);

    await harness.joinWorker("w", { ...older, packages: [base] });

    expect(await readCommand(harness, "c-1")).not.toHaveProperty("details");
  });

  it("[E1158] a late report that names the command is recorded as its outcome, a failure with its error", async () => {
    const { harness, worker } = await sendCommand(install, reporting);
    await passMinutes(harness, worker, 31);

    await reportPackage(worker, "failed", { command: "c-1", code: "E.PKG.INVALID", reason: "the disk is full" });

    const { details } = await readCommand(harness, "c-1");
    expect(details).toMatchObject({ lateOutcome: { status: "failed", error: { code: "E.PKG.INVALID" } } });
    expect(JSON.stringify(details)).toContain("the disk is full");
  });

  it("[E1158] what is announced after a newer command about the same version belongs to that one", async () => {
    const { harness, worker } = await sendCommand(install);
    await passMinutes(harness, worker, 31);
    await issueCommand(harness, "c-2", install);

    await harness.joinWorker("w", { ...older, packages: [base, extra] });

    expect(await commandFacts(harness)).toEqual(["sent c-1", "failed c-1", "sent c-2", "acked c-2"]);
  });
});

describe("the end of an uninstall", () => {
  it("[E1159] a worker that announced pkg.install ends it only by the report that names it, so a failing hook is not lost", async () => {
    const { harness, worker } = await sendCommand(uninstall, { ...reporting, packages: [base, extra] });

    await announce(worker, [base]);
    await reportPackage(worker, "removed", {});
    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "sent" });
    await reportPackage(worker, "failed", { command: "c-1", code: "E.PKG.INVALID", reason: "hook exited with 3" });

    const { status, error } = await readCommand(harness, "c-1");
    expect({ status, message: error?.message }).toEqual({
      status: "failed",
      message: expect.stringContaining("hook exited with 3") as unknown,
    });
  });

  it("[E1159] the inventory of a new session ends it, that of a resumed one does not", async () => {
    const { harness, worker } = await sendCommand(uninstall, { ...reporting, packages: [base, extra] });
    const about = { ...reporting, packages: [base] };

    await harness.joinWorker("w", { ...about, session: worker.session, resumed: { unacked: [] } });
    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "sent" });
    await harness.joinWorker("w", { ...about, boot: "w-boot-2" });

    expect(await readCommand(harness, "c-1")).toMatchObject({ status: "acked" });
  });

  it("[E1159] the inventory of a worker of an older dialect, or one that carries out no such commands, ends it at once", async () => {
    for (const about of [older, { features: ["fence", "cancel", "held"] }]) {
      const { harness, worker } = await sendCommand(uninstall, { ...about, packages: [base, extra] });

      await announce(worker, [base], about);

      expect(await readCommand(harness, "c-1")).toMatchObject({ status: "acked" });
    }
  });
});
