// Commands about workers whose sessions lose their sockets, go on over new ones or move to another scheduler while the commands are under
// way; and which announcements end which of them.

import type { Command, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { about, Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";

const by = { tenant: "t1", by: "ada", worker: "t1/w" } as const;
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0" };
const uninstall: PackageCommand = { type: "pkg.uninstall", name: "extra", version: null };
const order = (id: string, what: PackageCommand = install): Command => ({ type: "worker.order", ...by, id, order: what });
const tell = (id: string): Command => ({
  type: "worker.tell",
  ...by,
  frame: { type: "ext.test", id, payload: "{}" } as Extract<Command, { type: "worker.tell" }>["frame"],
});

async function statusOf(world: Harness, id: string): Promise<string | undefined> {
  const { items } = await world.store.page({ page: "doc", tenant: "t1", collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? undefined : (JSON.parse(doc.body) as WorkerCommandRecord).status;
}

const ordersTo = (world: Harness, session: string): string[] =>
  world.effects.flatMap((effect) => (effect.type === "order" && effect.session === session ? [effect.id] : []));

describe("commands under way to a worker", () => {
  it("[E126] reach a session that lost its socket before the letter was heard, and went on over a new one", async () => {
    const stage = new Stage({ mode: "weak" });
    // One letter a turn: the one that carries the command is heard after the session has left.
    const [near, far] = [await stage.boot("r1", { settings: { mailMax: 1 } }), await stage.boot("r2")];
    const crew = await near.join("w");

    const said = [far.ask(tell("x-1")), far.ask(order("c-1"))];
    const left = crew.leave();
    await Promise.all([...said, left]);
    await stage.pass(2);
    await near.join("w", { session: crew.session, boot: crew.boot, resumed: { unacked: [] } });
    await stage.pass(2);

    expect(ordersTo(near, crew.session)).toEqual(["c-1"]);
    expect(await statusOf(near, "c-1")).toBe("sent");
  });

  it("[E127] what a session announces after its worker went on at another scheduler changes nothing of the worker", async () => {
    const stage = new Stage({ mode: "weak" });
    // It does not look for letters by itself: the one that ends its session is heard in the turn of the announcement.
    const near = await stage.boot("r1", { wrap: (store) => passThrough(store, { onHint: () => undefined }) });
    const far = await stage.boot("r2");
    const crew = await near.join("w");
    await far.join("w", { slots: 3, boot: "w-boot" });
    await far.ask(order("c-1"));

    const late = near.ask({
      type: "worker.describe",
      tenant: "t1",
      worker: "t1/w",
      session: crew.session,
      about: about({ packages: [{ name: "extra", version: "2.0.0", status: "installed" }] }),
    });

    await expect(late).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await statusOf(far, "c-1")).toBe("sent");
    expect(JSON.parse((await far.workerRow("t1/w")).about)).toMatchObject({ slots: 3, packages: [{ name: "test" }] });
  });
});

describe("the end of a drain", () => {
  it("[E130] is over at once where the worker falls short of memory before it is told: it is told nothing then", async () => {
    const stage = new Stage({ mode: "weak" });
    const near = await stage.boot("r1", { wrap: (store) => passThrough(store, { onHint: () => undefined }) });
    const far = await stage.boot("r2");
    const crew = await near.join("w", { features: ["fence", "cancel", "held", "undrain"] });
    const drain = (command: string, on: boolean): Command => ({ type: "worker.drain", ...by, on, command });
    await near.ask(drain("d-1", true));
    await near.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: crew.session, on: true });
    await far.ask(drain("u-1", false));

    await crew.beat([], true, { memPct: 99 });
    await stage.pass(2);

    const drains = near.effects.flatMap((effect) => (effect.type === "drain" ? [effect.on] : []));
    expect(drains).toEqual([true]);
    expect(await statusOf(near, "u-1")).toBe("acked");
  });
});

describe("the answer to a command", () => {
  const answer = (world: Harness, session: string) =>
    world.ask({
      type: "worker.package",
      tenant: "t1",
      worker: "t1/w",
      session,
      name: "extra",
      version: "2.0.0",
      status: "failed",
      details: { command: "c-1" },
    });

  it("[B81] counts also when it was said just before the session left: the session that goes on does not say it again", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    await world.ask(order("c-1"));
    await crew.leave();

    await answer(world, crew.session);

    expect(await statusOf(world, "c-1")).toBe("failed");
  });

  it("[B81] is refused of a session that was kicked or that the worker has followed by another", async () => {
    const world = await new Harness().start();
    const first = await world.join("w");
    await world.ask(order("c-1"));
    await world.ask({ type: "worker.kick", ...by, reason: "out" });
    await expect(answer(world, first.session)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    const second = await world.join("w");
    await world.join("w", { boot: second.boot });

    await expect(answer(world, second.session)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await statusOf(world, "c-1")).toBe("sent");
  });
});

describe("what a worker announces", () => {
  const has = (...names: string[]) =>
    about({ packages: names.map((name) => ({ name, version: "2.0.0", status: "installed" as const })) });

  it.each([
    ["to come and then to go", [install, uninstall], has()],
    ["to go and then to come", [uninstall, install], has("extra")],
  ])("[E128] ends no command about a package that is %s before the one given first has ended", async (_what, orders, first) => {
    const world = await new Harness().start();
    const crew = await world.join("w", first);
    const announce = (said: ReturnType<typeof about>) =>
      world.ask({ type: "worker.describe", tenant: "t1", worker: "t1/w", session: crew.session, about: said });
    const ends = async () => [await statusOf(world, "c-0"), await statusOf(world, "c-1")];
    for (const [at, one] of orders.entries()) await world.ask(order(`c-${at}`, one));

    await announce(first);
    expect(await ends()).toEqual(["sent", "sent"]);
    const [was, other] = first.packages.length === 0 ? [has(), has("extra")] : [has("extra"), has()];
    await announce(other);
    expect(await ends()).toEqual(["acked", "sent"]);
    await announce(was);

    expect(await ends()).toEqual(["acked", "acked"]);
  });
});
