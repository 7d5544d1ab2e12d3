// Two engines on one PostgreSQL, a worker at each: calls and answers, orders, steering and documents from the one that does not hold the
// worker's socket.
import type { Command, Effect, EngineSettings, PackageCommand } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { answers, hosted, nextCommand, phases, sentFor, taskAt } from "./chains-stage.ts";
import { type Crew, chain, type Harness, type Refused } from "./harness.ts";
import { Town } from "./postgres-town.ts";

let server: PostgresServer;
let town: Town;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
afterEach(() => town.close());

const near = { policy: { pool: "near" } };
const far = { policy: { pool: "far" } };

interface Pair {
  readonly east: Harness;
  readonly west: Harness;
  readonly eastern: Crew;
  readonly western: Crew;
}

/** Worker `a` of the pool `near` at the engine east, `b` of the pool `far` at west. */
async function pair(settings: Partial<EngineSettings> = {}, slots = 1): Promise<Pair> {
  town = await Town.found(server, ["east", "west"], settings);
  const [east, west] = town.engines as [Harness, Harness];
  const [eastern, western] = await Promise.all([east.join("a", { slots, pool: "near" }), west.join("b", { slots, pool: "far" })]);
  return { east, west, eastern, western };
}

const ordered = (command: object): Command => ({ tenant: "t1", by: "ada", ...command }) as Command;
const outcome = (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => "done",
    (problem: Refused) => problem.code,
  );
const of = <T extends Effect["type"]>(world: Harness, type: T) =>
  world.effects.filter((effect): effect is Extract<Effect, { type: T }> => effect.type === type);
const doc = async (world: Harness, collection: string, name: string) =>
  (await world.store.page({ page: "doc", tenant: "t1", collection, names: [name] })).items[0] ?? null;

describe("chains whose callers and callees are at different engines", () => {
  it("[E103] bring each answer to the caller by mail, once, through every layer", async () => {
    const { east, west, eastern, western } = await pair({}, 1);
    const run = await west.run(hosted([near, far, near], { host: far }));
    await town.rest();
    const ask = async (crew: Crew, slot: string, request: string) => {
      await crew.harness.ask(nextCommand(crew, sentFor(crew, slot), request));
      await town.rest();
    };

    // One slot each: whoever waits for an answer takes none, or nobody would ever get to the host.
    await ask(eastern, "1", "q1");
    await ask(western, "2~1", "q2");
    await ask(eastern, "3~1", "q3");
    await western.done({ out: "host" }, sentFor(western, "0~1"));
    await town.rest();
    await eastern.done({ out: "third" }, sentFor(eastern, "3~1"));
    await town.rest();
    await western.done({ out: "second" }, sentFor(western, "2~1"));
    await town.rest();
    await eastern.done({ out: "first" }, sentFor(eastern, "1"));
    await town.rest();

    expect(answers(east).map(({ request, result }) => [request, result])).toEqual([
      ["q3", '{"out":"host"}'],
      ["q1", '{"out":"second"}'],
    ]);
    expect(answers(west).map(({ request, result }) => [request, result])).toEqual([["q2", '{"out":"third"}']]);
    expect((await east.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect([eastern.sent.length, western.sent.length]).toEqual([2, 2]);
    expect(town.problems).toEqual([]);
  });

  it("[E103] end the inner call at the other engine when the caller's time for it is up, and stop its worker", async () => {
    const { east, west, eastern, western } = await pair();
    const run = await east.run(hosted([near], { host: far }));
    await town.rest();
    await east.ask(nextCommand(eastern, sentFor(eastern, "1"), "q1", { timeoutMs: 2_000 }));
    await town.rest();
    await western.ack(sentFor(western, "0~1"));

    await town.pass(3);

    expect(answers(east)).toMatchObject([{ request: "q1", error: { code: "next_timeout" } }]);
    expect(of(west, "stop")).toMatchObject([{ task: `${run}.0~1` }]);
    expect(await phases(west, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "leased" });
  });

  it("[E103] bring an answer that fell due while the caller moved from one engine to the other, exactly there", async () => {
    const { east, west, eastern, western } = await pair();
    await east.run(hosted([near], { host: far }));
    await town.rest();
    await east.ask(nextCommand(eastern, sentFor(eastern, "1"), "q1"));
    await town.rest();
    const { task, fence } = sentFor(eastern, "1");

    const [, back] = await Promise.all([
      western.done({ out: 3 }, sentFor(western, "0~1")),
      west.join("a", { slots: 1, pool: "near", boot: eastern.boot, running: [{ task, fence }] }),
    ]);
    await town.rest();

    const heard = answers(west).filter(({ session }) => session === back.session);
    expect(heard).toMatchObject([{ request: "q1", result: '{"out":3}' }]);
  });
});

describe("steering from the other engine", () => {
  it("[E104] an order reaches the worker's session by mail, and its answer closes the command everywhere", async () => {
    const { east, west, western } = await pair();
    const order: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0", url: "https://x.test/p.zip" };

    await east.ask(ordered({ type: "worker.order", worker: western.worker, id: "c-1", order }));
    await town.rest();
    expect(of(west, "order")).toMatchObject([{ session: western.session, id: "c-1", order }]);
    expect(of(east, "order")).toEqual([]);
    const { tenant, worker, session } = western;
    await west.ask({ type: "worker.package", tenant, worker, session, name: "extra", version: "2.0.0", status: "installed" });

    expect(JSON.parse((await doc(east, "command", "c-1"))?.body ?? "{}")).toMatchObject({ status: "acked" });
  });

  it("[E120] a drain that is taken back before the worker's engine hears of it is over, as is its end, once the worker has heard", async () => {
    const { east, west } = await pair();
    const hearing = await west.join("c", { features: ["fence", "cancel", "held", "undrain"] });
    const { tenant, worker, session } = hearing;
    const orders = ["d-1", "u-1"].map((command, at) => ordered({ type: "worker.drain", worker, on: at === 0, command }));
    const statuses = async () => {
      const docs = await Promise.all(["d-1", "u-1"].map((id) => doc(east, "command", id)));
      return docs.map((one) => (JSON.parse(one?.body ?? "{}") as { status?: string }).status);
    };

    await Promise.all(orders.map((order) => east.ask(order)));
    await town.rest();
    expect(await statuses()).toEqual(["sent", "sent"]);
    const said = of(west, "drain").map(({ on }) => on);
    expect(said.at(-1)).toBe(false);
    for (const on of said) await west.ask({ type: "worker.heard", tenant, worker, session, on });

    expect(await statuses()).toEqual(["acked", "acked"]);
  });

  it("[E104] a skip stops the attempt at its worker and the run goes on; a retry takes the attempt back", async () => {
    const { east, west, western } = await pair();
    const run = await east.run(chain(3, far));
    await town.rest();
    await western.ack();

    await east.ask(ordered({ type: "run.skip", run, node: "0", reason: "not today" }));
    await town.rest();
    expect(of(west, "stop")).toMatchObject([{ task: `${run}.0` }]);
    expect(sentFor(western, "1")).toMatchObject({ attempt: 1 });
    await western.ack();
    await east.ask(ordered({ type: "run.retry", run, node: "1", reason: "hangs" }));
    await town.rest();
    expect(sentFor(western, "1")).toMatchObject({ attempt: 2 });
    await western.done({ out: 1 });
    await town.rest();
    await western.done({ out: 2 });
    await town.rest();

    expect(await phases(east, run)).toEqual({ "0": "skipped", "1": "succeeded", "2": "succeeded" });
    expect((await west.detail(run)).run.phase).toBe("succeeded");
    expect(town.problems).toEqual([]);
  });

  it("[E104] a rebind moves a running attempt from a worker of one engine to a worker of the other", async () => {
    const { east, west, western } = await pair();
    const spare = await east.join("spare", { slots: 1, pool: "far" });
    const run = await west.run(chain(2, far));
    await town.rest();
    const holder = western.sent.length > 0 ? western : spare;
    const [other, order] = holder === western ? [spare, east] : [western, west];
    await holder.ack();

    await order.ask(ordered({ type: "run.rebind", run, node: null, worker: other.worker, mode: "switch" }));
    await town.rest();

    expect(of(holder.harness, "stop")).toMatchObject([{ session: holder.session, task: `${run}.0` }]);
    expect(other.last).toMatchObject({ task: `${run}.0`, attempt: 2 });
    await other.done({ out: 1 });
    await town.rest();
    expect(other.last).toMatchObject({ task: `${run}.1` });
    expect((await taskAt(west, run, "1")).worker).toBe(other.worker);
  });

  it("[E104] steering of both engines at once on one run: every order is answered, and the run ends whole", async () => {
    const { east, west, eastern, western } = await pair({}, 4);
    const run = await east.run(chain(4, far));
    await town.rest();

    const said = await Promise.all([
      ...[east, west].map((one) => outcome(one.ask(ordered({ type: "run.skip", run, node: "0", reason: "both" })))),
      outcome(western.done({ out: 1 }, sentFor(western, "0"))),
      ...[east, west].map((one) => outcome(one.ask(ordered({ type: "run.cancel", run, reason: "both" })))),
    ]);
    await town.pass(2);

    for (const word of said)
      expect([
        "done",
        "E.TASK.ENDED",
        "E.TASK.MOVE_REFUSED",
        "E.RUN.TERMINAL",
        "E.SESSION.STALE_BINDING",
        "E.RESULT.DUPLICATE",
      ]).toContain(word);
    expect((await west.detail(run)).run).toMatchObject({ phase: "cancelled", open: 0 });
    expect(eastern.sent).toEqual([]);
    expect(town.problems).toEqual([]);
  });
});

describe("documents, letters and affinity of two engines", () => {
  it("[E105] of writes that name the same revision at both engines exactly one wins, also where nothing was there", async () => {
    const { east, west } = await pair();
    const write = (one: Harness, name: string, rev: number, body: string) =>
      outcome(one.ask(ordered({ type: "docs.write", puts: [{ collection: "view", name, rev, body }] })));

    for (let rev = 0; rev < 12; rev++) {
      const said = await Promise.all(
        [east, west, east, west].map((one, at) => write(one, "shared", rev, JSON.stringify({ rev, at }))),
      );
      expect(said.toSorted()).toEqual(["E.CONFLICT", "E.CONFLICT", "E.CONFLICT", "done"]);
    }

    expect(await doc(east, "view", "shared")).toMatchObject({ rev: 12 });
  });

  it("[E105] several documents are written whole or not at all while both engines write them in opposite order", async () => {
    const { east, west } = await pair();
    const names = Array.from({ length: 20 }, (_, at) => `n${at}`);
    const write = (one: Harness, list: readonly string[], by: string) =>
      outcome(
        one.ask(
          ordered({ type: "docs.write", puts: list.map((name) => ({ collection: "view", name, body: JSON.stringify({ by }) })) }),
        ),
      );

    for (let round = 0; round < 8; round++) {
      const said = await Promise.all([write(east, names, `e${round}`), write(west, names.toReversed(), `w${round}`)]);
      expect(said).toEqual(["done", "done"]);
      const { items } = await east.store.page({ page: "doc", tenant: "t1", collection: "view", names });
      expect(new Set(items.map((item) => item?.body)).size).toBe(1);
    }
  });

  it("[E105] one Idempotency-Key makes one write, whichever engine is asked", async () => {
    const { east, west } = await pair();
    const write = (one: Harness) =>
      one.ask(
        ordered({
          type: "docs.write",
          puts: [{ collection: "view", name: "once", body: "{}" }],
          ask: { key: "k", digest: "d" },
        }),
      );

    const said = await Promise.all([east, west, east, west].map(write));

    expect(said).toMatchObject(said.map(() => ({ of: "docs", revs: [1] })));
    expect(said.filter((one) => one.of === "docs" && !one.repeated)).toHaveLength(1);
  });

  it("[E105] a task that fails for good leaves one letter, read and removed at the other engine", async () => {
    const { east, west, western } = await pair();
    const run = await east.run(chain(1, far));
    await town.rest();
    await western.error("E.RUNNER.FAILURE");
    await town.rest();
    const name = `${run}.0`;

    const letter = await doc(east, "letter", name);
    const drop = (one: Harness) =>
      outcome(one.ask(ordered({ type: "docs.write", puts: [], drops: [{ collection: "letter", name, rev: letter?.rev ?? 0 }] })));
    const said = await Promise.all([drop(east), drop(west)]);

    expect(letter?.rev).toBe(1);
    expect(said.toSorted()).toEqual(["E.CONFLICT", "done"]);
    expect(await doc(west, "letter", name)).toBeNull();
  });

  it("[E106] a sticky key and what a worker kept pin tasks started at the other engine to that worker", async () => {
    const { east, west, eastern, western } = await pair({}, 2);
    const both = await west.join("c", { slots: 2, pool: "near" });
    const sticky = { policy: { pool: "near", affinity: { key: "k", mode: "sticky" } } };
    await east.run(chain(1, sticky));
    await town.rest();
    const first = eastern.sent.length > 0 ? eastern : both;
    const { tenant, worker, session } = first;
    const { task, fence } = first.last;
    await first.harness.ask({
      ...{ type: "task.result", tenant, worker, session, task, fence, status: "succeeded", result: "{}", error: null },
      ...{ durationMs: 1, artifacts: [{ resource: "res-1", type: "file" }] },
    } as Command);
    await town.rest();
    const home = first === eastern ? west : east;
    const ref = { resourceRef: { resourceId: "res-1", workerName: first === eastern ? "a" : "c", type: "file" } };

    const runs = [await home.run(chain(1, sticky)), await home.run(chain(1, { ...near, params: { use: ref } }))];
    await town.rest();

    for (const run of runs) expect((await taskAt(east, run, "0")).worker).toBe(first.worker);
    expect(await doc(west, "artifact", "res-1")).not.toBeNull();
    expect(western.sent).toEqual([]);
  });

  it("[E106] many runs under one sticky key, started and ended at both engines at once, all end", async () => {
    const { east, west, eastern, western } = await pair({}, 8);
    const sticky = (pool: string) => ({ policy: { pool, affinity: { key: `k-${pool}`, mode: "preferred" } } });
    const runs = await Promise.all(
      Array.from({ length: 24 }, (_, at) => (at % 2 === 0 ? east : west).run(chain(2, sticky(at % 3 === 0 ? "near" : "far")))),
    );

    for (let look = 0; look < 30; look++) {
      await town.rest();
      const said = [eastern, western].flatMap((crew) =>
        crew.sent.map((dispatch) => outcome(crew.done({ out: 1 }, dispatch)).then((word) => expect(word).toBe("done"))),
      );
      await Promise.all(said);
      const { items } = await east.store.page({ page: "runs", tenant: "t1", limit: 100 });
      if (items.every(({ phase }) => phase === "succeeded")) break;
    }

    for (const run of runs) expect((await east.detail(run)).run.phase).toBe("succeeded");
    expect(JSON.parse((await doc(west, "affinity", "k-far"))?.body ?? "{}")).toMatchObject({ worker: western.worker });
    expect(town.problems).toEqual([]);
  });
});
