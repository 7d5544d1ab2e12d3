// Random chains under random workers: whatever the middlewares do and whoever falls over, a run ends, each call ran once, and no slot is
// given twice.
import { readTaskState, type TaskRow } from "@astraflow/engine";
import { type MemoryCluster, memoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { Players } from "./chains-robot.ts";
import { wrapped } from "./chains-stage.ts";
import { chain, Harness } from "./harness.ts";
import { Dice } from "./weather-dice.ts";

const policy = { timeoutMs: 8_000, retry: { maxAttempts: 2, backoffMs: 100 }, maxDeliveries: 6 };

function randomChains(dice: Dice): Record<string, unknown> {
  const length = 1 + dice.below(3);
  let drawn = chain(length, { policy });
  for (let at = 0; at < length; at++)
    drawn = wrapped(
      drawn,
      at,
      Array.from({ length: dice.below(5) }, () => ({ policy })),
    );
  return drawn;
}

const isOver = (phase: string): boolean => phase === "succeeded" || phase === "failed" || phase === "cancelled";

/** Each row that was called names its own request, and none was called by two. */
function checkCallers(tasks: readonly TaskRow[]): void {
  const asked = tasks.flatMap((task) => {
    const { caller } = readTaskState(task);
    return caller === undefined ? [] : [`${caller.task}#${caller.fence} ${caller.request}`];
  });
  expect(new Set(asked).size).toBe(asked.length);
}

/** Engines one after another on one store. */
class Lives {
  world: Harness | null = null;
  readonly #cluster: MemoryCluster;

  constructor(mode: "strong" | "weak") {
    const now = () => this.world?.now ?? firstInstant;
    this.#cluster = memoryCluster({ mode, dice: { roll: () => 0.5 }, clock: { wall: now, mono: now } });
  }

  async next(): Promise<Harness> {
    const before = this.world;
    await before?.engine.stop();
    const world = new Harness({ store: this.#cluster.handle() });
    world.now = before?.now ?? firstInstant;
    this.world = world;
    return await world.start();
  }
}

const firstInstant = 1_800_000_000_000;

async function play(seed: number, restarts: number): Promise<"over"> {
  const dice = new Dice(seed);
  const lives = new Lives(seed % 2 === 0 ? "strong" : "weak");
  let world = await lives.next();
  const players = new Players(world, dice);
  for (const name of ["a", "b", "c"].slice(0, 1 + dice.below(3))) await players.join(name, 1 + dice.below(2));
  const runs: string[] = [];
  for (let count = 1 + dice.below(3); count > 0; count--) runs.push(await world.run(randomChains(dice)));
  if (dice.chance(0.2)) setCancel(world, runs, dice);

  for (let life = 0; life <= restarts; life++) {
    for (let step = 0; step < 60 / (restarts + 1); step++) await players.step();
    if (life < restarts) await players.moveTo((world = await lives.next()));
  }
  players.calm();
  for (let step = 0; step < 400; step++) {
    await players.step();
    if (step % 4 === 0) await players.time(700);
    if (players.isIdle && (await allOver(world, runs))) break;
  }

  expect(players.complaints).toEqual([]);
  expect(world.problems).toEqual([]);
  for (const run of runs) {
    const detail = await world.detail(run);
    expect([run, isOver(detail.run.phase), detail.run.open]).toEqual([run, true, 0]);
    expect(detail.tasks.filter((task) => task.endedAt === null).map(({ id, phase }) => [id, phase])).toEqual([]);
    checkCallers(detail.tasks);
    const inCalls =
      detail.run.phase === "succeeded" ? detail.tasks.filter((task) => (readTaskState(task).inCall ?? 0) !== 0) : [];
    expect(inCalls).toEqual([]);
    await checkCalls(world, run, detail.run.phase);
  }
  expect(world.engine.gauge().held).toBe(0);
  return "over";
}

function setCancel(world: Harness, runs: readonly string[], dice: Dice): void {
  void world.ask({ type: "run.cancel", tenant: "t1", by: "me", run: dice.pick(runs), reason: "changed my mind" });
}

async function allOver(world: Harness, runs: readonly string[]): Promise<boolean> {
  for (const run of runs) if (!isOver((await world.detail(run)).run.phase)) return false;
  return true;
}

/** Every call was answered once, or its run was ended around it. */
async function checkCalls(world: Harness, run: string, phase: string): Promise<void> {
  const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 10_000, subject: `run/${run}`, types: ["next."] });
  const asked = items.filter(({ type }) => type === "next.asked").map(({ data }) => data["target"]);
  const answered = items.filter(({ type }) => type === "next.answered").map(({ data }) => data["target"]);
  expect(new Set(asked).size).toBe(asked.length);
  expect(new Set(answered).size).toBe(answered.length);
  if (phase === "succeeded") expect(new Set(answered)).toEqual(new Set(asked));
}

describe("random chains", () => {
  for (const first of [1, 101])
    it(`[E74] always end, call by call and slot by slot (seeds from ${first})`, async () => {
      for (let seed = first; seed < first + 80; seed++) expect([seed, await play(seed, 0).catch(String)]).toEqual([seed, "over"]);
    }, 60_000);

  it("[E74] always end, also where the engine is started anew with calls open", async () => {
    for (let seed = 1_001; seed < 1_081; seed++) expect([seed, await play(seed, 3).catch(String)]).toEqual([seed, "over"]);
  }, 60_000);
});
