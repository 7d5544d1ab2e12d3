// The driver's own rules: what happens to a command or a timer that cannot be decided, a root in other hands, a commit that fails or
// gets no answer; that every command is answered once; and that the checkers of the weather see the planted bugs.
import type { Command, CommandAnswer, EngineSettings, Row, RowKey, RunDetail, Store } from "@astraflow/engine";
import { defaultSettings } from "@astraflow/engine";
import type { Plant } from "@astraflow/engine/testing";
import { fault } from "@astraflow/protocol";
import { type MemoryCluster, type MemoryClusterOptions, memoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { about, chain, graph, Harness } from "./harness.ts";
import { digest, Mortal } from "./weather-engine.ts";
import { LogCheck } from "./weather-log.ts";
import { RowCheck } from "./weather-rows.ts";
import { said } from "./weather-said.ts";

const firstInstant = 1_800_000_000_000;

interface Scene {
  readonly world: Harness;
  readonly cluster: MemoryCluster;
}

function stage(
  options: Partial<MemoryClusterOptions> = {},
  settings: Partial<EngineSettings> = {},
  wrap: (store: Store) => Store = (store) => store,
): Scene {
  let world: Harness | null = null;
  const now = () => world?.now ?? firstInstant;
  const clock = { wall: now, mono: now };
  const cluster = memoryCluster({ mode: "strong", dice: { roll: () => 0.5 }, clock, ...options });
  world = new Harness({ store: wrap(cluster.handle()), settings });
  return { world, cluster };
}

/** Another program writes rows behind the engine's back. */
async function plantRows(cluster: MemoryCluster, rows: readonly Row[]): Promise<void> {
  const store = cluster.handle();
  const { lastTurn } = await store.open({ replica: "planter", cluster: "c1" });
  const keys = rows.map((row): RowKey => `${row.kind}/${row.id}`);
  const tx = await store.begin({ rows: keys, claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const unit = { roots: keys, puts: rows, deletes: [], enqueued: [], logEntries: [], mail: [] };
  expect(await tx.commit(lastTurn + 1, [unit])).toMatchObject({ outcome: "committed" });
}

const breakWorkflow = (cluster: MemoryCluster, workflow: string): Promise<void> =>
  plantRows(cluster, [{ kind: "workflow", id: workflow, body: "{ not json" }]);

const codeOf = (said: Promise<unknown>): Promise<string> =>
  said.then(
    () => "done",
    (refused: { code: string }) => refused.code,
  );

const answersOf = (world: Harness): CommandAnswer[] =>
  world.effects.filter((effect): effect is CommandAnswer => effect.type === "answer");

/** Lets everything happen that can happen without the clock. */
const drain = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("commands that cannot be decided", () => {
  it("[U1] leaves a command out that throws, tries it alone, then refuses it; its neighbours commit", async () => {
    const { world, cluster } = stage();
    await world.start();
    const poison = world.order(chain(2)) as Extract<Command, { type: "run.start" }>;
    await breakWorkflow(cluster, `t1/${poison.digest}`);

    const codes = await Promise.all(world.askAll([world.order(chain(1)), poison, world.order(chain(3))]).map(codeOf));

    expect(codes).toEqual(["done", "E.UNIT.QUARANTINED", "done"]);
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(2);
    expect(world.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { type: "run.start", tenant: "t1" } }]);
    expect(answersOf(world)).toHaveLength(3);
  });

  it("[U1] does the same with a command whose unit the store refuses", async () => {
    const { world } = stage();
    await world.start();

    const codes = await Promise.all(
      world.askAll([world.order(chain(1)), world.order(chain(1), { priority: Number.NaN }), world.order(chain(1))]).map(codeOf),
    );

    expect(codes).toEqual(["done", "E.UNIT.QUARANTINED", "done"]);
    expect(await codeOf(world.run(chain(1)))).toBe("done");
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(3);
  });

  it("[U2] leaves a root alone whose timer throws twice, reports it once, and lets the other timers go on", async () => {
    const { world, cluster } = stage();
    await world.start();
    const patient = (length: number) => chain(length, { policy: { queueTimeoutMs: 3_000 } });
    const bad = await world.run(patient(2));
    const good = await world.run(patient(1));
    await breakWorkflow(cluster, (await world.detail(bad)).run.workflow);
    const next = new Harness({ store: cluster.handle() });
    next.now = world.now;
    await next.start();

    for (let look = 0; look < 5; look++) {
      world.now += 1_500;
      await next.advance(1_500);
    }

    expect((await next.detail(good)).run.phase).toBe("failed");
    expect((await next.detail(bad)).run.phase).toBe("queued");
    expect(next.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: `run/${bad}` } }]);
    expect(next.engine.gauge().quarantined).toBe(1);
    expect(await codeOf(next.run(chain(1)))).toBe("done");
  });
});

describe("roots in other hands", () => {
  const hold = async (cluster: MemoryCluster, run: string) => {
    const other = cluster.handle();
    await other.open({ replica: "other", cluster: "c1" });
    return await other.begin({ rows: [`run/${run}`], claims: [], lists: [], due: 0, mail: 0, skip: [] });
  };
  const cancel = (run: string): Command => ({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "x" });

  it("[U3] keeps a command for the next turn while its root is busy, and the others do not wait for it", async () => {
    const { world, cluster } = stage({ mode: "weak" });
    await world.start();
    const [held, free] = [await world.run(chain(1)), await world.run(chain(1))];
    const tx = await hold(cluster, held);

    const waiting = world.ask(cancel(held));
    await expect(world.ask(cancel(free))).resolves.toMatchObject({ phase: "cancelled" });
    expect((await world.detail(held)).run.phase).toBe("queued");
    await tx.abort();
    for (let pause = 0; pause < 2; pause++) await world.advance(20);

    await expect(waiting).resolves.toMatchObject({ phase: "cancelled" });
  });

  it("[U3] answers E.STORE.BUSY when the root stays busy, and nothing has changed", async () => {
    const { world, cluster } = stage({ mode: "weak" });
    await world.start();
    const held = await world.run(chain(1));
    const tx = await hold(cluster, held);

    const answer = codeOf(world.ask(cancel(held)));
    for (let pause = 0; pause < 1_000; pause++) await world.advance(20);

    expect(await answer).toBe("E.STORE.BUSY");
    await tx.abort();
    expect((await world.detail(held)).run.phase).toBe("queued");
  });
});

describe("commits that fail or get no answer", () => {
  it("[U10] says nothing of a turn that failed, tries it again, and does everything once", async () => {
    let failures = 3;
    const { world } = stage({ script: () => (failures-- > 0 ? "failed" : undefined) });
    await world.start();
    const answer = world.ask(world.order(chain(1)));
    await drain();
    expect(world.effects.filter((effect) => effect.type !== "count")).toEqual([]);

    for (let pause = 0; pause < 3; pause++) await world.advance(1_000);

    await expect(answer).resolves.toMatchObject({ of: "run", repeated: false });
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
    expect((await world.facts()).filter((type) => type === "run.created")).toHaveLength(1);
  });

  it("[U10] answers E.STORE.BUSY after many failures and has written nothing", async () => {
    const { world } = stage({ script: () => "failed" });
    await world.start();
    const answer = codeOf(world.ask(world.order(chain(1))));

    for (let pause = 0; pause < 12; pause++) await world.advance(1_000);

    expect(await answer).toBe("E.STORE.BUSY");
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toEqual([]);
  });

  it("[U10] names a store that is not durable any more as such", async () => {
    const weak = fault("E.STORE.DURABILITY", "synchronous_commit is off");
    const { world } = stage({}, {}, (store) => ({
      open: (me) => store.open(me),
      begin: async (want) => {
        const tx = await store.begin(want);
        tx.commit = async () => {
          await tx.abort();
          return { outcome: "failed", fault: weak };
        };
        return tx;
      },
      settle: (turn) => store.settle(turn),
      onHint: (hear) => store.onHint(hear),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    }));
    await world.start();
    const answer = codeOf(world.ask(world.order(chain(1))));

    for (let pause = 0; pause < 12; pause++) await world.advance(1_000);

    expect(await answer).toBe("E.STORE.DURABILITY");
  });

  for (const fate of ["unknown-committed", "unknown-absent"] as const)
    it(`[U4] says nothing before a turn of unknown outcome is settled (${fate}), and does everything once`, async () => {
      const late = Promise.withResolvers<void>();
      const fates = [fate];
      const { world } = stage({
        script: () => fates.pop(),
        gate: ({ step }) => (step === "late" ? late.promise : undefined),
      });
      await world.start();
      const answer = world.ask(world.order(chain(1)));
      await drain();
      expect(world.effects.filter((effect) => effect.type !== "count")).toEqual([]);

      late.resolve();
      await drain();
      for (let pause = 0; pause < 2; pause++) await world.advance(1_000);

      await expect(answer).resolves.toMatchObject({ of: "run", repeated: false });
      expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
      expect(answersOf(world)).toHaveLength(1);
    });

  it("[U4] begins no other turn while the store cannot say what became of the last one", async () => {
    let isAway = true;
    let begun = 0;
    const { world } = stage({ script: ({ turn }) => (turn === 1 && isAway ? "unknown-committed" : undefined) }, {}, (store) => ({
      open: (me) => store.open(me),
      begin: (want) => {
        begun++;
        return store.begin(want);
      },
      settle: (turn) => (isAway ? Promise.reject(new Error("no connection")) : store.settle(turn)),
      onHint: (hear) => store.onHint(hear),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    }));
    await world.start();
    const answer = world.ask(world.order(chain(1)));
    await drain();
    const before = begun;

    for (let pause = 0; pause < 3; pause++) await world.advance(1_000);
    expect([begun, answersOf(world)]).toEqual([before, []]);
    isAway = false;
    await world.advance(1_000);

    await expect(answer).resolves.toMatchObject({ of: "run" });
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
  });
});

describe("answers", () => {
  it("[U11] answers every command exactly once, also those that wait when the engine stops and those that come later", async () => {
    const { world } = stage({}, { turnCommandsMax: 2 });
    await world.start();
    const orders = Array.from({ length: 9 }, () => world.order(chain(1)));
    const early = world.askAll(orders).map(codeOf);

    await world.engine.stop();
    const codes = await Promise.all([...early, codeOf(world.ask(world.order(chain(1))))]);

    const done = codes.filter((code) => code === "done").length;
    expect(codes.filter((code) => code === "E.SHUTTING_DOWN")).toHaveLength(10 - done);
    expect(codes.at(-1)).toBe("E.SHUTTING_DOWN");
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 20 })).items).toHaveLength(done);
    expect(new Set(answersOf(world).map((answer) => answer.ref)).size).toBe(10);
    expect(answersOf(world)).toHaveLength(10);
  });
});

describe("the checkers", () => {
  /** A grant that is revoked, granted again and answered, watched by the checkers of the weather. */
  async function watch(plant: Plant | null): Promise<string[]> {
    let time = firstInstant;
    let refs = 0;
    const cluster = memoryCluster({
      mode: "strong",
      dice: { roll: () => 0.5 },
      clock: { mono: () => (time += 2), wall: () => time },
    });
    const reader = cluster.handle();
    const words = new Map<number, { command: Command }>();
    const problems: Promise<string | null>[] = [];
    const sent: { task: string; fence: number }[] = [];
    const mortal = new Mortal(
      "r1",
      cluster.handle(),
      {
        settings: defaultSettings,
        nextId: (now) => `${now.toString(16)}-${++refs}`,
        roll: () => 0.5,
        mono: () => time,
        hear: (_from, effects) => {
          for (const effect of effects) {
            problems.push(said(reader, effect, effect.type === "answer" ? words.get(effect.ref) : undefined));
            if (effect.type === "dispatch") sent.push(effect.dispatch);
          }
        },
        reported: (_from, problem) => problems.push(Promise.resolve(problem.message)),
      },
      plant,
    );
    const say = async (command: Command) => {
      const ref = ++refs;
      words.set(ref, { command });
      mortal.stir((engine) => engine.push([{ ref, command }]));
      await drain();
    };
    void mortal.engine.start({ replica: "r1", cluster: "c1" });
    await drain();
    const who = { tenant: "t1", worker: "t1/w", session: "s" };
    const body = JSON.stringify(graph([{}], []));
    await say({ type: "worker.join", ...who, name: "w", boot: "b", about: about(), running: [] });
    const order = { by: "me", digest: digest(body), body, client: "c", priority: 5, timeoutMs: null, ask: null };
    await say({ type: "run.start", tenant: "t1", ...order });
    time += defaultSettings.ackDeadlineMs + 1;
    mortal.stir((engine) => engine.wake());
    await drain();
    for (const { task, fence } of [...sent])
      await say({ type: "task.result", ...who, task, fence, status: "succeeded", result: "{}", error: null, durationMs: 1 });
    const { items } = await reader.page({ page: "runs", tenant: "t1", limit: 9 });
    const details: RunDetail[] = [];
    for (const { id } of items) details.push((await reader.page({ page: "run", tenant: "t1", run: id })).detail as RunDetail);
    const log = (await reader.events({ tenant: "t1", after: 0, limit: 999 })).items;
    const replayed = new LogCheck("t1", details, new Map([["t1/w", about()]])).replay(log);
    const looked = new RowCheck().look(details, (await reader.page({ page: "workers", tenant: "t1" })).items);
    expect(details.map(({ run }) => run.phase)).toEqual(["succeeded"]);
    return [...(await Promise.all(problems)), replayed, looked].filter((problem) => problem !== null);
  }

  it("[U5] find nothing wrong with the engine as it is", async () => {
    expect(await watch(null)).toEqual([]);
  });

  it("[U5] see an engine that speaks before its commit", async () => {
    const problems = await watch("ack-before-commit");

    expect(problems).toContainEqual(expect.stringMatching(/^run .* was answered before it was visible$/));
    expect(problems).toContainEqual(expect.stringMatching(/was dispatched under \d+ before its grant was visible$/));
  });

  it("[U5] see an engine that requeues without raising the fence", async () => {
    expect(await watch("requeue-forgets-fence")).toContainEqual(expect.stringMatching(/task.requeued: fence of .* did not rise/));
  });
});
