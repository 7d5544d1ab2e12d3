// Steering a run that is under way: leaving nodes out, trying them again now, moving work to another worker; and the audit of all that.

import type { AffectedTask, AnswerBody, Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, graph, Harness, nodeId, type Refused } from "./harness.ts";

/** A run, and whatever the engine makes of it before it rests. */
async function start(world: Harness, workflow: Record<string, unknown>): Promise<string> {
  const run = await world.run(workflow);
  await world.settle();
  return run;
}

const by = { tenant: "t1", by: "ada", corr: "req-9" } as const;
const skip = (run: string, node: string, changes: Partial<Command> = {}): Command =>
  ({ type: "run.skip", ...by, run, node, reason: "not needed", ...changes }) as Command;
const retry = (run: string, node: string): Command => ({ type: "run.retry", ...by, run, node, reason: "stuck" });
const rebind = (run: string, node: string | null, worker: string | null, mode: "switch" | "drain" = "switch"): Command => ({
  type: "run.rebind",
  ...by,
  run,
  node,
  worker,
  mode,
});

async function steer(world: Harness, command: Command): Promise<readonly AffectedTask[]> {
  const answer: AnswerBody = await world.ask(command);
  await world.settle();
  if (answer.of !== "steered") throw new Error("not steered");
  return answer.tasks;
}

const refusal = (answer: Promise<unknown>): Promise<Refused> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as Refused,
  );

async function phases(world: Harness, run: string): Promise<Record<string, string>> {
  const { run: row, tasks } = await world.detail(run);
  return { run: row.phase, ...Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase])) };
}

async function audits(world: Harness, tenant = "t1") {
  const page = await world.store.events({ tenant, after: 0, limit: 1_000, types: ["audit."] });
  return page.items.map(({ subject, type, data }) => ({ subject, type, ...data }));
}

describe("skip", () => {
  it("[E84] takes a running node from its worker, which is told to stop, and the run goes on behind it", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(2));
    const { fence, task } = worker.last;

    const steered = await steer(world, skip(run, nodeId(0)));

    expect(steered).toEqual([{ task: `${run}.0`, node: nodeId(0), from: "t1/w", to: null, sent: "stop", phase: "skipped" }]);
    expect(world.stops()).toMatchObject([{ task, fence, code: "E.RUNNER.CANCELLED" }]);
    expect(worker.last.node).toBe(nodeId(1));
    expect((await refusal(worker.done({}, { task, fence }))).code).toBe("E.RESULT.DUPLICATE");
    await worker.done({});
    expect(await phases(world, run)).toEqual({ run: "succeeded", 0: "skipped", 1: "succeeded" });
  });

  it("[E84] of a node that waits in line, for its retry or for a key ends it at once, and the key goes on", async () => {
    const world = await new Harness().start();
    const key = { concurrency: { key: "k" } };
    const run = await start(world, graph([{ policy: key }, { policy: key }, {}], [[1, 2]]));
    expect(await phases(world, run)).toMatchObject({ 0: "ready", 1: "parked" });

    await steer(world, skip(run, nodeId(0)));

    expect(await phases(world, run)).toMatchObject({ 0: "skipped", 1: "ready" });
    await steer(world, skip(run, `${run}.1`));
    await steer(world, skip(run, "2"));
    expect(await phases(world, run)).toMatchObject({ run: "succeeded", 2: "skipped" });
  });

  it("[E85] of a node that is not reached yet is remembered: those before it run, it does not, those after it do", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 4 });
    const run = await start(
      world,
      graph(
        [{}, {}, {}, {}],
        [
          [0, 2],
          [1, 2],
          [2, 3],
        ],
      ),
    );
    await worker.done({}, worker.sent[0]);
    await world.settle();

    const joined = await steer(world, skip(run, nodeId(2)));
    expect(joined).toMatchObject([{ task: `${run}.2`, sent: "none", phase: "waiting" }]);
    await worker.done({}, worker.sent[1]);
    await world.settle();

    expect(worker.last.node).toBe(nodeId(3));
    await worker.done({});
    expect(await phases(world, run)).toEqual({ run: "succeeded", 0: "succeeded", 1: "succeeded", 2: "skipped", 3: "succeeded" });
  });

  it("[E86] of what has ended, of a run that has, of a node that is not there is refused, each with its own code", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(2));
    await worker.done({});
    await world.settle();

    const ended = await refusal(world.ask(skip(run, nodeId(0))));
    const unknown = await refusal(world.ask(skip(run, nodeId(77))));
    await worker.done({});
    const over = await refusal(world.ask(skip(run, nodeId(1))));
    const foreign = await refusal(world.ask(skip(run, nodeId(1), { tenant: "t2" })));
    const missing = await refusal(world.ask(skip("nobody", nodeId(1))));

    expect(ended.fault).toMatchObject({ code: "E.TASK.ENDED", details: { phase: "succeeded" } });
    expect(unknown.code).toBe("E.NOT_FOUND");
    expect(over.fault).toMatchObject({ code: "E.RUN.TERMINAL", details: { phase: "succeeded" } });
    expect([foreign.code, missing.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND"]);
    expect(foreign.message.replace(run, "x")).toBe(missing.message.replace("nobody", "x"));
  });
});

describe("retry", () => {
  it("[E87] cuts the pause before the next attempt short", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 60_000 } } }));
    await worker.error("E.RUNNER.FAILURE");
    await world.settle();

    const steered = await steer(world, retry(run, nodeId(0)));

    expect(steered).toMatchObject([{ sent: "none", phase: "ready" }]);
    expect(worker.sent).toHaveLength(2);
    expect(worker.last.attempt).toBe(2);
  });

  it("[E87] takes a running attempt back under a new fence, and its worker is told to stop", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(1));
    const old = worker.last;

    const steered = await steer(world, retry(run, nodeId(0)));

    expect(steered).toMatchObject([{ from: "t1/w", sent: "stop" }]);
    expect(world.stops()).toMatchObject([{ task: old.task, fence: old.fence }]);
    expect(worker.last.fence).toBeGreaterThan(old.fence);
    expect((await refusal(worker.done({}, old))).code).toBe("E.SESSION.STALE_BINDING");
    await worker.done({});
    expect((await phases(world, run))["run"]).toBe("succeeded");
  });

  it("[E88] of a node that is not under way is refused, and of a run that failed with replay as the way out", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(2));

    const early = await refusal(world.ask(retry(run, nodeId(1))));
    await worker.error("E.RUNNER.FAILURE");
    const over = await refusal(world.ask(retry(run, nodeId(0))));

    expect(early.fault).toMatchObject({ code: "E.TASK.MOVE_REFUSED", details: { phase: "waiting" } });
    expect(over.code).toBe("E.RUN.TERMINAL");
    expect(over.message).toContain("replay");
  });
});

describe("rebind", () => {
  async function two(slots = 4): Promise<{ world: Harness; a: Crew; b: Crew }> {
    const world = await new Harness().start();
    return { world, a: await world.join("a", { slots }), b: await world.join("b", { slots, tags: { spare: "yes" } }) };
  }
  const other = ({ a, b }: { a: Crew; b: Crew }): [Crew, Crew] => (a.sent.length > 0 ? [a, b] : [b, a]);

  it("[E89] by switch takes what runs back and sends it to the worker that was named, and what follows too", async () => {
    const crew = await two();
    const { world } = crew;
    const run = await start(world, chain(3));
    const [from, to] = other(crew);

    const steered = await steer(world, rebind(run, null, to.worker));

    expect(steered).toEqual([
      { task: `${run}.0`, node: nodeId(0), from: from.worker, to: to.worker, sent: "stop", phase: "ready" },
    ]);
    expect(world.stops()).toMatchObject([{ worker: from.worker, task: `${run}.0` }]);
    for (let at = 0; at < 3; at++) {
      await to.done({});
      await world.settle();
    }
    expect(to.sent.map(({ node }) => node)).toEqual([nodeId(0), nodeId(1), nodeId(2)]);
    expect((await phases(world, run))["run"]).toBe("succeeded");
    const [fact] = (await world.store.events({ tenant: "t1", after: 0, limit: 100, types: ["run.rebound"] })).items;
    expect(fact?.data).toMatchObject({ by: "ada", mode: "switch", tasks: [{ task: `${run}.0`, to: to.worker, sent: "stop" }] });
  });

  it("[E89] by drain lets what runs end where it is; what follows goes to the worker that was named", async () => {
    const crew = await two();
    const { world } = crew;
    const run = await start(world, chain(2));
    const [from, to] = other(crew);

    const steered = await steer(world, rebind(run, null, to.worker, "drain"));
    await from.done({});
    await world.settle();

    expect(steered).toMatchObject([{ sent: "none", phase: "leased", to: from.worker }]);
    expect(world.stops()).toEqual([]);
    expect(to.last.node).toBe(nodeId(1));
  });

  it("[E89] without a worker goes anywhere but where it was, and back there only when nobody else can", async () => {
    const world = await new Harness().start();
    const from = await world.join("from", { slots: 9 });
    const run = await start(world, chain(2));
    const to = await world.join("to", { slots: 1 });

    await steer(world, rebind(run, null, null));

    expect(to.sent.map(({ run: of }) => of)).toEqual([run]);
    await world.ask({ type: "worker.drain", ...by, worker: to.worker, on: true });
    await to.done({});
    await world.settle();
    expect(from.sent).toHaveLength(1);
    await to.leave();
    await world.settle();
    expect(from.last.node).toBe(nodeId(1));
  });

  it("[E89] of one node moves that node alone, also before it is reached", async () => {
    const crew = await two();
    const { world } = crew;
    const run = await start(world, chain(3));
    const [from, to] = other(crew);

    await steer(world, rebind(run, nodeId(1), to.worker));
    await from.done({});
    await world.settle();
    expect(to.last.node).toBe(nodeId(1));
    await to.done({});
    await world.settle();

    expect((await phases(world, run))[2]).toBe("leased");
    expect(to.sent[0]?.node).toBe(nodeId(1));
    expect(from.sent[0]?.node).toBe(nodeId(0));
  });

  it("[E89] a worker that was named and is lost later holds nobody up", async () => {
    const crew = await two(1);
    const { world } = crew;
    const run = await start(world, chain(2));
    const [from, to] = other(crew);
    await steer(world, rebind(run, null, to.worker, "drain"));
    await to.leave();
    await from.done({});
    for (let at = 0; at < 33; at++) {
      await world.advance(1_000);
      await from.beat(null);
    }

    expect(from.last.node).toBe(nodeId(1));
  });

  it("[E89] of a run that the worker can serve only in part leaves the rest where it fits", async () => {
    const world = await new Harness().start();
    const gpu = await world.join("gpu", { pool: "gpu" });
    const plain = await world.join("plain", { slots: 2 });
    const run = await start(world, graph([{ policy: { pool: "gpu" } }, {}, { policy: { pool: "gpu" } }], [[0, 2]]));

    const steered = await steer(world, rebind(run, null, plain.worker));
    await gpu.done({});
    await world.settle();

    expect(steered.map(({ task }) => task)).toEqual([`${run}.1`]);
    expect(gpu.last.node).toBe(nodeId(2));
  });

  it("[E90] to a worker that is unknown, lost, or lacks what is needed is refused, naming what it lacks", async () => {
    const { world, a } = await two();
    const bare = await world.join("bare", { packages: [] });
    const gone = await world.join("gone");
    await gone.leave();
    for (let at = 0; at < 31; at++) {
      await world.advance(1_000);
      for (const crew of [a, bare]) await crew.beat(null);
    }
    const run = await start(world, chain(1));

    const unknown = await refusal(world.ask(rebind(run, null, "t1/nobody")));
    const foreign = await refusal(world.ask(rebind(run, null, "t2/w")));
    const lost = await refusal(world.ask(rebind(run, null, "t1/gone")));
    const unfit = await refusal(world.ask(rebind(run, nodeId(0), "t1/bare")));

    expect([unknown.code, foreign.code, lost.code]).toEqual(["E.NOT_FOUND", "E.NOT_FOUND", "E.WORKER.LOST"]);
    expect(unfit.fault).toMatchObject({ code: "E.DISPATCH.UNFIT", details: { misfit: { code: "package-missing" } } });
    expect((await world.detail(run)).run.marks).toBeNull();
  });
});

describe("the audit of steering", () => {
  it("[E83] names who, what, under which request and how it ended; a refusal too, and never of what is not the caller's", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await start(world, chain(2));
    await worker.done({});
    await world.settle();

    await refusal(world.ask(skip(run, nodeId(0))));
    await world.ask({ type: "run.cancel", ...by, run, reason: "enough" });
    await world.ask({ type: "worker.drain", ...by, worker: worker.worker, on: true });
    await world.ask({ type: "worker.kick", ...by, worker: worker.worker, reason: "out" });
    await refusal(world.ask(skip(run, nodeId(1), { tenant: "t2" })));
    await refusal(world.ask({ type: "worker.drain", ...by, tenant: "t2", worker: worker.worker, on: true }));

    expect(await audits(world)).toMatchObject([
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
    expect(await audits(world, "t2")).toEqual([]);
  });
});
