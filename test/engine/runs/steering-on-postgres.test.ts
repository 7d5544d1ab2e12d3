// Two engines on one PostgreSQL, a worker at each: calls and answers, orders, steering and documents from the one that does not hold the
// worker's socket.
import type { Command, Effect, EngineSettings, PackageCommand } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { buildChain, type EngineHarness, type RefusedError, type TestWorker } from "../harness/engine-harness.ts";
import {
  buildHostWithMiddlewares,
  findTaskAt,
  lastDispatchFor,
  nextAnswers,
  nextCommand,
  taskPhasesBySlot,
} from "../harness/middleware-chains.ts";
import { PostgresEngineCluster } from "../harness/postgres-engine-cluster.ts";

let server: PostgresServer;
let cluster: PostgresEngineCluster;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
afterEach(() => cluster.close());

const nearPool = { policy: { pool: "near" } };
const farPool = { policy: { pool: "far" } };

interface EnginePair {
  readonly east: EngineHarness;
  readonly west: EngineHarness;
  readonly eastern: TestWorker;
  readonly western: TestWorker;
}

/** Worker `a` of the pool `near` at the engine east, `b` of the pool `far` at west. */
async function startEnginePair(settings: Partial<EngineSettings> = {}, slots = 1): Promise<EnginePair> {
  cluster = await PostgresEngineCluster.create(server, ["east", "west"], settings);
  const [east, west] = cluster.engines as [EngineHarness, EngineHarness];
  const [eastern, western] = await Promise.all([
    east.joinWorker("a", { slots, pool: "near" }),
    west.joinWorker("b", { slots, pool: "far" }),
  ]);
  return { east, west, eastern, western };
}

const operatorCommand = (command: object): Command => ({ tenant: "t1", by: "ada", ...command }) as Command;
const outcomeOf = (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => "done",
    (problem: RefusedError) => problem.code,
  );
const effectsOfType = <T extends Effect["type"]>(harness: EngineHarness, type: T) =>
  harness.effects.filter((effect): effect is Extract<Effect, { type: T }> => effect.type === type);
const readDocument = async (harness: EngineHarness, collection: string, name: string) =>
  (await harness.store.page({ page: "doc", tenant: "t1", collection, names: [name] })).items[0] ?? null;

describe("chains whose callers and callees are at different engines", () => {
  it("[E103] each answer of a chain across two engines is sent to its caller by mail, once, through every layer", async () => {
    const { east, west, eastern, western } = await startEnginePair({}, 1);
    const run = await west.startRun(buildHostWithMiddlewares([nearPool, farPool, nearPool], { host: farPool }));
    await cluster.passDiscoveryTime();
    const ask = async (worker: TestWorker, slot: string, request: string) => {
      await worker.harness.ask(nextCommand(worker, lastDispatchFor(worker, slot), request));
      await cluster.passDiscoveryTime();
    };

    // One slot each: whoever waits for an answer takes none, or nobody would ever get to the host.
    await ask(eastern, "1", "q1");
    await ask(western, "2~1", "q2");
    await ask(eastern, "3~1", "q3");
    await western.succeed({ out: "host" }, lastDispatchFor(western, "0~1"));
    await cluster.passDiscoveryTime();
    await eastern.succeed({ out: "third" }, lastDispatchFor(eastern, "3~1"));
    await cluster.passDiscoveryTime();
    await western.succeed({ out: "second" }, lastDispatchFor(western, "2~1"));
    await cluster.passDiscoveryTime();
    await eastern.succeed({ out: "first" }, lastDispatchFor(eastern, "1"));
    await cluster.passDiscoveryTime();

    expect(nextAnswers(east).map(({ request, result }) => [request, result])).toEqual([
      ["q3", '{"out":"host"}'],
      ["q1", '{"out":"second"}'],
    ]);
    expect(nextAnswers(west).map(({ request, result }) => [request, result])).toEqual([["q2", '{"out":"third"}']]);
    expect((await east.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect([eastern.dispatchesSent.length, western.dispatchesSent.length]).toEqual([2, 2]);
    expect(cluster.problems).toEqual([]);
  });

  it("[E103] a call that exceeds its caller's timeout is ended at the other engine, and its worker is stopped", async () => {
    const { east, west, eastern, western } = await startEnginePair();
    const run = await east.startRun(buildHostWithMiddlewares([nearPool], { host: farPool }));
    await cluster.passDiscoveryTime();
    await east.ask(nextCommand(eastern, lastDispatchFor(eastern, "1"), "q1", { timeoutMs: 3_000 }));
    await cluster.passDiscoveryTime();
    await western.ack(lastDispatchFor(western, "0~1"));

    await cluster.passSeconds(3);

    expect(nextAnswers(east)).toMatchObject([{ request: "q1", error: { code: "next_timeout" } }]);
    expect(effectsOfType(west, "stop")).toMatchObject([{ task: `${run}.0~1` }]);
    expect(await taskPhasesBySlot(west, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "leased" });
  });

  it("[E103] an answer that is due while its caller moves to the other engine is sent to the caller's new session exactly once", async () => {
    const { east, west, eastern, western } = await startEnginePair();
    await east.startRun(buildHostWithMiddlewares([nearPool], { host: farPool }));
    await cluster.passDiscoveryTime();
    await east.ask(nextCommand(eastern, lastDispatchFor(eastern, "1"), "q1"));
    await cluster.passDiscoveryTime();
    const { task, fence } = lastDispatchFor(eastern, "1");

    const [, back] = await Promise.all([
      western.succeed({ out: 3 }, lastDispatchFor(western, "0~1")),
      west.joinWorker("a", { slots: 1, pool: "near", boot: eastern.boot, running: [{ task, fence }] }),
    ]);
    await cluster.passDiscoveryTime();

    const answers = nextAnswers(west).filter(({ session }) => session === back.session);
    expect(answers).toMatchObject([{ request: "q1", result: '{"out":3}' }]);
  });
});

describe("steering from the other engine", () => {
  it("[E104] an order from the other engine reaches the worker's session by mail, and its answer closes the command at both engines", async () => {
    const { east, west, western } = await startEnginePair();
    const order: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0", url: "https://x.test/p.zip" };

    await east.ask(operatorCommand({ type: "worker.order", worker: western.worker, id: "c-1", order }));
    await cluster.passDiscoveryTime();
    expect(effectsOfType(west, "order")).toMatchObject([{ session: western.session, id: "c-1", order }]);
    expect(effectsOfType(east, "order")).toEqual([]);
    const { tenant, worker, session } = western;
    await west.ask({ type: "worker.package", tenant, worker, session, name: "extra", version: "2.0.0", status: "installed" });

    expect(JSON.parse((await readDocument(east, "command", "c-1"))?.body ?? "{}")).toMatchObject({ status: "acked" });
  });

  it("[E120] a drain undone before the worker's engine receives it is acknowledged, as is the undrain, once the worker has confirmed", async () => {
    const { east, west } = await startEnginePair();
    const hearing = await west.joinWorker("c", { features: ["fence", "cancel", "held", "undrain"] });
    const { tenant, worker, session } = hearing;
    const orders = ["d-1", "u-1"].map((command, at) => operatorCommand({ type: "worker.drain", worker, on: at === 0, command }));
    const statuses = async () => {
      const docs = await Promise.all(["d-1", "u-1"].map((id) => readDocument(east, "command", id)));
      return docs.map((one) => (JSON.parse(one?.body ?? "{}") as { status?: string }).status);
    };

    await Promise.all(orders.map((order) => east.ask(order)));
    await cluster.passDiscoveryTime();
    expect(await statuses()).toEqual(["sent", "sent"]);
    const drains = effectsOfType(west, "drain").map(({ on }) => on);
    expect(drains.at(-1)).toBe(false);
    for (const on of drains) await west.ask({ type: "worker.heard", tenant, worker, session, on });

    expect(await statuses()).toEqual(["acked", "acked"]);
  });

  it("[E104] a skip from the other engine stops the attempt at its worker and the run goes on; a retry takes the attempt back", async () => {
    const { east, west, western } = await startEnginePair();
    const run = await east.startRun(buildChain(3, farPool));
    await cluster.passDiscoveryTime();
    await western.ack();

    await east.ask(operatorCommand({ type: "run.skip", run, node: "0", reason: "not today" }));
    await cluster.passDiscoveryTime();
    expect(effectsOfType(west, "stop")).toMatchObject([{ task: `${run}.0` }]);
    expect(lastDispatchFor(western, "1")).toMatchObject({ attempt: 1 });
    await western.ack();
    await east.ask(operatorCommand({ type: "run.retry", run, node: "1", reason: "hangs" }));
    await cluster.passDiscoveryTime();
    expect(lastDispatchFor(western, "1")).toMatchObject({ attempt: 2 });
    await western.succeed({ out: 1 });
    await cluster.passDiscoveryTime();
    await western.succeed({ out: 2 });
    await cluster.passDiscoveryTime();

    expect(await taskPhasesBySlot(east, run)).toEqual({ "0": "skipped", "1": "succeeded", "2": "succeeded" });
    expect((await west.runDetail(run)).run.phase).toBe("succeeded");
    expect(cluster.problems).toEqual([]);
  });

  it("[E104] a rebind moves a running attempt from a worker of one engine to a worker of the other", async () => {
    const { east, west, western } = await startEnginePair();
    const spare = await east.joinWorker("spare", { slots: 1, pool: "far" });
    const run = await west.startRun(buildChain(2, farPool));
    await cluster.passDiscoveryTime();
    const holder = western.dispatchesSent.length > 0 ? western : spare;
    const [other, order] = holder === western ? [spare, east] : [western, west];
    await holder.ack();

    await order.ask(operatorCommand({ type: "run.rebind", run, node: null, worker: other.worker, mode: "switch" }));
    await cluster.passDiscoveryTime();

    expect(effectsOfType(holder.harness, "stop")).toMatchObject([{ session: holder.session, task: `${run}.0` }]);
    expect(other.lastDispatch).toMatchObject({ task: `${run}.0`, attempt: 2 });
    await other.succeed({ out: 1 });
    await cluster.passDiscoveryTime();
    expect(other.lastDispatch).toMatchObject({ task: `${run}.1` });
    expect((await findTaskAt(west, run, "1")).worker).toBe(other.worker);
  });

  it("[E104] skips and cancels of one run from both engines at once are all answered, and the run ends with no open task", async () => {
    const { east, west, eastern, western } = await startEnginePair({}, 4);
    const run = await east.startRun(buildChain(4, farPool));
    await cluster.passDiscoveryTime();

    const outcomes = await Promise.all([
      ...[east, west].map((one) => outcomeOf(one.ask(operatorCommand({ type: "run.skip", run, node: "0", reason: "both" })))),
      outcomeOf(western.succeed({ out: 1 }, lastDispatchFor(western, "0"))),
      ...[east, west].map((one) => outcomeOf(one.ask(operatorCommand({ type: "run.cancel", run, reason: "both" })))),
    ]);
    await cluster.passSeconds(2);

    for (const outcome of outcomes)
      expect([
        "done",
        "E.TASK.ENDED",
        "E.TASK.MOVE_REFUSED",
        "E.RUN.TERMINAL",
        "E.SESSION.STALE_BINDING",
        "E.RESULT.DUPLICATE",
      ]).toContain(outcome);
    expect((await west.runDetail(run)).run).toMatchObject({ phase: "cancelled", open: 0 });
    expect(eastern.dispatchesSent).toEqual([]);
    expect(cluster.problems).toEqual([]);
  });
});

describe("documents, letters and affinity of two engines", () => {
  it("[E105] of writes at two engines that name the same revision of a document exactly one succeeds, also for a new document", async () => {
    const { east, west } = await startEnginePair();
    const write = (one: EngineHarness, name: string, rev: number, body: string) =>
      outcomeOf(one.ask(operatorCommand({ type: "docs.write", puts: [{ collection: "view", name, rev, body }] })));

    for (let rev = 0; rev < 12; rev++) {
      const outcomes = await Promise.all(
        [east, west, east, west].map((one, at) => write(one, "shared", rev, JSON.stringify({ rev, at }))),
      );
      expect(outcomes.toSorted()).toEqual(["E.CONFLICT", "E.CONFLICT", "E.CONFLICT", "done"]);
    }

    expect(await readDocument(east, "view", "shared")).toMatchObject({ rev: 12 });
  });

  it("[E105] several documents are written all or none while both engines write them in opposite order", async () => {
    const { east, west } = await startEnginePair();
    const names = Array.from({ length: 20 }, (_, at) => `n${at}`);
    const write = (one: EngineHarness, list: readonly string[], by: string) =>
      outcomeOf(
        one.ask(
          operatorCommand({
            type: "docs.write",
            puts: list.map((name) => ({ collection: "view", name, body: JSON.stringify({ by }) })),
          }),
        ),
      );

    for (let round = 0; round < 8; round++) {
      const outcomes = await Promise.all([write(east, names, `e${round}`), write(west, names.toReversed(), `w${round}`)]);
      expect(outcomes).toEqual(["done", "done"]);
      const { items } = await east.store.page({ page: "doc", tenant: "t1", collection: "view", names });
      expect(new Set(items.map((item) => item?.body)).size).toBe(1);
    }
  });

  it("[E105] one Idempotency-Key makes one document write, whichever engine receives it", async () => {
    const { east, west } = await startEnginePair();
    const write = (one: EngineHarness) =>
      one.ask(
        operatorCommand({
          type: "docs.write",
          puts: [{ collection: "view", name: "once", body: "{}" }],
          ask: { key: "k", digest: "d" },
        }),
      );

    const answers = await Promise.all([east, west, east, west].map(write));

    expect(answers).toMatchObject(answers.map(() => ({ of: "docs", revs: [1] })));
    expect(answers.filter((one) => one.of === "docs" && !one.repeated)).toHaveLength(1);
  });

  it("[E105] a task that fails for good leaves one dead letter, which the other engine can read and either engine remove once", async () => {
    const { east, west, western } = await startEnginePair();
    const run = await east.startRun(buildChain(1, farPool));
    await cluster.passDiscoveryTime();
    await western.error("E.RUNNER.FAILURE");
    await cluster.passDiscoveryTime();
    const name = `${run}.0`;

    const deadLetter = await readDocument(east, "letter", name);
    const drop = (one: EngineHarness) =>
      outcomeOf(
        one.ask(
          operatorCommand({ type: "docs.write", puts: [], drops: [{ collection: "letter", name, rev: deadLetter?.rev ?? 0 }] }),
        ),
      );
    const outcomes = await Promise.all([drop(east), drop(west)]);

    expect(deadLetter?.rev).toBe(1);
    expect(outcomes.toSorted()).toEqual(["E.CONFLICT", "done"]);
    expect(await readDocument(west, "letter", name)).toBeNull();
  });

  it("[E106] a sticky key, or a resource stored at a worker, pins tasks started at the other engine to that worker", async () => {
    const { east, west, eastern, western } = await startEnginePair({}, 2);
    const both = await west.joinWorker("c", { slots: 2, pool: "near" });
    const sticky = { policy: { pool: "near", affinity: { key: "k", mode: "sticky" } } };
    await east.startRun(buildChain(1, sticky));
    await cluster.passDiscoveryTime();
    const first = eastern.dispatchesSent.length > 0 ? eastern : both;
    const { tenant, worker, session } = first;
    const { task, fence } = first.lastDispatch;
    await first.harness.ask({
      ...{ type: "task.result", tenant, worker, session, task, fence, status: "succeeded", result: "{}", error: null },
      ...{ durationMs: 1, artifacts: [{ resource: "res-1", type: "file" }] },
    } as Command);
    await cluster.passDiscoveryTime();
    const home = first === eastern ? west : east;
    const ref = { resourceRef: { resourceId: "res-1", workerName: first === eastern ? "a" : "c", type: "file" } };

    const runs = [
      await home.startRun(buildChain(1, sticky)),
      await home.startRun(buildChain(1, { ...nearPool, params: { use: ref } })),
    ];
    await cluster.passDiscoveryTime();

    for (const run of runs) expect((await findTaskAt(east, run, "0")).worker).toBe(first.worker);
    expect(await readDocument(west, "artifact", "res-1")).not.toBeNull();
    expect(western.dispatchesSent).toEqual([]);
  });

  it("[E106] many runs that share affinity keys, started and ended at both engines at once, all succeed", async () => {
    const { east, west, eastern, western } = await startEnginePair({}, 8);
    const sticky = (pool: string) => ({ policy: { pool, affinity: { key: `k-${pool}`, mode: "preferred" } } });
    const runs = await Promise.all(
      Array.from({ length: 24 }, (_, at) =>
        (at % 2 === 0 ? east : west).startRun(buildChain(2, sticky(at % 3 === 0 ? "near" : "far"))),
      ),
    );

    for (let look = 0; look < 30; look++) {
      await cluster.passDiscoveryTime();
      const answer = [eastern, western].flatMap((worker) =>
        worker.dispatchesSent.map((dispatch) =>
          outcomeOf(worker.succeed({ out: 1 }, dispatch)).then((word) => expect(word).toBe("done")),
        ),
      );
      await Promise.all(answer);
      const { items } = await east.store.page({ page: "runs", tenant: "t1", limit: 100 });
      if (items.every(({ phase }) => phase === "succeeded")) break;
    }

    for (const run of runs) expect((await east.runDetail(run)).run.phase).toBe("succeeded");
    expect(JSON.parse((await readDocument(west, "affinity", "k-far"))?.body ?? "{}")).toMatchObject({ worker: western.worker });
    expect(cluster.problems).toEqual([]);
  });
});
