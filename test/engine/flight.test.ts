// Turns whose commits are under way together: on different roots they do not wait for each other, on one root they do, and they are
// heard of in the order in which they were decided. Bad weather flies them too (weather.test.ts).
import type { Command, CommandAnswer, RowKey } from "@astraflow/engine";
import type { MemoryClusterOptions } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { chain, graph, type Harness } from "./harness.ts";
import { answersOf, passThrough, Stage } from "./mended-stage.ts";

const drain = async (): Promise<void> => {
  for (let round = 0; round < 5; round++) await new Promise<void>((resolve) => setImmediate(resolve));
};

/** Commits wait, in the order they came, until the test lets them through. */
async function airport(turnsInFlight: number, options: Partial<MemoryClusterOptions> = {}) {
  const waiting: (() => void)[] = [];
  let isHolding = false;
  const stage = new Stage({
    mode: "weak",
    gate: ({ step }) => (step === "commit" && isHolding ? new Promise<void>((resolve) => void waiting.push(resolve)) : undefined),
    ...options,
  });
  const begun: (readonly RowKey[])[] = [];
  const world = await stage.boot("r1", {
    settings: { turnsInFlight },
    wrap: (store) =>
      passThrough(store, {
        begin(want) {
          begun.push(want.rows);
          return store.begin(want);
        },
      }),
  });
  return {
    /** The rows each turn asked for. */
    begun,
    stage,
    world,
    waiting,
    hold: () => {
      isHolding = true;
    },
    /** Lets one commit through. */
    async pass(at = 0) {
      waiting.splice(at, 1)[0]?.();
      await drain();
    },
  };
}

const runsOf = (world: Harness): (string | undefined)[] =>
  answersOf(world).map(({ body }: CommandAnswer) => (body?.of === "run" ? body.run : undefined));
const ask = (world: Harness, command: Command): void => world.engine.push([{ ref: 1_000 + world.effects.length, command }]);

describe("turns in flight", () => {
  it("[U12] turns on different roots commit side by side, as many as are allowed and no more", async () => {
    const { world, waiting, hold } = await airport(3);
    await world.run(chain(1));
    hold();

    for (let order = 0; order < 5; order++) {
      ask(world, world.order(chain(1)));
      await drain();
    }

    expect(waiting).toHaveLength(3);
    expect(answersOf(world)).toHaveLength(1);
  });

  it("[U12] with one turn allowed the next begins when the last is on disk", async () => {
    const { world, waiting, hold, pass } = await airport(1);
    hold();
    for (let order = 0; order < 3; order++) {
      ask(world, world.order(chain(1)));
      await drain();
    }
    expect(waiting).toHaveLength(1);

    await pass();

    expect(answersOf(world)).toHaveLength(1);
    expect(waiting).toHaveLength(1);
  });

  it("[U12] turns are heard of in the order they were decided, though a later one is on disk first", async () => {
    const { world, hold, pass } = await airport(3);
    const first = await world.run(chain(1));
    hold();
    for (let order = 0; order < 3; order++) {
      ask(world, world.order(chain(1)));
      await drain();
    }

    await pass(2);
    await pass(1);
    expect(runsOf(world)).toEqual([first]);
    await pass(0);

    const runs = runsOf(world);
    expect(runs).toHaveLength(4);
    expect(runs.toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual(runs);
  });

  it("[U12] a command on a root that is in the air waits for it, in its order", async () => {
    const { world, waiting, hold, pass, begun } = await airport(3);
    const run = await world.run(chain(1));
    begun.length = 0;
    hold();
    ask(world, { type: "run.cancel", tenant: "t1", by: "me", run, reason: "one" });
    await drain();
    ask(world, { type: "run.cancel", tenant: "t1", by: "me", run, reason: "two" });
    ask(world, world.order(chain(2)));
    await drain();
    expect(waiting).toHaveLength(2);
    expect(begun.filter((rows) => rows.includes(`run/${run}`))).toHaveLength(1);

    await pass();
    await pass();
    await pass();

    expect(answersOf(world).every((answer) => answer.fault === null)).toBe(true);
    expect((await world.facts()).filter((type) => type === "run.cancelled")).toHaveLength(1);
  });

  it("[U12] several turns in the air may grant to one worker", async () => {
    const { stage, world, hold, pass, waiting } = await airport(3);
    const worker = await world.join("w", { slots: 4 });
    await world.run(graph([{}, {}], []));
    await stage.pass(1);
    for (const dispatch of worker.sent) await worker.done({}, dispatch);
    hold();
    for (let order = 0; order < 2; order++) {
      ask(world, world.order(graph([{}, {}], [])));
      await drain();
    }
    expect(waiting).toHaveLength(2);

    await pass();
    await pass();

    expect(worker.sent).toHaveLength(6);
    expect(waiting).toHaveLength(0);
  });

  it("[U12] a heartbeat waits for the turns that concern its worker, which gets nothing more until it has been heard", async () => {
    const { stage, world, hold, pass, waiting } = await airport(3);
    const worker = await world.join("w", { slots: 4 });
    await world.run(graph([{}, {}], []));
    await stage.pass(1);
    for (const dispatch of worker.sent) await worker.done({}, dispatch);
    hold();
    ask(world, world.order(graph([{}, {}], [])));
    await drain();
    const { worker: id, session } = worker;
    world.engine.push([
      { ref: 903, command: { type: "worker.beat", tenant: "t1", worker: id, session, healthy: true, held: [] } },
    ]);
    ask(world, world.order(graph([{}, {}], [])));
    await drain();
    expect(waiting).toHaveLength(2);

    await pass(1);
    await pass(0);
    expect(worker.sent).toHaveLength(4);
    while (waiting.length > 0) await pass();

    expect(answersOf(world).find((answer) => answer.ref === 903)?.fault).toBeNull();
    expect(worker.sent).toHaveLength(6);
  });

  it("[U12] a worker never gets more than its slots while grants are in the air", async () => {
    const { stage, world, hold, pass, waiting } = await airport(4);
    const worker = await world.join("w", { slots: 2 });
    hold();
    for (let order = 0; order < 4; order++) {
      ask(world, world.order(graph([{}, {}], [])));
      await drain();
    }
    while (waiting.length > 0) await pass(waiting.length - 1);
    for (let second = 0; second < 3; second++) {
      await stage.pass(1);
      while (waiting.length > 0) await pass();
    }

    expect(worker.sent).toHaveLength(2);
  });

  it("[U12] nor while they are on disk and not heard of yet", async () => {
    const { stage, world, hold, pass, waiting } = await airport(4);
    const worker = await world.join("w", { slots: 2 });
    await world.run(graph([{}, {}], []));
    await stage.pass(1);
    for (const dispatch of worker.sent) await worker.done({}, dispatch);
    hold();
    // Nobody here can run the first order, so it leaves the worker alone; the second takes both slots and is on disk before it.
    ask(world, world.order(chain(1, { policy: { pool: "elsewhere" } })));
    await drain();
    ask(world, world.order(graph([{}, {}], [])));
    await drain();
    await pass(1);

    ask(world, world.order(graph([{}, {}], [])));
    await drain();
    while (waiting.length > 0) await pass();

    expect(worker.sent).toHaveLength(4);
  });

  it("[U12] an ack in the air keeps its grant from being revoked", async () => {
    const { stage, world, hold, pass, waiting } = await airport(2);
    const worker = await world.join("w", { slots: 1 });
    await world.run(chain(1));
    await stage.pass(1);
    const sent = worker.last;
    hold();
    // Shares its turn with an order, so it is not on disk before that is.
    world.engine.push([
      { ref: 900, command: world.order(chain(2)) },
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
    await drain();
    expect(waiting).toHaveLength(1);

    stage.skip(6_000);
    ask(world, world.order(chain(3)));
    await drain();
    while (waiting.length > 0) await pass();
    await stage.pass(1);
    while (waiting.length > 0) await pass();

    expect((await world.facts()).filter((type) => type === "task.requeued")).toEqual([]);
  });

  it("[U12] a task put into a line by a turn in the air is not forgotten by a later turn that found the line empty", async () => {
    const { stage, world, hold, pass, waiting } = await airport(3);
    const worker = await world.join("w", { slots: 1 });
    const first = await world.run(chain(1));
    await stage.pass(1);
    hold();
    // The slot is taken, so this task goes into its line; the next turn claims that line before it is visible.
    ask(world, world.order(chain(1)));
    await drain();
    world.engine.push([
      { ref: 902, command: { ...done(worker.last), tenant: "t1", worker: worker.worker, session: worker.session } },
    ]);
    await drain();
    while (waiting.length > 0) await pass(waiting.length - 1);
    await drain();
    while (waiting.length > 0) await pass();

    expect(worker.sent).toHaveLength(2);
    expect(worker.last.run).not.toBe(first);
  });

  it("[U12] a commit that fails puts its commands back in their order, and the turns behind it are not harmed", async () => {
    const fates = new Map<number, "failed">([[2, "failed"]]);
    const { world, stage, hold, pass, waiting } = await airport(3, {
      script: ({ turn }) => {
        const fate = fates.get(turn);
        fates.delete(turn);
        return fate;
      },
    });
    await world.run(chain(1));
    hold();
    for (let order = 0; order < 3; order++) {
      ask(world, world.order(chain(order + 1)));
      await drain();
    }
    for (let second = 0; second < 4; second++) {
      while (waiting.length > 0) await pass();
      await stage.pass(1);
    }

    expect(answersOf(world).map((answer) => answer.fault)).toEqual([null, null, null, null]);
    expect((await world.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(4);
  });
});

const done = ({ task, fence }: { task: string; fence: number }) =>
  ({
    type: "task.result",
    task,
    fence,
    status: "succeeded",
    result: "{}",
    error: null,
    durationMs: 1,
  }) as const;
