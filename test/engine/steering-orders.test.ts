// Workers known over REST alone, and commands that a worker's session carries out: sent, answered, sent again to a new session.

import type { Command, Effect, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { about, chain, Harness, type Refused } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

const pkg = (name: string, version = "1.0.0", status = "installed") => ({ name, version, status });
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0", url: "https://x.test/p.zip" };

const enrol = (changes: Partial<Extract<Command, { type: "worker.enrol" }>> = {}): Command => ({
  type: "worker.enrol",
  tenant: "t1",
  by: "token-1",
  worker: "t1/w",
  name: "w",
  about: about(),
  status: null,
  packages: null,
  ...changes,
});
const sign = (changes: Partial<Extract<Command, { type: "worker.enrol" }>> = {}) => enrol({ about: null, ...changes });
const send = (id: string, order: PackageCommand = install, worker = "t1/w"): Command => ({
  type: "worker.order",
  tenant: "t1",
  by: "ada",
  corr: "req-1",
  worker,
  id,
  order,
});

const orders = (world: Harness) =>
  world.effects.filter((effect): effect is Extract<Effect, { type: "order" }> => effect.type === "order");

async function command(world: Harness, id: string): Promise<WorkerCommandRecord | null> {
  const { items } = await world.store.page({ page: "doc", tenant: "t1", collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord);
}

const refusal = (answer: Promise<unknown>): Promise<Refused> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as Refused,
  );

describe("workers that are known over REST", () => {
  it("[B60] are listed and get nothing before their socket is up", async () => {
    const world = await new Harness().start();

    const answer = await world.ask(enrol());
    await world.run(chain(1));
    await world.settle();

    expect(answer).toEqual({ of: "enrolled", worker: "t1/w", heartbeatMs: 10_000, isOnline: false });
    expect(await world.workerRow("t1/w")).toMatchObject({ phase: "enrolled", name: "w", due: null });
    expect(world.dispatches()).toEqual([]);
    const crew = await world.join("w");
    await world.settle();
    expect(crew.sent).toHaveLength(1);
    expect(await world.workerRow("t1/w")).toMatchObject({ phase: "online" });
  });

  it("[B61] are seen by their signs of life, which refresh packages; one that never enrolled is unknown, also another tenant's", async () => {
    const world = await new Harness().start();
    await world.ask(enrol());
    await world.advance(5_000);

    await world.ask(sign({ status: "idle", packages: [pkg("test"), pkg("more")] }));
    const unknown = await refusal(world.ask(sign({ worker: "t1/x" })));
    const foreign = await refusal(world.ask(sign({ tenant: "t2", worker: "t2/w" })));

    const row = await world.workerRow("t1/w");
    expect(row.seenAt).toBe(world.now);
    expect(JSON.parse(row.about)).toMatchObject({ packages: [pkg("test"), pkg("more")], slots: 1 });
    expect([unknown.code, foreign.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND"]);
    expect(await world.facts("t1", "worker/t1/w")).toEqual(["worker.enrolled", "audit.worker.enrol", "worker.described"]);
  });

  it("[B61] that are online stay so: only their packages are refreshed, and count for placement at once", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 3, packages: [] });
    await world.run(chain(1));

    const answer = await world.ask(enrol({ about: about({ slots: 99, packages: [pkg("test")] }) }));
    await world.settle();

    expect(answer).toMatchObject({ isOnline: true });
    expect(crew.sent).toHaveLength(1);
    expect(JSON.parse((await world.workerRow("t1/w")).about)).toMatchObject({ slots: 3, packages: [pkg("test")] });
  });

  it("[B61] that were lost are known again by their word, and keep what their leases need until all is taken back", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    await crew.leave();
    for (let at = 0; at < 31; at++) await world.advance(1_000);
    expect((await world.workerRow("t1/w")).phase).toBe("lost");

    await world.ask(enrol());

    expect((await world.workerRow("t1/w")).phase).toBe("enrolled");
  });
});

describe("a sign of life", () => {
  it("[E121] leaves a worker that was lost the name it had", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    await crew.leave();
    for (let at = 0; at < 31; at++) await world.advance(1_000);

    await world.ask(sign({ name: "its instance" }));

    expect(await world.workerRow("t1/w")).toMatchObject({ phase: "enrolled", name: "w" });
  });
});

describe("commands for a worker", () => {
  it("[E122] tell the log and the audit where a package lies, and not what lets somebody in there", async () => {
    const world = await new Harness().start();
    await world.join("w");
    const url = "https://bob:hidden@x.test/@scope/p.zip?sig=hidden#hidden";

    await world.ask({ ...send("c-1"), order: { ...install, url } } as Command);

    expect(orders(world)).toMatchObject([{ order: { url } }]);
    const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 100 });
    const told = items.filter(({ type }) => type === "command.sent" || type === "audit.pkg.install");
    expect(told.map(({ data }) => data["url"])).toEqual(["https://x.test/@scope/p.zip", "https://x.test/@scope/p.zip"]);
    expect(JSON.stringify(items)).not.toContain("hidden");
  });

  it("[B62] go to its session, are kept as documents, told of and audited", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");

    const answer = await world.ask(send("c-1"));

    expect(answer).toEqual({ of: "order", id: "c-1", sent: true });
    expect(orders(world)).toEqual([
      { type: "order", session: crew.session, worker: "t1/w", tenant: "t1", id: "c-1", order: install },
    ]);
    expect(await command(world, "c-1")).toMatchObject({
      status: "sent",
      by: "ada",
      corr: "req-1",
      workerName: "w",
      order: install,
    });
    expect((await world.facts("t1", "worker/t1/w")).slice(1)).toEqual(["command.sent", "audit.pkg.install"]);
    expect((await refusal(world.ask(send("c-1")))).code).toBe("E.CONFLICT");
  });

  it("[B63] are answered by the worker's word about the package, well or ill", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    await world.ask(send("good"));
    await world.ask(send("bad", { type: "pkg.install", name: "broken", version: "1.0.0" }));
    const report = (name: string, version: string, status: "installed" | "failed"): Command => ({
      type: "worker.package",
      tenant: "t1",
      worker: "t1/w",
      session: crew.session,
      name,
      version,
      status,
      details: { log: "x" },
    });

    await world.ask(report("extra", "2.0.0", "installed"));
    await world.ask(report("broken", "1.0.0", "failed"));

    expect(await command(world, "good")).toMatchObject({ status: "acked", endedAt: world.now, details: { log: "x" } });
    expect(await command(world, "bad")).toMatchObject({ status: "failed" });
    const said = (await world.facts("t1", "worker/t1/w")).filter((type) => /^(command|worker.package)/.test(type));
    expect(said).toEqual(["command.sent", "command.sent", "worker.package", "command.acked", "worker.package", "command.failed"]);
    expect((await refusal(world.ask({ ...report("extra", "2.0.0", "installed"), session: "other" } as Command))).code).toBe(
      "E.SESSION.STALE_BINDING",
    );
  });

  it("[B63] a word that a package is gone answers who wanted it gone, and one that names its command answers that alone", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { packages: [pkg("test"), pkg("extra", "2.0.0")] });
    const word = { type: "worker.package", tenant: "t1", worker: "t1/w", session: crew.session, name: "extra" } as const;
    await world.ask(send("go", { type: "pkg.uninstall", name: "extra", version: null }));
    await world.ask(send("come"));
    await world.ask(send("come-2"));

    await world.ask({ ...word, version: "2.0.0", status: "removed" });
    await world.ask({ ...word, version: "*", status: "failed", details: { command: "come-2", reason: "no" } });

    const statuses = await Promise.all(["go", "come", "come-2"].map(async (id) => (await command(world, id))?.status));
    expect(statuses).toEqual(["acked", "sent", "failed"]);
  });

  it("[B63] are answered by what the worker announces next, because some never say more", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { packages: [pkg("test"), pkg("old")] });
    await world.ask(send("come"));
    await world.ask(send("go", { type: "pkg.uninstall", name: "old", version: null }));

    await world.ask({
      type: "worker.describe",
      tenant: "t1",
      worker: "t1/w",
      session: crew.session,
      about: about({ packages: [pkg("test"), pkg("extra", "2.0.0")] }),
    });

    expect([(await command(world, "come"))?.status, (await command(world, "go"))?.status]).toEqual(["acked", "acked"]);
  });

  it("[B64] are named with every join of the worker until it has answered, for the door to send each once a session", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    await world.ask(send("c-1"));

    await world.join("w", { session: crew.session, boot: crew.boot, resumed: { unacked: [] } });
    expect(orders(world).map(({ session }) => session)).toEqual([crew.session, crew.session]);
    const fresh = await world.join("w", { boot: "boot-2" });
    expect(orders(world).at(-1)).toMatchObject({ id: "c-1", session: fresh.session });
    await world.join("w", { boot: "boot-3", packages: [pkg("test"), pkg("extra", "2.0.0")] });

    expect(orders(world)).toHaveLength(3);
    expect((await command(world, "c-1"))?.status).toBe("acked");
  });

  it("[B65] for a worker without a session, an unknown one or one that owes too much are refused, and nothing is kept", async () => {
    const world = await new Harness().start();
    await world.ask(enrol());
    const unknown = await refusal(world.ask(send("c-1", install, "t1/x")));
    const absent = await refusal(world.ask(send("c-1")));
    await world.join("w");
    for (let at = 0; at < 32; at++) await world.ask(send(`n-${at}`));
    const many = await refusal(world.ask(send("n-32")));

    expect([unknown.code, absent.code, many.code]).toEqual(["E.NOT_FOUND", "E.SESSION.UNKNOWN", "E.OVERLOADED"]);
    expect([await command(world, "c-1"), await command(world, "n-32")]).toEqual([null, null]);
  });

  it("[B62] reach a worker whose socket another scheduler holds", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const crew = await near.join("w");

    await far.ask(send("c-1"));
    await stage.pass(1);

    expect(orders(far)).toEqual([]);
    expect(orders(near)).toMatchObject([{ id: "c-1", session: crew.session }]);
  });
});
