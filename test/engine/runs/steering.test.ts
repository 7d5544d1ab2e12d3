// Steering a run that is under way: leaving nodes out, trying them again now, moving work to another worker; and the audit of all that.

import type { AffectedTask, AnswerBody, Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import {
  buildChain,
  buildWorkflow,
  EngineHarness,
  nodeId,
  type RefusedError,
  type TestWorker,
} from "../harness/engine-harness.ts";

/** A run, and whatever the engine makes of it before it rests. */
async function startAndSettle(harness: EngineHarness, workflow: Record<string, unknown>): Promise<string> {
  const run = await harness.startRun(workflow);
  await harness.settle();
  return run;
}

const operatorFields = { tenant: "t1", by: "ada", corr: "req-9" } as const;
const skipCommand = (run: string, node: string, changes: Partial<Command> = {}): Command =>
  ({ type: "run.skip", ...operatorFields, run, node, reason: "not needed", ...changes }) as Command;
const retryCommand = (run: string, node: string): Command => ({
  type: "run.retry",
  ...operatorFields,
  run,
  node,
  reason: "stuck",
});
const rebindCommand = (
  run: string,
  node: string | null,
  worker: string | null,
  mode: "switch" | "drain" = "switch",
): Command => ({
  type: "run.rebind",
  ...operatorFields,
  run,
  node,
  worker,
  mode,
});

async function steer(harness: EngineHarness, command: Command): Promise<readonly AffectedTask[]> {
  const answer: AnswerBody = await harness.ask(command);
  await harness.settle();
  if (answer.of !== "steered") throw new Error("not steered");
  return answer.tasks;
}

const refusalOf = (answer: Promise<unknown>): Promise<RefusedError> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as RefusedError,
  );

async function phasesBySlot(harness: EngineHarness, run: string): Promise<Record<string, string>> {
  const { run: row, tasks } = await harness.runDetail(run);
  return { run: row.phase, ...Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase])) };
}

async function readAudits(harness: EngineHarness, tenant = "t1") {
  const page = await harness.store.events({ tenant, after: 0, limit: 1_000, types: ["audit."] });
  return page.items.map(({ subject, type, data }) => ({ subject, type, ...data }));
}

describe("skip", () => {
  it("[E84] skipping a running node takes it from its worker, which is sent a stop, and the run goes on after it", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(2));
    const { fence, task } = worker.lastDispatch;

    const steered = await steer(harness, skipCommand(run, nodeId(0)));

    expect(steered).toEqual([{ task: `${run}.0`, node: nodeId(0), from: "t1/w", to: null, sent: "stop", phase: "skipped" }]);
    expect(harness.stopsSent()).toMatchObject([{ task, fence, code: "E.RUNNER.CANCELLED" }]);
    expect(worker.lastDispatch.node).toBe(nodeId(1));
    expect((await refusalOf(worker.succeed({}, { task, fence }))).code).toBe("E.RESULT.DUPLICATE");
    await worker.succeed({});
    expect(await phasesBySlot(harness, run)).toEqual({ run: "succeeded", 0: "skipped", 1: "succeeded" });
  });

  it("[E84] skipping a queued node ends it at once, and its concurrency key passes to the next task", async () => {
    const harness = await new EngineHarness().start();
    const key = { concurrency: { key: "k" } };
    const run = await startAndSettle(harness, buildWorkflow([{ policy: key }, { policy: key }, {}], [[1, 2]]));
    expect(await phasesBySlot(harness, run)).toMatchObject({ 0: "ready", 1: "parked" });

    await steer(harness, skipCommand(run, nodeId(0)));

    expect(await phasesBySlot(harness, run)).toMatchObject({ 0: "skipped", 1: "ready" });
    await steer(harness, skipCommand(run, `${run}.1`));
    await steer(harness, skipCommand(run, "2"));
    expect(await phasesBySlot(harness, run)).toMatchObject({ run: "succeeded", 2: "skipped" });
  });

  it("[E85] skipping a node before it is reached takes effect when the run gets there", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(
      harness,
      buildWorkflow(
        [{}, {}, {}, {}],
        [
          [0, 2],
          [1, 2],
          [2, 3],
        ],
      ),
    );
    await worker.succeed({}, worker.dispatchesSent[0]);
    await harness.settle();

    const joined = await steer(harness, skipCommand(run, nodeId(2)));
    expect(joined).toMatchObject([{ task: `${run}.2`, sent: "none", phase: "waiting" }]);
    await worker.succeed({}, worker.dispatchesSent[1]);
    await harness.settle();

    expect(worker.lastDispatch.node).toBe(nodeId(3));
    await worker.succeed({});
    expect(await phasesBySlot(harness, run)).toEqual({
      run: "succeeded",
      0: "succeeded",
      1: "succeeded",
      2: "skipped",
      3: "succeeded",
    });
  });

  it("[E86] a skip of an ended node, in an ended run or of an unknown node is refused, each with its own code", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(2));
    await worker.succeed({});
    await harness.settle();

    const ended = await refusalOf(harness.ask(skipCommand(run, nodeId(0))));
    const unknown = await refusalOf(harness.ask(skipCommand(run, nodeId(77))));
    await worker.succeed({});
    const over = await refusalOf(harness.ask(skipCommand(run, nodeId(1))));
    const foreign = await refusalOf(harness.ask(skipCommand(run, nodeId(1), { tenant: "t2" })));
    const missing = await refusalOf(harness.ask(skipCommand("nobody", nodeId(1))));

    expect(ended.fault).toMatchObject({ code: "E.TASK.ENDED", details: { phase: "succeeded" } });
    expect(unknown.code).toBe("E.NOT_FOUND");
    expect(over.fault).toMatchObject({ code: "E.RUN.TERMINAL", details: { phase: "succeeded" } });
    expect([foreign.code, missing.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND"]);
    expect(foreign.message.replace(run, "x")).toBe(missing.message.replace("nobody", "x"));
  });
});

describe("retry", () => {
  it("[E87] an operator's retry cuts the backoff before the next attempt short", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 60_000 } } }));
    await worker.error("E.RUNNER.FAILURE");
    await harness.settle();

    const steered = await steer(harness, retryCommand(run, nodeId(0)));

    expect(steered).toMatchObject([{ sent: "none", phase: "ready" }]);
    expect(worker.dispatchesSent).toHaveLength(2);
    expect(worker.lastDispatch.attempt).toBe(2);
  });

  it("[E87] an operator's retry takes a running attempt back under a new fence, and its worker is sent a stop", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(1));
    const old = worker.lastDispatch;

    const steered = await steer(harness, retryCommand(run, nodeId(0)));

    expect(steered).toMatchObject([{ from: "t1/w", sent: "stop" }]);
    expect(harness.stopsSent()).toMatchObject([{ task: old.task, fence: old.fence }]);
    expect(worker.lastDispatch.fence).toBeGreaterThan(old.fence);
    expect((await refusalOf(worker.succeed({}, old))).code).toBe("E.SESSION.STALE_BINDING");
    await worker.succeed({});
    expect((await phasesBySlot(harness, run))["run"]).toBe("succeeded");
  });

  it("[E88] a retry of a node that has not started is refused, and one in a failed run is refused with a pointer to replay", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(2));

    const early = await refusalOf(harness.ask(retryCommand(run, nodeId(1))));
    await worker.error("E.RUNNER.FAILURE");
    const over = await refusalOf(harness.ask(retryCommand(run, nodeId(0))));

    expect(early.fault).toMatchObject({ code: "E.TASK.MOVE_REFUSED", details: { phase: "waiting" } });
    expect(over.code).toBe("E.RUN.TERMINAL");
    expect(over.message).toContain("replay");
  });
});

describe("deliveries", () => {
  it("[E87] retries and rebinds by an operator use up no delivery, however many there are", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 2 } }).start();
    const workers = [await harness.joinWorker("a"), await harness.joinWorker("b")];
    const run = await startAndSettle(harness, buildChain(1));

    for (let round = 0; round < 3; round++) {
      await steer(harness, retryCommand(run, nodeId(0)));
      for (const { worker } of workers) await steer(harness, rebindCommand(run, null, worker));
    }

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", deliveries: 1 }]);
  });
});

describe("rebind", () => {
  async function two(slots = 4): Promise<{ world: EngineHarness; a: TestWorker; b: TestWorker }> {
    const harness = await new EngineHarness().start();
    return {
      world: harness,
      a: await harness.joinWorker("a", { slots }),
      b: await harness.joinWorker("b", { slots, tags: { spare: "yes" } }),
    };
  }
  const other = ({ a, b }: { a: TestWorker; b: TestWorker }): [TestWorker, TestWorker] =>
    a.dispatchesSent.length > 0 ? [a, b] : [b, a];

  it("[E89] a rebind by switch takes running tasks back and sends them, and what follows, to the named worker", async () => {
    const crew = await two();
    const { world: harness } = crew;
    const run = await startAndSettle(harness, buildChain(3));
    const [from, to] = other(crew);

    const steered = await steer(harness, rebindCommand(run, null, to.worker));

    expect(steered).toEqual([
      { task: `${run}.0`, node: nodeId(0), from: from.worker, to: to.worker, sent: "stop", phase: "ready" },
    ]);
    expect(harness.stopsSent()).toMatchObject([{ worker: from.worker, task: `${run}.0` }]);
    for (let at = 0; at < 3; at++) {
      await to.succeed({});
      await harness.settle();
    }
    expect(to.dispatchesSent.map(({ node }) => node)).toEqual([nodeId(0), nodeId(1), nodeId(2)]);
    expect((await phasesBySlot(harness, run))["run"]).toBe("succeeded");
    const [fact] = (await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["run.rebound"] })).items;
    expect(fact?.data).toMatchObject({ by: "ada", mode: "switch", tasks: [{ task: `${run}.0`, to: to.worker, sent: "stop" }] });
  });

  it("[E89] a rebind by drain lets running tasks end where they are and sends what follows to the named worker", async () => {
    const crew = await two();
    const { world: harness } = crew;
    const run = await startAndSettle(harness, buildChain(2));
    const [from, to] = other(crew);

    const steered = await steer(harness, rebindCommand(run, null, to.worker, "drain"));
    await from.succeed({});
    await harness.settle();

    expect(steered).toMatchObject([{ sent: "none", phase: "leased", to: from.worker }]);
    expect(harness.stopsSent()).toEqual([]);
    expect(to.lastDispatch.node).toBe(nodeId(1));
  });

  it("[E89] a rebind without a worker moves tasks to any other worker, and back to the old one only if no other can take them", async () => {
    const harness = await new EngineHarness().start();
    const from = await harness.joinWorker("from", { slots: 9 });
    const run = await startAndSettle(harness, buildChain(2));
    const to = await harness.joinWorker("to", { slots: 1 });

    await steer(harness, rebindCommand(run, null, null));

    expect(to.dispatchesSent.map(({ run: of }) => of)).toEqual([run]);
    await harness.ask({ type: "worker.drain", ...operatorFields, worker: to.worker, on: true });
    await to.succeed({});
    await harness.settle();
    expect(from.dispatchesSent).toHaveLength(1);
    await to.disconnect();
    await harness.settle();
    expect(from.lastDispatch.node).toBe(nodeId(1));
  });

  it("[E89] a rebind of one node moves only that node, even before it is reached", async () => {
    const crew = await two();
    const { world: harness } = crew;
    const run = await startAndSettle(harness, buildChain(3));
    const [from, to] = other(crew);

    await steer(harness, rebindCommand(run, nodeId(1), to.worker));
    await from.succeed({});
    await harness.settle();
    expect(to.lastDispatch.node).toBe(nodeId(1));
    await to.succeed({});
    await harness.settle();

    expect((await phasesBySlot(harness, run))[2]).toBe("leased");
    expect(to.dispatchesSent[0]?.node).toBe(nodeId(1));
    expect(from.dispatchesSent[0]?.node).toBe(nodeId(0));
  });

  it("[E89] a rebind to a worker that is lost later does not hold up the run", async () => {
    const crew = await two(1);
    const { world: harness } = crew;
    const run = await startAndSettle(harness, buildChain(2));
    const [from, to] = other(crew);
    await steer(harness, rebindCommand(run, null, to.worker, "drain"));
    await to.disconnect();
    await from.succeed({});
    for (let at = 0; at < 33; at++) {
      await harness.advance(1_000);
      await from.heartbeat(null);
    }

    expect(from.lastDispatch.node).toBe(nodeId(1));
  });

  it("[E89] a rebind of a run to a worker that can serve only part of it leaves the other tasks where they fit", async () => {
    const harness = await new EngineHarness().start();
    const gpu = await harness.joinWorker("gpu", { pool: "gpu" });
    const plain = await harness.joinWorker("plain", { slots: 2 });
    const run = await startAndSettle(
      harness,
      buildWorkflow([{ policy: { pool: "gpu" } }, {}, { policy: { pool: "gpu" } }], [[0, 2]]),
    );

    const steered = await steer(harness, rebindCommand(run, null, plain.worker));
    await gpu.succeed({});
    await harness.settle();

    expect(steered.map(({ task }) => task)).toEqual([`${run}.1`]);
    expect(gpu.lastDispatch.node).toBe(nodeId(2));
  });

  it("[E90] a rebind to a worker that is unknown, lost or unfit is refused, naming what an unfit worker lacks", async () => {
    const { world: harness, a } = await two();
    const bare = await harness.joinWorker("bare", { packages: [] });
    const gone = await harness.joinWorker("gone");
    await gone.disconnect();
    for (let at = 0; at < 31; at++) {
      await harness.advance(1_000);
      for (const worker of [a, bare]) await worker.heartbeat(null);
    }
    const run = await startAndSettle(harness, buildChain(1));

    const unknown = await refusalOf(harness.ask(rebindCommand(run, null, "t1/nobody")));
    const foreign = await refusalOf(harness.ask(rebindCommand(run, null, "t2/w")));
    const lost = await refusalOf(harness.ask(rebindCommand(run, null, "t1/gone")));
    const unfit = await refusalOf(harness.ask(rebindCommand(run, nodeId(0), "t1/bare")));

    expect([unknown.code, foreign.code, lost.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND", "E.WORKER.LOST"]);
    expect(unfit.fault).toMatchObject({ code: "E.DISPATCH.UNFIT", details: { misfit: { code: "package-missing" } } });
    expect((await harness.runDetail(run)).run.marks).toBeNull();
  });
});

describe("the audit of steering", () => {
  it("[E83] the audit of steering records actor, action, request and outcome, refusals too, and nothing about another tenant's objects", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildChain(2));
    await worker.succeed({});
    await harness.settle();

    await refusalOf(harness.ask(skipCommand(run, nodeId(0))));
    await harness.ask({ type: "run.cancel", ...operatorFields, run, reason: "enough" });
    await harness.ask({ type: "worker.drain", ...operatorFields, worker: worker.worker, on: true });
    await harness.ask({ type: "worker.kick", ...operatorFields, worker: worker.worker, reason: "out" });
    await refusalOf(harness.ask(skipCommand(run, nodeId(1), { tenant: "t2" })));
    await refusalOf(harness.ask({ type: "worker.drain", ...operatorFields, tenant: "t2", worker: worker.worker, on: true }));

    expect(await readAudits(harness)).toMatchObject([
      {
        subject: `run/${run}`,
        type: "audit.run.skip",
        by: "ada",
        corr: "req-9",
        target: run,
        targetType: "run",
        outcome: "E.TASK.ENDED",
      },
      { subject: `run/${run}`, type: "audit.run.cancel", outcome: "ok", reason: "enough" },
      { subject: "worker/t1/w", type: "audit.worker.drain", target: "w", targetType: "worker", outcome: "ok" },
      { subject: "worker/t1/w", type: "audit.worker.kick", outcome: "ok", reason: "out" },
    ]);
    expect(await readAudits(harness, "t2")).toEqual([]);
  });
});
