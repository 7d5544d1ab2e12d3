// Random workflows of nested containers through the real driver, compared with what the rules alone say: with nothing amiss, with failures,
// with workers that vanish, with cancels, on a store that is alone and on one that shows a row only when asked.
import { describe, expect, it } from "vitest";
import { flow, type Shape } from "./flow-graph.ts";
import { type Fails, Model, type Path, randomShape } from "./flow-model.ts";
import { bySlot, checkRun, type Dispatch, patiently, Robot, resultOf } from "./flow-robot.ts";
import { type Crew, Harness } from "./harness.ts";
import { Dice } from "./weather-dice.ts";

const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);
const over = ["succeeded", "failed", "cancelled"];

/** A fixed toss for each leaf in each iteration and try. */
const tosses =
  (seed: number, share: number): Fails =>
  (node, path) => {
    let mixed = seed;
    for (const sign of `${node} ${path.map(({ index, tries }) => `${index}.${tries}`).join("/")}`)
      mixed = Math.imul(mixed ^ sign.charCodeAt(0), 0x5bd1e995) >>> 0;
    return new Dice(mixed).chance(share);
  };

class Scene {
  readonly world: Harness;
  readonly dice: Dice;
  readonly shape: Shape;
  robot!: Robot;
  run = "";
  readonly #fails: Fails;
  readonly #frames = new Map<string, { index: number; tries: number }>();

  constructor(seed: number, fails: Fails) {
    this.dice = new Dice(seed);
    this.shape = randomShape(this.dice, 0, this.dice.pick([0, 20]));
    this.#fails = fails;
    const mode = this.dice.pick(["strong", "weak"] as const);
    const rates = mode === "weak" ? { busy: 0.02, fail: 0.02 } : {};
    this.world = new Harness({
      cluster: { mode, dice: this.dice, rates },
      settings: { sweepTasksMax: this.dice.pick([2, 5, 500]) },
    });
  }

  async start(): Promise<this> {
    await this.world.start();
    const slots = this.dice.pick([1, 3, 100]);
    const crews = [await this.join("w0", { slots }), await this.join("w1", { slots })];
    this.robot = new Robot(this.world, crews, (dispatch, params) => this.#reply(dispatch, params));
    this.run = await patiently(this.world, this.world.run(flow(this.shape)));
    return this;
  }

  join(name: string, about: { slots: number; boot?: string }): Promise<Crew> {
    return patiently(this.world, this.world.join(name, about));
  }

  async #reply(dispatch: Dispatch, params: Record<string, unknown>) {
    if (this.#fails(dispatch.node, await this.#pathOf(dispatch))) return { fail: "E.RUNNER.FAILURE" };
    return { done: { out: "index" in params ? Number(params["index"]) + 1 : dispatch.node } };
  }

  async #pathOf({ task }: Dispatch): Promise<Path> {
    const ids = [...task.matchAll(/\*\d+(?=\/)/g)].map(({ index, 0: text }) => task.slice(0, index + text.length));
    return await Promise.all(ids.map((id) => this.#frameOf(id)));
  }

  async #frameOf(task: string): Promise<{ index: number; tries: number }> {
    const known = this.#frames.get(task);
    if (known !== undefined) return known;
    const page = await this.world.store.page({ page: "task", tenant: "t1", task });
    const { frame } = JSON.parse(page.task?.state ?? "{}") as { frame: { index: number; tries: number } };
    this.#frames.set(task, frame);
    return frame;
  }

  /** Until the run is over; `between` may do harm. */
  async finish(between: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    for (let look = 0; look < 400; look++) {
      await this.robot.work(1 + this.dice.below(8));
      await between();
      const { run } = await this.world.detail(this.run);
      if (over.includes(run.phase)) return;
      await this.world.advance(this.dice.pick([0, 1, 500]));
      for (const crew of this.robot.crews) await patiently(this.world, crew.beat(null));
    }
    throw new Error(`run ${this.run} did not end: ${JSON.stringify(await this.world.detail(this.run), null, 1)}`);
  }

  /** How the run ended, and how it must have by the rules: its phase, and the results of its nodes where it succeeded. */
  async compare(): Promise<{ found: Outcome; model: Outcome; ran: string[] }> {
    const { run, tasks } = await checkRun(this.world, this.run);
    const model = new Model(this.#fails);
    const values = model.values(this.shape, "", [], null);
    const at = bySlot(tasks);
    const found = run.phase === "succeeded" ? this.shape.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
    return {
      found: { phase: run.phase, values: found },
      model: { phase: values === null ? "failed" : "succeeded", values },
      ran: model.ran,
    };
  }
}

interface Outcome {
  readonly phase: string;
  readonly values: unknown[] | null;
}

describe("random workflows of nested containers", () => {
  it.for(seeds(60))("[E38] run every leaf as often as the loops say, with ordered results (seed %i)", async (seed) => {
    const scene = await new Scene(seed, () => false).start();

    await scene.finish();

    const { found, model, ran } = await scene.compare();
    expect(found).toEqual(model);
    expect(scene.robot.seen.map(({ node }) => node).sort()).toEqual(ran.sort());
  });

  it.for(seeds(80))("[E38] come to the end that the rules say when leaves fail (seed %i)", async (seed) => {
    const scene = await new Scene(seed + 1_000, tosses(seed, 0.15)).start();

    await scene.finish();

    const { found, model } = await scene.compare();
    expect(found).toEqual(model);
  });

  it.for(seeds(60))("[E38] end whole whoever vanishes and whenever they are cancelled (seed %i)", async (seed) => {
    const scene = await new Scene(seed + 2_000, tosses(seed, 0.05)).start();
    const { world, robot, dice } = scene;
    let losses = 0;
    let isCancelled = false;

    await scene.finish(async () => {
      if (losses < 3 && dice.chance(0.3)) {
        losses++;
        const at = dice.below(2);
        if (robot.crews[at] !== undefined) await patiently(world, robot.crews[at].leave());
        robot.crews[at] = await scene.join(`w${at}`, { slots: 3, boot: `boot-${losses}` });
      } else if (!isCancelled && dice.chance(0.05)) {
        isCancelled = true;
        await patiently(world, world.ask({ type: "run.cancel", tenant: "t1", by: "me", run: scene.run, reason: "enough" }));
      }
    });

    const { found, model } = await scene.compare();
    // A cancel that came too late changed nothing.
    expect(found).toEqual(found.phase === "cancelled" && isCancelled ? { phase: "cancelled", values: null } : model);
  });
});
