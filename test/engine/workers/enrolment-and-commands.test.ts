// Workers known over REST alone, and commands that a worker's session carries out: sent, answered, sent again to a new session.

import type { Command, Effect, PackageCommand, WorkerCommandRecord, WorkerDescription } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, describeWorker, EngineHarness, type RefusedError } from "../harness/engine-harness.ts";

const packageEntry = (name: string, version = "1.0.0", status = "installed") => ({ name, version, status });
const installOrder: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0", url: "https://x.test/p.zip" };

const enrolCommand = (changes: Partial<Extract<Command, { type: "worker.enrol" }>> = {}): Command => ({
  type: "worker.enrol",
  tenant: "t1",
  by: "token-1",
  worker: "t1/w",
  name: "w",
  about: describeWorker(),
  status: null,
  packages: null,
  ...changes,
});
const signOfLifeCommand = (changes: Partial<Extract<Command, { type: "worker.enrol" }>> = {}) =>
  enrolCommand({ about: null, ...changes });
const orderCommand = (id: string, order: PackageCommand = installOrder, worker = "t1/w"): Command => ({
  type: "worker.order",
  tenant: "t1",
  by: "ada",
  corr: "req-1",
  worker,
  id,
  order,
});

const ordersSent = (harness: EngineHarness) =>
  harness.effects.filter((effect): effect is Extract<Effect, { type: "order" }> => effect.type === "order");

async function readCommand(harness: EngineHarness, id: string): Promise<WorkerCommandRecord | null> {
  const { items } = await harness.store.page({ page: "doc", tenant: "t1", collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord);
}

const refusalOf = (answer: Promise<unknown>): Promise<RefusedError> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as RefusedError,
  );

describe("workers that are known over REST", () => {
  it("[B60] a worker known only over REST is listed and gets no work before its socket is connected", async () => {
    const harness = await new EngineHarness().start();

    const answer = await harness.ask(enrolCommand());
    await harness.startRun(buildChain(1));
    await harness.settle();

    expect(answer).toEqual({ of: "enrolled", worker: "t1/w", heartbeatMs: 10_000, isOnline: false });
    expect(await harness.workerRow("t1/w")).toMatchObject({ phase: "enrolled", name: "w", due: null });
    expect(harness.dispatches()).toEqual([]);
    const worker = await harness.joinWorker("w");
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);
    expect(await harness.workerRow("t1/w")).toMatchObject({ phase: "online" });
  });

  it("[B61] a sign of life updates when a worker was last seen and its packages; a worker that never enrolled in the tenant is unknown", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(enrolCommand());
    await harness.advance(5_000);

    await harness.ask(signOfLifeCommand({ status: "idle", packages: [packageEntry("test"), packageEntry("more")] }));
    const unknown = await refusalOf(harness.ask(signOfLifeCommand({ worker: "t1/x" })));
    const foreign = await refusalOf(harness.ask(signOfLifeCommand({ tenant: "t2", worker: "t2/w" })));

    const row = await harness.workerRow("t1/w");
    expect(row.seenAt).toBe(harness.now);
    expect(JSON.parse(row.about)).toMatchObject({ packages: [packageEntry("test"), packageEntry("more")], slots: 1 });
    expect([unknown.code, foreign.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND"]);
    expect(await harness.facts("t1", "worker/t1/w")).toEqual(["worker.enrolled", "audit.worker.enrol", "worker.described"]);
  });

  it("[B61] an online worker that enrols over REST stays online: only its packages are updated, and they count for placement at once", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3, packages: [] });
    await harness.startRun(buildChain(1));

    const answer = await harness.ask(enrolCommand({ about: describeWorker({ slots: 99, packages: [packageEntry("test")] }) }));
    await harness.settle();

    expect(answer).toMatchObject({ isOnline: true });
    expect(worker.dispatchesSent).toHaveLength(1);
    expect(JSON.parse((await harness.workerRow("t1/w")).about)).toMatchObject({ slots: 3, packages: [packageEntry("test")] });
  });

  it("[B61] packages that a worker registered over REST stay while its session names none, and go when it names others", async () => {
    const harness = await new EngineHarness().start();
    const named = async () => (JSON.parse((await harness.workerRow("t1/w")).about) as WorkerDescription).packages;
    await harness.ask(enrolCommand({ about: describeWorker({ packages: [packageEntry("test")] }) }));
    const worker = await harness.joinWorker("w", { packages: [], keepsPackages: true });
    const about = describeWorker({ packages: [], dialect: "basic" });
    const describeCommand = { type: "worker.describe", tenant: "t1", worker: "t1/w", session: worker.session, about } as const;

    await harness.ask({ ...describeCommand, keepsPackages: true });
    expect(await named()).toEqual([packageEntry("test")]);
    await harness.startRun(buildChain(1));
    await harness.settle();
    expect(worker.dispatchesSent).toHaveLength(1);

    await harness.ask(describeCommand);
    expect(await named()).toEqual([]);
  });

  it("[B61] a lost worker that registers again over REST is enrolled again", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await worker.disconnect();
    for (let at = 0; at < 31; at++) await harness.advance(1_000);
    expect((await harness.workerRow("t1/w")).phase).toBe("lost");

    await harness.ask(enrolCommand());

    expect((await harness.workerRow("t1/w")).phase).toBe("enrolled");
  });
});

describe("a sign of life", () => {
  it("[E121] a sign of life does not rename a lost worker", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await worker.disconnect();
    for (let at = 0; at < 31; at++) await harness.advance(1_000);

    await harness.ask(signOfLifeCommand({ name: "its instance" }));

    expect(await harness.workerRow("t1/w")).toMatchObject({ phase: "enrolled", name: "w" });
  });
});

describe("commands for a worker", () => {
  it.each([
    ["https://bob:hidden@x.test/@scope/p.zip?sig=hidden#hidden"],
    ["HTTPS://bob:hidden@hidden@x.test/@scope/p.zip"],
    ["https:bob:hidden@x.test/@scope/p.zip"],
    ["https:///bob:hidden@x.test/@scope/p.zip#@hidden"],
  ])("[E122] the log and the audit of a package command show the package's address without its credentials: %s", async (url) => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("w");

    await harness.ask({ ...orderCommand("c-1"), order: { ...installOrder, url } } as Command);

    expect(ordersSent(harness)).toMatchObject([{ order: { url } }]);
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100 });
    const facts = items.filter(({ type }) => type === "command.sent" || type === "audit.pkg.install");
    const shown = expect.stringMatching(/^https:\/*x\.test\/@scope\/p\.zip$/i);
    expect(facts.map(({ data }) => data["url"])).toEqual([shown, shown]);
    expect(JSON.stringify(items)).not.toContain("hidden");
  });

  it("[B62] a package command is sent to the worker's session, stored as a document, logged and audited", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");

    const answer = await harness.ask(orderCommand("c-1"));

    expect(answer).toEqual({ of: "order", id: "c-1", sent: true });
    expect(ordersSent(harness)).toEqual([
      { type: "order", session: worker.session, worker: "t1/w", tenant: "t1", id: "c-1", order: installOrder },
    ]);
    expect(await readCommand(harness, "c-1")).toMatchObject({
      status: "sent",
      by: "ada",
      corr: "req-1",
      workerName: "w",
      order: installOrder,
    });
    expect((await harness.facts("t1", "worker/t1/w")).slice(1)).toEqual(["command.sent", "audit.pkg.install"]);
    expect((await refusalOf(harness.ask(orderCommand("c-1")))).code).toBe("E.CONFLICT");
  });

  it("[B63] a package command is acked or failed by the worker's report about the package", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.ask(orderCommand("good"));
    await harness.ask(orderCommand("bad", { type: "pkg.install", name: "broken", version: "1.0.0" }));
    const report = (name: string, version: string, status: "installed" | "failed"): Command => ({
      type: "worker.package",
      tenant: "t1",
      worker: "t1/w",
      session: worker.session,
      name,
      version,
      status,
      details: { log: "x" },
    });

    await harness.ask(report("extra", "2.0.0", "installed"));
    await harness.ask(report("broken", "1.0.0", "failed"));

    expect(await readCommand(harness, "good")).toMatchObject({ status: "acked", endedAt: harness.now, details: { log: "x" } });
    expect(await readCommand(harness, "bad")).toMatchObject({ status: "failed" });
    const types = (await harness.facts("t1", "worker/t1/w")).filter((type) => /^(command|worker.package)/.test(type));
    expect(types).toEqual([
      "command.sent",
      "command.sent",
      "worker.package",
      "command.acked",
      "worker.package",
      "command.failed",
    ]);
    expect((await refusalOf(harness.ask({ ...report("extra", "2.0.0", "installed"), session: "other" } as Command))).code).toBe(
      "E.SESSION.STALE_BINDING",
    );
  });

  it("[B63] a report that a package was removed ends only the uninstall command; a report that names its command ends only that command", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { packages: [packageEntry("test"), packageEntry("extra", "2.0.0")] });
    const word = { type: "worker.package", tenant: "t1", worker: "t1/w", session: worker.session, name: "extra" } as const;
    await harness.ask(orderCommand("go", { type: "pkg.uninstall", name: "extra", version: null }));
    await harness.ask(orderCommand("come"));
    await harness.ask(orderCommand("come-2"));

    await harness.ask({ ...word, version: "2.0.0", status: "removed" });
    await harness.ask({ ...word, version: "*", status: "failed", details: { command: "come-2", reason: "no" } });

    const statuses = await Promise.all(["go", "come", "come-2"].map(async (id) => (await readCommand(harness, id))?.status));
    expect(statuses).toEqual(["acked", "sent", "failed"]);
  });

  it("[B740] a stage of an install is recorded and ends no command; a refusal of the worker keeps its code", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const word = {
      type: "worker.package",
      tenant: "t1",
      worker: "t1/w",
      session: worker.session,
      name: "extra",
      version: "2.0.0",
    } as const;
    await harness.ask(orderCommand("come"));

    await harness.ask({ ...word, status: "installing", details: { command: "come", stage: "download", progress: 0 } });
    const before = await readCommand(harness, "come");
    await harness.ask({
      ...word,
      status: "failed",
      details: { command: "come", code: "E.PKG.PERMISSION", reason: "not signed" },
    });

    expect(before).toMatchObject({ status: "sent" });
    expect(await readCommand(harness, "come")).toMatchObject({ status: "failed", error: { code: "E.PKG.PERMISSION" } });
    const types = (await harness.facts("t1", "worker/t1/w")).filter((type) => /^(command|worker.package)/.test(type));
    expect(types).toEqual(["command.sent", "worker.package", "worker.package", "command.failed"]);
  });

  it("[B63] a package command is ended by the worker's next announcement, because some workers send no other report", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { packages: [packageEntry("test"), packageEntry("old")] });
    await harness.ask(orderCommand("come"));
    await harness.ask(orderCommand("go", { type: "pkg.uninstall", name: "old", version: null }));

    await harness.ask({
      type: "worker.describe",
      tenant: "t1",
      worker: "t1/w",
      session: worker.session,
      about: describeWorker({ packages: [packageEntry("test"), packageEntry("extra", "2.0.0")] }),
    });

    expect([(await readCommand(harness, "come"))?.status, (await readCommand(harness, "go"))?.status]).toEqual([
      "acked",
      "acked",
    ]);
  });

  it("[B64] unanswered package commands are listed with every join of the worker, so that the session door can send each once per session", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.ask(orderCommand("c-1"));

    await harness.joinWorker("w", { session: worker.session, boot: worker.boot, resumed: { unacked: [] } });
    expect(ordersSent(harness).map(({ session }) => session)).toEqual([worker.session, worker.session]);
    const fresh = await harness.joinWorker("w", { boot: "boot-2" });
    expect(ordersSent(harness).at(-1)).toMatchObject({ id: "c-1", session: fresh.session });
    await harness.joinWorker("w", { boot: "boot-3", packages: [packageEntry("test"), packageEntry("extra", "2.0.0")] });

    expect(ordersSent(harness)).toHaveLength(3);
    expect((await readCommand(harness, "c-1"))?.status).toBe("acked");
  });

  it("[B65] a command for a worker with no session, with too many unanswered commands or unknown is refused, and nothing is stored", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(enrolCommand());
    const unknown = await refusalOf(harness.ask(orderCommand("c-1", installOrder, "t1/x")));
    const absent = await refusalOf(harness.ask(orderCommand("c-1")));
    await harness.joinWorker("w");
    for (let at = 0; at < 32; at++) await harness.ask(orderCommand(`n-${at}`));
    const many = await refusalOf(harness.ask(orderCommand("n-32")));

    expect([unknown.code, absent.code, many.code]).toEqual(["E.NOT_FOUND", "E.SESSION.UNKNOWN", "E.OVERLOADED"]);
    expect([await readCommand(harness, "c-1"), await readCommand(harness, "n-32")]).toEqual([null, null]);
  });

  it("[B62] a package command reaches a worker whose socket is at another scheduler", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await near.joinWorker("w");

    await far.ask(orderCommand("c-1"));
    await cluster.passSeconds(1);

    expect(ordersSent(far)).toEqual([]);
    expect(ordersSent(near)).toMatchObject([{ id: "c-1", session: worker.session }]);
  });
});
