// Turns whose commits are under way together: on different roots they do not wait for each other, on one root they do, and they are
// answered in the order in which they were decided. The fuzz tests run them too (engine-fuzz.test.ts).
import type { Command, CommandAnswer, RowKey } from "@astraflow/engine";
import type { MemoryClusterOptions } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { answersOf, EngineCluster } from "../harness/engine-cluster.ts";
import { overrideStore } from "../harness/override-store.ts";
import { buildChain, buildWorkflow, type EngineHarness } from "../harness/engine-harness.ts";

const runPendingCallbacks = async (): Promise<void> => {
  for (let round = 0; round < 5; round++) await new Promise<void>((resolve) => setImmediate(resolve));
};

/** Commits wait, in the order they came, until the test lets them through. */
async function createPausedCommits(turnsInFlight: number, options: Partial<MemoryClusterOptions> = {}) {
  const waiting: (() => void)[] = [];
  let isHolding = false;
  const cluster = new EngineCluster({
    mode: "weak",
    pauseAt: ({ step }) =>
      step === "commit" && isHolding ? new Promise<void>((resolve) => void waiting.push(resolve)) : undefined,
    ...options,
  });
  const begun: (readonly RowKey[])[] = [];
  const harness = await cluster.startEngine("r1", {
    settings: { turnsInFlight },
    wrap: (store) =>
      overrideStore(store, {
        begin(want) {
          begun.push(want.rows);
          return store.begin(want);
        },
      }),
  });
  return {
    /** The rows each turn asked for. */
    begun,
    stage: cluster,
    world: harness,
    waiting,
    hold: () => {
      isHolding = true;
    },
    /** Lets one commit through. */
    async pass(at = 0) {
      waiting.splice(at, 1)[0]?.();
      await runPendingCallbacks();
    },
  };
}

const runsOf = (harness: EngineHarness): (string | undefined)[] =>
  answersOf(harness).map(({ body }: CommandAnswer) => (body?.of === "run" ? body.run : undefined));
const pushCommand = (harness: EngineHarness, command: Command): void =>
  harness.engine.push([{ ref: 1_000 + harness.effects.length, command }]);

describe("turns in flight", () => {
  it("[U12] turns on different roots commit side by side, as many as are allowed and no more", async () => {
    const { world: harness, waiting, hold } = await createPausedCommits(3);
    await harness.startRun(buildChain(1));
    hold();

    for (let order = 0; order < 5; order++) {
      pushCommand(harness, harness.startCommand(buildChain(1)));
      await runPendingCallbacks();
    }

    expect(waiting).toHaveLength(3);
    expect(answersOf(harness)).toHaveLength(1);
  });

  it("[U12] with only one turn in flight allowed, the next turn begins when the last one has committed", async () => {
    const { world: harness, waiting, hold, pass } = await createPausedCommits(1);
    hold();
    for (let order = 0; order < 3; order++) {
      pushCommand(harness, harness.startCommand(buildChain(1)));
      await runPendingCallbacks();
    }
    expect(waiting).toHaveLength(1);

    await pass();

    expect(answersOf(harness)).toHaveLength(1);
    expect(waiting).toHaveLength(1);
  });

  it("[U12] effects of turns are sent in the order of decision even if a later turn commits first", async () => {
    const { world: harness, hold, pass } = await createPausedCommits(3);
    const first = await harness.startRun(buildChain(1));
    hold();
    for (let order = 0; order < 3; order++) {
      pushCommand(harness, harness.startCommand(buildChain(1)));
      await runPendingCallbacks();
    }

    await pass(2);
    await pass(1);
    expect(runsOf(harness)).toEqual([first]);
    await pass(0);

    const runs = runsOf(harness);
    expect(runs).toHaveLength(4);
    expect(runs.toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual(runs);
  });

  it("[U12] a command on a root of a pending turn waits until that turn has committed", async () => {
    const { world: harness, waiting, hold, pass, begun } = await createPausedCommits(3);
    const run = await harness.startRun(buildChain(1));
    begun.length = 0;
    hold();
    pushCommand(harness, { type: "run.cancel", tenant: "t1", by: "me", run, reason: "one" });
    await runPendingCallbacks();
    pushCommand(harness, { type: "run.cancel", tenant: "t1", by: "me", run, reason: "two" });
    pushCommand(harness, harness.startCommand(buildChain(2)));
    await runPendingCallbacks();
    expect(waiting).toHaveLength(2);
    expect(begun.filter((rows) => rows.includes(`run/${run}`))).toHaveLength(1);

    await pass();
    await pass();
    await pass();

    // The second cancel was decided after the first had ended the run.
    expect(answersOf(harness).map((answer) => answer.fault?.code ?? null)).toEqual([null, null, null, "E.RUN.TERMINAL"]);
    expect((await harness.facts()).filter((type) => type === "run.cancelled")).toHaveLength(1);
  });

  it("[U12] several pending turns may grant tasks to one worker", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(3);
    const worker = await harness.joinWorker("w", { slots: 4 });
    await harness.startRun(buildWorkflow([{}, {}], []));
    await cluster.passSeconds(1);
    for (const dispatch of worker.dispatchesSent) await worker.succeed({}, dispatch);
    hold();
    for (let order = 0; order < 2; order++) {
      pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
      await runPendingCallbacks();
    }
    expect(waiting).toHaveLength(2);

    await pass();
    await pass();

    expect(worker.dispatchesSent).toHaveLength(6);
    expect(waiting).toHaveLength(0);
  });

  it("[U12] a heartbeat waits for the pending turns of its worker, which gets no grant until it is processed", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(3);
    const worker = await harness.joinWorker("w", { slots: 4 });
    await harness.startRun(buildWorkflow([{}, {}], []));
    await cluster.passSeconds(1);
    for (const dispatch of worker.dispatchesSent) await worker.succeed({}, dispatch);
    hold();
    pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
    await runPendingCallbacks();
    const { worker: id, session } = worker;
    harness.engine.push([
      { ref: 903, command: { type: "worker.beat", tenant: "t1", worker: id, session, healthy: true, held: [] } },
    ]);
    pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
    await runPendingCallbacks();
    expect(waiting).toHaveLength(2);

    await pass(1);
    await pass(0);
    expect(worker.dispatchesSent).toHaveLength(4);
    while (waiting.length > 0) await pass();

    expect(answersOf(harness).find((answer) => answer.ref === 903)?.fault).toBeNull();
    expect(worker.dispatchesSent).toHaveLength(6);
  });

  it("[U12] a worker never gets more tasks than it has slots while grants are pending", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(4);
    const worker = await harness.joinWorker("w", { slots: 2 });
    hold();
    for (let order = 0; order < 4; order++) {
      pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
      await runPendingCallbacks();
    }
    while (waiting.length > 0) await pass(waiting.length - 1);
    for (let second = 0; second < 3; second++) {
      await cluster.passSeconds(1);
      while (waiting.length > 0) await pass();
    }

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[P7] a worker gets no more tasks of a node type than its limit for it while grants are pending", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(4);
    const worker = await harness.joinWorker("w", { slots: 4, perNodeLimits: { "test.step": 1 } });
    await harness.startRun(buildChain(1));
    await cluster.passSeconds(1);
    await worker.succeed({});
    hold();
    for (let order = 0; order < 3; order++) {
      pushCommand(harness, harness.startCommand(buildChain(1)));
      await runPendingCallbacks();
    }
    while (waiting.length > 0) await pass(waiting.length - 1);
    for (let second = 0; second < 3; second++) {
      await cluster.passSeconds(1);
      while (waiting.length > 0) await pass();
    }

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[U12] a worker gets no more tasks than it has slots while grants are committed but not yet applied", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(4);
    const worker = await harness.joinWorker("w", { slots: 2 });
    await harness.startRun(buildWorkflow([{}, {}], []));
    await cluster.passSeconds(1);
    for (const dispatch of worker.dispatchesSent) await worker.succeed({}, dispatch);
    hold();
    // Nobody here can run the first order, so it leaves the worker alone; the second takes both slots and is on disk before it.
    pushCommand(harness, harness.startCommand(buildChain(1, { policy: { pool: "elsewhere" } })));
    await runPendingCallbacks();
    pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
    await runPendingCallbacks();
    await pass(1);

    pushCommand(harness, harness.startCommand(buildWorkflow([{}, {}], [])));
    await runPendingCallbacks();
    while (waiting.length > 0) await pass();

    expect(worker.dispatchesSent).toHaveLength(4);
  });

  it("[U12] a pending ack keeps its grant from being revoked", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(2);
    const worker = await harness.joinWorker("w", { slots: 1 });
    await harness.startRun(buildChain(1));
    await cluster.passSeconds(1);
    const sent = worker.lastDispatch;
    hold();
    // Shares its turn with an order, so it is not on disk before that is.
    harness.engine.push([
      { ref: 900, command: harness.startCommand(buildChain(2)) },
      {
        ref: 901,
        command: {
          type: "task.ack",
          tenant: "t1",
          worker: worker.worker,
          session: worker.session,
          held: [{ task: sent.task, fence: sent.fence }],
        },
      },
    ]);
    await runPendingCallbacks();
    expect(waiting).toHaveLength(1);

    cluster.skipTime(6_000);
    pushCommand(harness, harness.startCommand(buildChain(3)));
    await runPendingCallbacks();
    while (waiting.length > 0) await pass();
    await cluster.passSeconds(1);
    while (waiting.length > 0) await pass();

    expect((await harness.facts()).filter((type) => type === "task.requeued")).toEqual([]);
  });

  it("[U12] a task queued by a pending turn is not missed by a later turn that found the queue empty", async () => {
    const { stage: cluster, world: harness, hold, pass, waiting } = await createPausedCommits(3);
    const worker = await harness.joinWorker("w", { slots: 1 });
    const first = await harness.startRun(buildChain(1));
    await cluster.passSeconds(1);
    hold();
    // The slot is taken, so this task goes into its line; the next turn claims that line before it is visible.
    pushCommand(harness, harness.startCommand(buildChain(1)));
    await runPendingCallbacks();
    harness.engine.push([
      {
        ref: 902,
        command: { ...resultCommand(worker.lastDispatch), tenant: "t1", worker: worker.worker, session: worker.session },
      },
    ]);
    await runPendingCallbacks();
    while (waiting.length > 0) await pass(waiting.length - 1);
    await runPendingCallbacks();
    while (waiting.length > 0) await pass();

    expect(worker.dispatchesSent).toHaveLength(2);
    expect(worker.lastDispatch.run).not.toBe(first);
  });

  it("[U12] a failed commit requeues its commands in order and does not affect the turns behind it", async () => {
    const fates = new Map<number, "failed">([[2, "failed"]]);
    const {
      world: harness,
      stage: cluster,
      hold,
      pass,
      waiting,
    } = await createPausedCommits(3, {
      scriptedOutcome: ({ turn }) => {
        const fate = fates.get(turn);
        fates.delete(turn);
        return fate;
      },
    });
    await harness.startRun(buildChain(1));
    hold();
    for (let order = 0; order < 3; order++) {
      pushCommand(harness, harness.startCommand(buildChain(order + 1)));
      await runPendingCallbacks();
    }
    for (let second = 0; second < 4; second++) {
      while (waiting.length > 0) await pass();
      await cluster.passSeconds(1);
    }

    expect(answersOf(harness).map((answer) => answer.fault)).toEqual([null, null, null, null]);
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(4);
  });
});

const resultCommand = ({ task, fence }: { task: string; fence: number }) =>
  ({
    type: "task.result",
    task,
    fence,
    status: "succeeded",
    result: "{}",
    error: null,
    durationMs: 1,
  }) as const;
