// Random workflows of nested containers through the real driver, compared with what the rules alone give: with nothing amiss, with failures,
// with workers that vanish, with cancels, on a store that is alone and on one that shows a row only when asked.
import { describe, expect, it } from "vitest";
import { AutoWorkers, checkRun, type Dispatch, resultOf, tasksBySlot, waitWhileTimePasses } from "../harness/auto-workers.ts";
import { EngineHarness, type TestWorker } from "../harness/engine-harness.ts";
import { buildFlow, type FlowSpec } from "../harness/flow-builder.ts";
import { type FailureRule, FlowModel, type IterationPath, randomFlow } from "../harness/flow-model.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";

const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);
const endedPhases = ["succeeded", "failed", "cancelled"];

/** A fixed toss for each leaf in each iteration and try. */
const randomFailures =
  (seed: number, share: number): FailureRule =>
  (node, path) => {
    let mixed = seed;
    for (const sign of `${node} ${path.map(({ index, tries }) => `${index}.${tries}`).join("/")}`)
      mixed = Math.imul(mixed ^ sign.charCodeAt(0), 0x5bd1e995) >>> 0;
    return new FuzzRandom(mixed).chance(share);
  };

class RandomFlowRun {
  readonly harness: EngineHarness;
  readonly random: FuzzRandom;
  readonly flow: FlowSpec;
  robot!: AutoWorkers;
  run = "";
  readonly #fails: FailureRule;
  readonly #iterations = new Map<string, { index: number; tries: number }>();

  constructor(seed: number, fails: FailureRule) {
    this.random = new FuzzRandom(seed);
    this.flow = randomFlow(this.random, 0, this.random.pick([0, 20]));
    this.#fails = fails;
    const mode = this.random.pick(["strong", "weak"] as const);
    const rates = mode === "weak" ? { busy: 0.02, fail: 0.02 } : {};
    this.harness = new EngineHarness({
      cluster: { mode, random: this.random, rates },
      settings: { sweepTasksMax: this.random.pick([2, 5, 500]) },
    });
  }

  async start(): Promise<this> {
    await this.harness.start();
    const slots = this.random.pick([1, 3, 100]);
    const workers = [await this.join("w0", { slots }), await this.join("w1", { slots })];
    this.robot = new AutoWorkers(this.harness, workers, (dispatch, params) => this.#reply(dispatch, params));
    this.run = await waitWhileTimePasses(this.harness, this.harness.startRun(buildFlow(this.flow)));
    return this;
  }

  join(name: string, about: { slots: number; boot?: string }): Promise<TestWorker> {
    return waitWhileTimePasses(this.harness, this.harness.joinWorker(name, about));
  }

  async #reply(dispatch: Dispatch, params: Record<string, unknown>) {
    if (this.#fails(dispatch.node, await this.#pathOf(dispatch))) return { fail: "E.RUNNER.FAILURE" };
    return { done: { out: "index" in params ? Number(params["index"]) + 1 : dispatch.node } };
  }

  async #pathOf({ task }: Dispatch): Promise<IterationPath> {
    const ids = [...task.matchAll(/\*\d+(?=\/)/g)].map(({ index, 0: text }) => task.slice(0, index + text.length));
    return await Promise.all(ids.map((id) => this.#iterationOf(id)));
  }

  async #iterationOf(task: string): Promise<{ index: number; tries: number }> {
    const known = this.#iterations.get(task);
    if (known !== undefined) return known;
    const page = await this.harness.store.page({ page: "task", tenant: "t1", task });
    const { frame } = JSON.parse(page.task?.state ?? "{}") as { frame: { index: number; tries: number } };
    this.#iterations.set(task, frame);
    return frame;
  }

  /** Until the run is over; `between` may do harm. */
  async finish(between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    for (let look = 0; look < 400; look++) {
      await this.robot.answerAll(1 + this.random.integerBelow(8));
      await between();
      const { run } = await this.harness.runDetail(this.run);
      if (endedPhases.includes(run.phase)) return;
      await this.harness.advance(this.random.pick([0, 1, 500]));
      for (const worker of this.robot.workers) await waitWhileTimePasses(this.harness, worker.heartbeat(null));
    }
    throw new Error(`run ${this.run} did not end: ${JSON.stringify(await this.harness.runDetail(this.run), null, 1)}`);
  }

  /** How the run ended, and how it must have by the rules: its phase, and the results of its nodes where it succeeded. */
  async compare(): Promise<{ found: RunOutcome; model: RunOutcome; ran: string[] }> {
    const { run, tasks } = await checkRun(this.harness, this.run);
    const model = new FlowModel(this.#fails);
    const values = model.values(this.flow, "", [], null);
    const at = tasksBySlot(tasks);
    const found = run.phase === "succeeded" ? this.flow.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
    return {
      found: { phase: run.phase, values: found },
      model: { phase: values === null ? "failed" : "succeeded", values },
      ran: model.stepsRun,
    };
  }
}

interface RunOutcome {
  readonly phase: string;
  readonly values: unknown[] | null;
}

describe("random workflows of nested containers", () => {
  it.for(seeds(60))(
    "[E38] random nested workflows run every leaf as often as their loops require, with ordered results (seed %i)",
    async (seed) => {
      const flowRun = await new RandomFlowRun(seed, () => false).start();

      await flowRun.finish();

      const { found, model, ran } = await flowRun.compare();
      expect(found).toEqual(model);
      expect(flowRun.robot.dispatchesSeen.map(({ node }) => node).sort()).toEqual(ran.sort());
    },
  );

  it.for(seeds(80))("[E38] random nested workflows end as the rules require when leaves fail (seed %i)", async (seed) => {
    const flowRun = await new RandomFlowRun(seed + 1_000, randomFailures(seed, 0.15)).start();

    await flowRun.finish();

    const { found, model } = await flowRun.compare();
    expect(found).toEqual(model);
  });

  it.for(seeds(60))(
    "[E38] random nested workflows end as the rules require, whichever worker vanishes and whenever they are cancelled (seed %i)",
    async (seed) => {
      const flowRun = await new RandomFlowRun(seed + 2_000, randomFailures(seed, 0.05)).start();
      const { harness, robot: autoWorkers, random } = flowRun;
      let losses = 0;
      let isCancelled = false;

      await flowRun.finish(async () => {
        if (losses < 3 && random.chance(0.3)) {
          losses++;
          const at = random.integerBelow(2);
          if (autoWorkers.workers[at] !== undefined) await waitWhileTimePasses(harness, autoWorkers.workers[at].disconnect());
          autoWorkers.workers[at] = await flowRun.join(`w${at}`, { slots: 3, boot: `boot-${losses}` });
        } else if (!isCancelled && random.chance(0.05)) {
          isCancelled = true;
          await waitWhileTimePasses(harness, harness.cancelUnlessEnded(flowRun.run));
        }
      });

      const { found, model } = await flowRun.compare();
      // A cancel that came too late changed nothing.
      expect(found).toEqual(found.phase === "cancelled" && isCancelled ? { phase: "cancelled", values: null } : model);
    },
  );
});
