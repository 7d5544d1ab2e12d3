// Random chains under random workers: whatever the middlewares do and whoever falls over, a run ends, each call ran once, and no slot is
// given twice.
import { readTaskState, type TaskRow } from "@astraflow/engine";
import { MemoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";
import { addMiddlewares } from "../harness/middleware-chains.ts";
import { RandomMiddlewareWorkers } from "../harness/random-middleware-workers.ts";

const policy = { timeoutMs: 8_000, retry: { maxAttempts: 2, backoffMs: 100 }, maxDeliveries: 6 };

function randomChains(random: FuzzRandom): Record<string, unknown> {
  const length = 1 + random.integerBelow(3);
  let workflow = buildChain(length, { policy });
  for (let at = 0; at < length; at++)
    workflow = addMiddlewares(
      workflow,
      at,
      Array.from({ length: random.integerBelow(5) }, () => ({ policy })),
    );
  return workflow;
}

const hasEndedPhase = (phase: string): boolean => phase === "succeeded" || phase === "failed" || phase === "cancelled";

/** Each row that was called names its own request, and none was called by two. */
function checkCallerSlots(tasks: readonly TaskRow[]): void {
  const asked = tasks.flatMap((task) => {
    const { caller } = readTaskState(task);
    return caller === undefined ? [] : [`${caller.task}#${caller.fence} ${caller.request}`];
  });
  expect(new Set(asked).size).toBe(asked.length);
}

/** Engines one after another on one store. */
class RestartableEngine {
  world: EngineHarness | null = null;
  readonly #cluster: MemoryCluster;

  constructor(mode: "strong" | "weak") {
    const now = () => this.world?.now ?? firstInstant;
    this.#cluster = new MemoryCluster({ mode, random: { random: () => 0.5 }, clock: { wall: now, mono: now } });
  }

  async startNext(): Promise<EngineHarness> {
    const before = this.world;
    await before?.engine.stop();
    const harness = new EngineHarness({ store: this.#cluster.createHandle() });
    harness.now = before?.now ?? firstInstant;
    this.world = harness;
    return await harness.start();
  }
}

const firstInstant = 1_800_000_000_000;

async function runSeed(seed: number, restarts: number): Promise<"over"> {
  const random = new FuzzRandom(seed);
  const lives = new RestartableEngine(seed % 2 === 0 ? "strong" : "weak");
  let harness = await lives.startNext();
  const players = new RandomMiddlewareWorkers(harness, random);
  for (const name of ["a", "b", "c"].slice(0, 1 + random.integerBelow(3))) await players.join(name, 1 + random.integerBelow(2));
  const runs: string[] = [];
  for (let count = 1 + random.integerBelow(3); count > 0; count--) runs.push(await harness.startRun(randomChains(random)));
  if (random.chance(0.2)) cancelRandomRun(harness, runs, random);

  for (let life = 0; life <= restarts; life++) {
    for (let step = 0; step < 60 / (restarts + 1); step++) await players.randomStep();
    if (life < restarts) await players.joinEngine((harness = await lives.startNext()));
  }
  players.stopFaults();
  for (let step = 0; step < 400; step++) {
    await players.randomStep();
    if (step % 4 === 0) await players.time(700);
    if (players.isIdle && (await haveAllEnded(harness, runs))) break;
  }

  expect(players.violations).toEqual([]);
  expect(harness.problems).toEqual([]);
  for (const run of runs) {
    const detail = await harness.runDetail(run);
    expect([run, hasEndedPhase(detail.run.phase), detail.run.open]).toEqual([run, true, 0]);
    expect(detail.tasks.filter((task) => task.endedAt === null).map(({ id, phase }) => [id, phase])).toEqual([]);
    checkCallerSlots(detail.tasks);
    const inCalls =
      detail.run.phase === "succeeded" ? detail.tasks.filter((task) => (readTaskState(task).inCall ?? 0) !== 0) : [];
    expect(inCalls).toEqual([]);
    await checkCalls(harness, run, detail.run.phase);
  }
  expect(harness.engine.gauge().held).toBe(0);
  return "over";
}

function cancelRandomRun(harness: EngineHarness, runs: readonly string[], random: FuzzRandom): void {
  void harness.cancelUnlessEnded(random.pick(runs));
}

async function haveAllEnded(harness: EngineHarness, runs: readonly string[]): Promise<boolean> {
  for (const run of runs) if (!hasEndedPhase((await harness.runDetail(run)).run.phase)) return false;
  return true;
}

/** Every call was answered once, or its run was ended around it. */
async function checkCalls(harness: EngineHarness, run: string, phase: string): Promise<void> {
  const { items } = await harness.store.events({
    tenant: "t1",
    after: 0,
    limit: 10_000,
    subject: `run/${run}`,
    types: ["next."],
  });
  const asked = items.filter(({ type }) => type === "next.asked").map(({ data }) => data["target"]);
  const answered = items.filter(({ type }) => type === "next.answered").map(({ data }) => data["target"]);
  expect(new Set(asked).size).toBe(asked.length);
  expect(new Set(answered).size).toBe(answered.length);
  if (phase === "succeeded") expect(new Set(answered)).toEqual(new Set(asked));
}

describe("random chains", () => {
  for (const first of [1, 101])
    it(`[E74] runs with random middleware chains always end, with no call made or answered twice and no slot left held (seeds from ${first})`, async () => {
      for (let seed = first; seed < first + 80; seed++)
        expect([seed, await runSeed(seed, 0).catch(String)]).toEqual([seed, "over"]);
    }, 60_000);

  it("[E74] runs with random middleware chains always end, also when the engine restarts with open calls", async () => {
    for (let seed = 1_001; seed < 1_081; seed++) expect([seed, await runSeed(seed, 3).catch(String)]).toEqual([seed, "over"]);
  }, 60_000);
});
