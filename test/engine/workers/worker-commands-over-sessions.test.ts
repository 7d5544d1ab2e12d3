// Commands about workers whose sessions lose their sockets, go on over new ones or move to another scheduler while the commands are under
// way; and which announcements end which of them.

import type { Command, PackageCommand, Store, WorkerCommandRecord } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { describeWorker, EngineHarness } from "../harness/engine-harness.ts";
import { overrideStore } from "../harness/override-store.ts";

const operatorFields = { tenant: "t1", by: "ada", worker: "t1/w" } as const;
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0" };
const uninstall: PackageCommand = { type: "pkg.uninstall", name: "extra", version: null };
const orderCommand = (id: string, what: PackageCommand = install): Command => ({
  type: "worker.order",
  ...operatorFields,
  id,
  order: what,
});
const drainCommand = (id: string): Command => ({
  type: "worker.tell",
  ...operatorFields,
  frame: { type: "ext.test", id, payload: "{}" } as Extract<Command, { type: "worker.tell" }>["frame"],
});

async function commandStatus(harness: EngineHarness, id: string): Promise<string | undefined> {
  const { items } = await harness.store.page({ page: "doc", tenant: "t1", collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? undefined : (JSON.parse(doc.body) as WorkerCommandRecord).status;
}

const ordersSentTo = (harness: EngineHarness, session: string): string[] =>
  harness.effects.flatMap((effect) => (effect.type === "order" && effect.session === session ? [effect.id] : []));

describe("commands under way to a worker", () => {
  it("[E126] package commands reach a session that lost its socket before the mail was processed and resumed on a new one", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    // It does not look for mail by itself, and takes one message per turn: that of the drain with the end of the socket, that of the
    // command after it.
    const wrap = (store: Store) => overrideStore(store, { onHint: () => undefined });
    const near = await cluster.startEngine("r1", { settings: { mailMax: 1 }, wrap });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");

    await far.ask(drainCommand("x-1"));
    await far.ask(orderCommand("c-1"));
    await worker.disconnect();
    expect(ordersSentTo(near, worker.session)).toEqual([]);
    await cluster.passSeconds(2);
    await near.joinWorker("w", { session: worker.session, boot: worker.boot, resumed: { unacked: [] } });
    await cluster.passSeconds(2);

    expect(ordersSentTo(near, worker.session)).toEqual(["c-1"]);
    expect(await commandStatus(near, "c-1")).toBe("sent");
  });

  it("[E127] an announcement from a session whose worker has moved to another scheduler changes nothing about the worker", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    // It does not look for mail by itself: the message that ends its session is processed in the turn of the announcement.
    const near = await cluster.startEngine("r1", { wrap: (store) => overrideStore(store, { onHint: () => undefined }) });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");
    await far.joinWorker("w", { slots: 3, boot: "w-boot" });
    await far.ask(orderCommand("c-1"));

    const late = near.ask({
      type: "worker.describe",
      tenant: "t1",
      worker: "t1/w",
      session: worker.session,
      about: describeWorker({ packages: [{ name: "extra", version: "2.0.0", status: "installed" }] }),
    });

    await expect(late).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await commandStatus(far, "c-1")).toBe("sent");
    expect(JSON.parse((await far.workerRow("t1/w")).about)).toMatchObject({ slots: 3, packages: [{ name: "test" }] });
  });
});

describe("the end of a drain", () => {
  it("[E130] an undrain ends at once if the worker becomes short of memory before the undrain is sent to it", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const near = await cluster.startEngine("r1", { wrap: (store) => overrideStore(store, { onHint: () => undefined }) });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w", { features: ["fence", "cancel", "held", "undrain"] });
    const drain = (command: string, on: boolean): Command => ({ type: "worker.drain", ...operatorFields, on, command });
    await near.ask(drain("d-1", true));
    await near.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: worker.session, on: true });
    await far.ask(drain("u-1", false));

    await worker.heartbeat([], true, { memPct: 99 });
    await cluster.passSeconds(2);

    const drains = near.effects.flatMap((effect) => (effect.type === "drain" ? [effect.on] : []));
    expect(drains).toEqual([true]);
    expect(await commandStatus(near, "u-1")).toBe("acked");
  });
});

describe("the answer to a command", () => {
  const answer = (harness: EngineHarness, session: string) =>
    harness.ask({
      type: "worker.package",
      tenant: "t1",
      worker: "t1/w",
      session,
      name: "extra",
      version: "2.0.0",
      status: "failed",
      details: { command: "c-1" },
    });

  it("[B81] an answer to a package command sent just before the session left counts, because a resumed session does not repeat it", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.ask(orderCommand("c-1"));
    await worker.disconnect();

    await answer(harness, worker.session);

    expect(await commandStatus(harness, "c-1")).toBe("failed");
  });

  it("[B81] an answer to a package command from a kicked or superseded session is refused", async () => {
    const harness = await new EngineHarness().start();
    const first = await harness.joinWorker("w");
    await harness.ask(orderCommand("c-1"));
    await harness.ask({ type: "worker.kick", ...operatorFields, reason: "out" });
    await expect(answer(harness, first.session)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    const second = await harness.joinWorker("w");
    await harness.joinWorker("w", { boot: second.boot });

    await expect(answer(harness, second.session)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await commandStatus(harness, "c-1")).toBe("sent");
  });
});

describe("what a worker announces", () => {
  const has = (...names: string[]) =>
    describeWorker({ packages: names.map((name) => ({ name, version: "2.0.0", status: "installed" as const })) });

  it.each([
    ["to be installed and then removed", [install, uninstall], has()],
    ["to be removed and then installed", [uninstall, install], has("extra")],
  ])(
    "[E128] an announcement ends no command about a package that is %s before the earlier command has ended",
    async (_what, orders, first) => {
      const harness = await new EngineHarness().start();
      const worker = await harness.joinWorker("w", first);
      const announce = (about: ReturnType<typeof describeWorker>) =>
        harness.ask({ type: "worker.describe", tenant: "t1", worker: "t1/w", session: worker.session, about });
      const ends = async () => [await commandStatus(harness, "c-0"), await commandStatus(harness, "c-1")];
      for (const [at, one] of orders.entries()) await harness.ask(orderCommand(`c-${at}`, one));

      await announce(first);
      expect(await ends()).toEqual(["sent", "sent"]);
      const [was, other] = first.packages.length === 0 ? [has(), has("extra")] : [has("extra"), has()];
      await announce(other);
      expect(await ends()).toEqual(["acked", "sent"]);
      await announce(was);

      expect(await ends()).toEqual(["acked", "acked"]);
    },
  );
});
