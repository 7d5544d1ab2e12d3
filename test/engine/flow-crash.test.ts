// Random workflows of nested containers on engines that die in the middle of turns, before a commit or after it and before anybody heard:
// the next engine on the same store brings each run to the end that the rules say.
import type { Store, TurnTransaction } from "@astraflow/engine";
import { type MemoryCluster, memoryCluster } from "@astraflow/store";
import { expect, it } from "vitest";
import { flow } from "./flow-graph.ts";
import { type Fails, Model, randomShape } from "./flow-model.ts";
import { bySlot, checkRun, patiently, Robot, resultOf } from "./flow-robot.ts";
import { Harness } from "./harness.ts";
import { Dice } from "./weather-dice.ts";

const never = new Promise<never>(() => undefined);

/** A store that its engine is cut off from at a certain commit, as by kill -9. */
class Mortal {
  readonly store: Store;
  readonly died: Promise<void>;
  #left: number;
  #isDead = false;
  readonly #die = Promise.withResolvers<void>();

  constructor(store: Store, commits: number, when: "before" | "after") {
    this.#left = commits;
    this.died = this.#die.promise;
    const end = (): Promise<never> => {
      this.#isDead = true;
      this.#die.resolve();
      return never;
    };
    const mortal = (tx: TurnTransaction): TurnTransaction =>
      new Proxy(tx, {
        get: (_, name: keyof TurnTransaction) => {
          const value = tx[name];
          if (name !== "commit") return typeof value === "function" ? value.bind(tx) : value;
          const commit: TurnTransaction["commit"] = async (turn, units) => {
            if (this.#left-- > 1) return await tx.commit(turn, units);
            if (when === "before") await tx.abort();
            else await tx.commit(turn, units);
            return await end();
          };
          return commit;
        },
      });
    this.store = {
      open: (me) => store.open(me),
      begin: async (want) => (this.#isDead ? await never : mortal(await store.begin(want))),
      settle: (turn) => (this.#isDead ? never : store.settle(turn)),
      onHint: (hear) => store.onHint(hear),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    };
  }
}

class Lives {
  readonly dice: Dice;
  readonly #cluster: MemoryCluster;
  readonly #fails: Fails;
  #now = 1_800_000_000_000;
  #life = 0;

  constructor(seed: number, fails: Fails) {
    this.dice = new Dice(seed);
    this.#fails = fails;
    const clock = { wall: () => this.#now, mono: () => this.#now };
    this.#cluster = memoryCluster({ mode: this.dice.pick(["strong", "weak"] as const), dice: this.dice, clock });
  }

  /** One engine's life with its workers, until `work` is done or the engine dies. */
  async live(work: (world: Harness, robot: Robot) => Promise<void>, commits = 2 + this.dice.below(12)): Promise<boolean> {
    const handle = this.#cluster.handle();
    const mortal = new Mortal(handle, commits, this.dice.pick(["before", "after"] as const));
    const world = new Harness({
      store: mortal.store,
      settings: { sweepTasksMax: this.dice.pick([2, 7, 500]), maxDeliveries: 1_000 },
    });
    this.#now += 40_000;
    const clock = { get: () => this.#now, set: (now: number) => void (this.#now = now) };
    Object.defineProperty(world, "now", clock);
    const life = async (): Promise<boolean> => {
      await world.start();
      const crew = await patiently(world, world.join("w", { slots: 3, boot: `life-${++this.#life}` }));
      await work(world, new Robot(world, [crew], (dispatch, params) => this.#reply(dispatch.node, params)));
      return true;
    };
    const isDone = await Promise.race([life(), mortal.died.then(() => false)]);
    // One that did not die stops between two turns.
    if (isDone) await Promise.race([world.engine.stop(), mortal.died]);
    await handle.close();
    return isDone;
  }

  #reply(node: string, params: Record<string, unknown>) {
    if (this.#fails(node, [])) return { fail: "E.RUNNER.FAILURE" };
    return { done: { out: "index" in params ? Number(params["index"]) + 1 : node } };
  }
}

it.for(Array.from({ length: 60 }, (_, at) => at + 1))(
  "[E39] a run goes on where the last commit left it, whenever an engine dies (seed %i)",
  async (seed) => {
    const unlucky = new Dice(seed * 7);
    const bad = new Set(unlucky.chance(0.3) ? ["ba", "aab", "ca"] : []);
    const fails: Fails = (node) => bad.has(node);
    const lives = new Lives(seed, fails);
    const shape = randomShape(lives.dice, 0);
    let run = "";
    await lives.live(async (world) => {
      run = await patiently(world, world.run(flow(shape)));
    }, 1_000);

    let isOver = false;
    for (let life = 0; !isOver && life < 300; life++) {
      await lives.live(async (world, robot) => {
        for (let look = 0; look < 10; look++) {
          await robot.work();
          await world.advance(1_000);
        }
      });
      await lives.live(async (world) => {
        isOver = ["succeeded", "failed"].includes((await world.detail(run)).run.phase);
      }, 1_000);
    }

    await lives.live(async (world) => {
      const { run: ended, tasks } = await checkRun(world, run);
      const at = bySlot(tasks);
      const found = ended.phase === "succeeded" ? shape.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
      expect(found).toEqual(new Model(fails).values(shape, "", [], null));
    }, 1_000);
  },
);
