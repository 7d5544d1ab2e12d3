// The driver's own rules: what happens to a command or a timer that cannot be decided, a root in other hands, a commit that fails or
// gets no answer; that every command is answered once; and that the checkers of the fuzz tests see the mutants.
import type { Command, CommandAnswer, EngineSettings, Row, RowKey, RunDetail, Store } from "@astraflow/engine";
import { defaultSettings } from "@astraflow/engine";
import type { Plant } from "@astraflow/engine/testing";
import { fault } from "@astraflow/protocol";
import { MemoryCluster, type MemoryClusterOptions } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { visibilityProblem } from "../fuzz/effect-visibility.ts";
import { KillableEngine, sha256Digest } from "../fuzz/killable-engine.ts";
import { LogChecker } from "../fuzz/log-checker.ts";
import { RowChecker } from "../fuzz/row-checker.ts";
import { buildChain, buildWorkflow, describeWorker, EngineHarness } from "../harness/engine-harness.ts";

const firstInstant = 1_800_000_000_000;

interface DriverFixture {
  readonly world: EngineHarness;
  readonly cluster: MemoryCluster;
}

function createDriverFixture(
  options: Partial<MemoryClusterOptions> = {},
  settings: Partial<EngineSettings> = {},
  wrap: (store: Store) => Store = (store) => store,
): DriverFixture {
  let harness: EngineHarness | null = null;
  const now = () => harness?.now ?? firstInstant;
  const clock = { wall: now, mono: now };
  const cluster = new MemoryCluster({ mode: "strong", random: { random: () => 0.5 }, clock, ...options });
  harness = new EngineHarness({ store: wrap(cluster.createHandle()), settings });
  return { world: harness, cluster };
}

/** Another program writes rows behind the engine's back. */
async function insertRows(cluster: MemoryCluster, rows: readonly Row[]): Promise<void> {
  const store = cluster.createHandle();
  const { lastTurn } = await store.open({ replica: "planter", cluster: "c1" });
  const keys = rows.map((row): RowKey => `${row.kind}/${row.id}`);
  const tx = await store.begin({ rows: keys, claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const unit = { roots: keys, puts: rows, deletes: [], enqueued: [], logEntries: [], mail: [] };
  expect(await tx.commit(lastTurn + 1, [unit])).toMatchObject({ outcome: "committed" });
}

const corruptWorkflow = (cluster: MemoryCluster, workflow: string): Promise<void> =>
  insertRows(cluster, [{ kind: "workflow", id: workflow, body: "{ not json" }]);

const faultCodeOf = (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => "done",
    (refused: { code: string }) => refused.code,
  );

const answersOf = (harness: EngineHarness): CommandAnswer[] =>
  harness.effects.filter((effect): effect is CommandAnswer => effect.type === "answer");

/** Lets everything happen that can happen without the clock. */
const runPendingCallbacks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("commands that cannot be decided", () => {
  it("[U1] a command that throws is retried alone and then refused; the other commands of its turn commit", async () => {
    const { world: harness, cluster } = createDriverFixture();
    await harness.start();
    const poison = harness.startCommand(buildChain(2)) as Extract<Command, { type: "run.start" }>;
    await corruptWorkflow(cluster, `t1/${poison.digest}`);

    const codes = await Promise.all(
      harness.askAll([harness.startCommand(buildChain(1)), poison, harness.startCommand(buildChain(3))]).map(faultCodeOf),
    );

    expect(codes).toEqual(["done", "E.UNIT.QUARANTINED", "done"]);
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(2);
    expect(harness.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { type: "run.start", tenant: "t1" } }]);
    expect(answersOf(harness)).toHaveLength(3);
  });

  it("[U1] a command whose unit of work the store refuses is retried alone and then refused", async () => {
    const { world: harness } = createDriverFixture();
    await harness.start();

    const codes = await Promise.all(
      harness
        .askAll([
          harness.startCommand(buildChain(1)),
          harness.startCommand(buildChain(1), { priority: Number.NaN }),
          harness.startCommand(buildChain(1)),
        ])
        .map(faultCodeOf),
    );

    expect(codes).toEqual(["done", "E.UNIT.QUARANTINED", "done"]);
    expect(await faultCodeOf(harness.startRun(buildChain(1)))).toBe("done");
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(3);
  });

  it("[U2] a root whose timer throws twice is quarantined and reported once; other timers still fire", async () => {
    const { world: harness, cluster } = createDriverFixture();
    await harness.start();
    const patient = (length: number) => buildChain(length, { policy: { queueTimeoutMs: 3_000 } });
    const bad = await harness.startRun(patient(2));
    const good = await harness.startRun(patient(1));
    await corruptWorkflow(cluster, (await harness.runDetail(bad)).run.workflow);
    const next = new EngineHarness({ store: cluster.createHandle() });
    next.now = harness.now;
    await next.start();

    for (let look = 0; look < 5; look++) {
      harness.now += 1_500;
      await next.advance(1_500);
    }

    expect((await next.runDetail(good)).run.phase).toBe("failed");
    expect((await next.runDetail(bad)).run.phase).toBe("queued");
    expect(next.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: `run/${bad}` } }]);
    expect(next.engine.gauge().quarantined).toBe(1);
    expect(await faultCodeOf(next.startRun(buildChain(1)))).toBe("done");
  });
});

describe("roots in other hands", () => {
  const hold = async (cluster: MemoryCluster, run: string) => {
    const other = cluster.createHandle();
    await other.open({ replica: "other", cluster: "c1" });
    return await other.begin({ rows: [`run/${run}`], claims: [], lists: [], due: 0, mail: 0, skip: [] });
  };
  const cancel = (run: string): Command => ({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "x" });

  it("[U3] a command with a busy root waits for the next turn without delaying the others", async () => {
    const { world: harness, cluster } = createDriverFixture({ mode: "weak" });
    await harness.start();
    const [held, free] = [await harness.startRun(buildChain(1)), await harness.startRun(buildChain(1))];
    const tx = await hold(cluster, held);

    const waiting = harness.ask(cancel(held));
    await expect(harness.ask(cancel(free))).resolves.toMatchObject({ phase: "cancelled" });
    expect((await harness.runDetail(held)).run.phase).toBe("queued");
    await tx.abort();
    for (let pause = 0; pause < 2; pause++) await harness.advance(20);

    await expect(waiting).resolves.toMatchObject({ phase: "cancelled" });
  });

  it("[U3] a command whose root stays busy is answered E.STORE.BUSY and changes nothing", async () => {
    const { world: harness, cluster } = createDriverFixture({ mode: "weak" });
    await harness.start();
    const held = await harness.startRun(buildChain(1));
    const tx = await hold(cluster, held);

    const answer = faultCodeOf(harness.ask(cancel(held)));
    for (let pause = 0; pause < 1_000; pause++) await harness.advance(20);

    expect(await answer).toBe("E.STORE.BUSY");
    await tx.abort();
    expect((await harness.runDetail(held)).run.phase).toBe("queued");
  });
});

describe("commits that fail or get no answer", () => {
  it("[U10] a failed turn sends nothing, is retried, and takes effect once", async () => {
    let failures = 3;
    const { world: harness } = createDriverFixture({ scriptedOutcome: () => (failures-- > 0 ? "failed" : undefined) });
    await harness.start();
    const answer = harness.ask(harness.startCommand(buildChain(1)));
    await runPendingCallbacks();
    expect(harness.effects.filter((effect) => effect.type !== "count")).toEqual([]);

    for (let pause = 0; pause < 3; pause++) await harness.advance(1_000);

    await expect(answer).resolves.toMatchObject({ of: "run", repeated: false });
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
    expect((await harness.facts()).filter((type) => type === "run.created")).toHaveLength(1);
  });

  it("[U10] a command whose turn keeps failing is answered E.STORE.BUSY, and nothing is written", async () => {
    const { world: harness } = createDriverFixture({ scriptedOutcome: () => "failed" });
    await harness.start();
    const answer = faultCodeOf(harness.ask(harness.startCommand(buildChain(1))));

    for (let pause = 0; pause < 12; pause++) await harness.advance(1_000);

    expect(await answer).toBe("E.STORE.BUSY");
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toEqual([]);
  });

  it("[U10] a command is answered E.STORE.DURABILITY when the store is no longer durable", async () => {
    const weak = fault("E.STORE.DURABILITY", "synchronous_commit is off");
    const { world: harness } = createDriverFixture({}, {}, (store) => ({
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
      onHint: (listener) => store.onHint(listener),
      remove: (slice) => store.remove(slice),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    }));
    await harness.start();
    const answer = faultCodeOf(harness.ask(harness.startCommand(buildChain(1))));

    for (let pause = 0; pause < 12; pause++) await harness.advance(1_000);

    expect(await answer).toBe("E.STORE.DURABILITY");
  });

  for (const fate of ["unknown-committed", "unknown-absent"] as const)
    it(`[U4] the engine sends nothing before a turn of unknown outcome is settled (${fate}), and applies everything once`, async () => {
      const late = Promise.withResolvers<void>();
      const fates = [fate];
      const { world: harness } = createDriverFixture({
        scriptedOutcome: () => fates.pop(),
        pauseAt: ({ step }) => (step === "late" ? late.promise : undefined),
      });
      await harness.start();
      const answer = harness.ask(harness.startCommand(buildChain(1)));
      await runPendingCallbacks();
      expect(harness.effects.filter((effect) => effect.type !== "count")).toEqual([]);

      late.resolve();
      await runPendingCallbacks();
      for (let pause = 0; pause < 2; pause++) await harness.advance(1_000);

      await expect(answer).resolves.toMatchObject({ of: "run", repeated: false });
      expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
      expect(answersOf(harness)).toHaveLength(1);
    });

  it("[U4] the engine begins no other turn while the store cannot settle the outcome of the last one", async () => {
    let isAway = true;
    let begun = 0;
    const { world: harness } = createDriverFixture(
      { scriptedOutcome: ({ turn }) => (turn === 1 && isAway ? "unknown-committed" : undefined) },
      {},
      (store) => ({
        open: (me) => store.open(me),
        begin: (want) => {
          begun++;
          return store.begin(want);
        },
        settle: (turn) => (isAway ? Promise.reject(new Error("no connection")) : store.settle(turn)),
        onHint: (listener) => store.onHint(listener),
        remove: (slice) => store.remove(slice),
        events: (query) => store.events(query),
        page: (query) => store.page(query),
        close: () => store.close(),
      }),
    );
    await harness.start();
    const answer = harness.ask(harness.startCommand(buildChain(1)));
    await runPendingCallbacks();
    const before = begun;

    for (let pause = 0; pause < 3; pause++) await harness.advance(1_000);
    expect([begun, answersOf(harness)]).toEqual([before, []]);
    isAway = false;
    await harness.advance(1_000);

    await expect(answer).resolves.toMatchObject({ of: "run" });
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
  });
});

describe("answers", () => {
  it("[U11] the engine answers every command exactly once, including those waiting when it stops and those that arrive later", async () => {
    const { world: harness } = createDriverFixture({}, { turnCommandsMax: 2 });
    await harness.start();
    const orders = Array.from({ length: 9 }, () => harness.startCommand(buildChain(1)));
    const early = harness.askAll(orders).map(faultCodeOf);

    await harness.engine.stop();
    const codes = await Promise.all([...early, faultCodeOf(harness.ask(harness.startCommand(buildChain(1))))]);

    const done = codes.filter((code) => code === "done").length;
    expect(codes.filter((code) => code === "E.SHUTTING_DOWN")).toHaveLength(10 - done);
    expect(codes.at(-1)).toBe("E.SHUTTING_DOWN");
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 20 })).items).toHaveLength(done);
    expect(new Set(answersOf(harness).map((answer) => answer.ref)).size).toBe(10);
    expect(answersOf(harness)).toHaveLength(10);
  });
});

describe("the checkers", () => {
  /** A grant that is revoked, granted again and answered, watched by the checkers of the fuzz tests. */
  async function watch(mutant: Plant | null): Promise<string[]> {
    let time = firstInstant;
    let refs = 0;
    const cluster = new MemoryCluster({
      mode: "strong",
      random: { random: () => 0.5 },
      clock: { mono: () => (time += 2), wall: () => time },
    });
    const reader = cluster.createHandle();
    const words = new Map<number, { command: Command }>();
    const problems: Promise<string | null>[] = [];
    const sent: { task: string; fence: number }[] = [];
    const killable = new KillableEngine(
      "r1",
      cluster.createHandle(),
      {
        settings: defaultSettings,
        nextId: (now) => `${now.toString(16)}-${++refs}`,
        nextRandom: () => 0.5,
        mono: () => time,
        receiveEffects: (_from, effects) => {
          for (const effect of effects) {
            problems.push(visibilityProblem(reader, effect, effect.type === "answer" ? words.get(effect.ref) : undefined));
            if (effect.type === "dispatch") sent.push(effect.dispatch);
          }
        },
        receiveProblem: (_from, problem) => problems.push(Promise.resolve(problem.message)),
      },
      mutant,
    );
    const push = async (command: Command) => {
      const ref = ++refs;
      words.set(ref, { command });
      killable.giveWork((engine) => engine.push([{ ref, command }]));
      await runPendingCallbacks();
    };
    void killable.engine.start({ replica: "r1", cluster: "c1" });
    await runPendingCallbacks();
    const who = { tenant: "t1", worker: "t1/w", session: "s" };
    const body = JSON.stringify(buildWorkflow([{}], []));
    await push({ type: "worker.join", ...who, name: "w", boot: "b", about: describeWorker(), running: [] });
    const order = { by: "me", digest: sha256Digest(body), body, client: "c", priority: 5, timeoutMs: null, ask: null };
    await push({ type: "run.start", tenant: "t1", ...order });
    time += defaultSettings.ackDeadlineMs + 1;
    killable.giveWork((engine) => engine.wake());
    await runPendingCallbacks();
    for (const { task, fence } of [...sent])
      await push({ type: "task.result", ...who, task, fence, status: "succeeded", result: "{}", error: null, durationMs: 1 });
    const { items } = await reader.page({ page: "runs", tenant: "t1", limit: 9 });
    const details: RunDetail[] = [];
    for (const { id } of items) details.push((await reader.page({ page: "run", tenant: "t1", run: id })).detail as RunDetail);
    const log = (await reader.events({ tenant: "t1", after: 0, limit: 999 })).items;
    const replayed = new LogChecker("t1", details, new Map([["t1/w", describeWorker()]])).replay(log);
    const looked = new RowChecker().check(details, (await reader.page({ page: "workers", tenant: "t1" })).items);
    expect(details.map(({ run }) => run.phase)).toEqual(["succeeded"]);
    return [...(await Promise.all(problems)), replayed, looked].filter((problem) => problem !== null);
  }

  it("[U5] the checkers find nothing wrong with the unchanged engine", async () => {
    expect(await watch(null)).toEqual([]);
  });

  it("[U5] the checker finds an engine that sends effects before its commit", async () => {
    const problems = await watch("ack-before-commit");

    expect(problems).toContainEqual(expect.stringMatching(/^run .* was answered before it was visible$/));
    expect(problems).toContainEqual(expect.stringMatching(/was dispatched under \d+ before its grant was visible$/));
  });

  it("[U5] the checkers find an engine that requeues without raising the fence", async () => {
    expect(await watch("requeue-forgets-fence")).toContainEqual(expect.stringMatching(/task.requeued: fence of .* did not rise/));
  });
});
