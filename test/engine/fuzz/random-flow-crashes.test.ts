// Random workflows of nested containers on engines that die in the middle of turns, before a commit or after it and before any answer:
// the next engine on the same store brings each run to the end that the rules give.
import type { Store, TurnTransaction } from "@astraflow/engine";
import { MemoryCluster } from "@astraflow/store";
import { expect, it } from "vitest";
import { AutoWorkers, checkRun, resultOf, tasksBySlot, waitWhileTimePasses } from "../harness/auto-workers.ts";
import { EngineHarness } from "../harness/engine-harness.ts";
import { buildFlow } from "../harness/flow-builder.ts";
import { type FailureRule, FlowModel, randomFlow } from "../harness/flow-model.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";

const never = new Promise<never>(() => undefined);

/** A store that its engine is cut off from at a certain commit, as by kill -9. */
class KillableStore {
  readonly store: Store;
  readonly killed: Promise<void>;
  #commitsLeft: number;
  #isKilled = false;
  readonly #kill = Promise.withResolvers<void>();

  constructor(store: Store, commits: number, when: "before" | "after") {
    this.#commitsLeft = commits;
    this.killed = this.#kill.promise;
    const end = (): Promise<never> => {
      this.#isKilled = true;
      this.#kill.resolve();
      return never;
    };
    const mortal = (tx: TurnTransaction): TurnTransaction =>
      new Proxy(tx, {
        get: (_, name: keyof TurnTransaction) => {
          const value = tx[name];
          if (name !== "commit") return typeof value === "function" ? value.bind(tx) : value;
          const commit: TurnTransaction["commit"] = async (turn, units) => {
            if (this.#commitsLeft-- > 1) return await tx.commit(turn, units);
            if (when === "before") await tx.abort();
            else await tx.commit(turn, units);
            return await end();
          };
          return commit;
        },
      });
    this.store = {
      open: (me) => store.open(me),
      begin: async (want) => (this.#isKilled ? await never : mortal(await store.begin(want))),
      settle: (turn) => (this.#isKilled ? never : store.settle(turn)),
      onHint: (listener) => store.onHint(listener),
      remove: (slice) => (this.#isKilled ? never : store.remove(slice)),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    };
  }
}

class EngineLives {
  readonly random: FuzzRandom;
  readonly #cluster: MemoryCluster;
  readonly #fails: FailureRule;
  #now = 1_800_000_000_000;
  #life = 0;

  constructor(seed: number, fails: FailureRule) {
    this.random = new FuzzRandom(seed);
    this.#fails = fails;
    const clock = { wall: () => this.#now, mono: () => this.#now };
    this.#cluster = new MemoryCluster({ mode: this.random.pick(["strong", "weak"] as const), random: this.random, clock });
  }

  /** One engine's life with its workers, until `work` is done or the engine dies. */
  async runOnce(
    work: (harness: EngineHarness, autoWorkers: AutoWorkers) => Promise<void>,
    commits = 2 + this.random.integerBelow(12),
  ): Promise<boolean> {
    const handle = this.#cluster.createHandle();
    const killable = new KillableStore(handle, commits, this.random.pick(["before", "after"] as const));
    const harness = new EngineHarness({
      store: killable.store,
      settings: { sweepTasksMax: this.random.pick([2, 7, 500]), maxDeliveries: 1_000 },
    });
    this.#now += 40_000;
    const clock = { get: () => this.#now, set: (now: number) => void (this.#now = now) };
    Object.defineProperty(harness, "now", clock);
    const life = async (): Promise<boolean> => {
      await harness.start();
      const worker = await waitWhileTimePasses(harness, harness.joinWorker("w", { slots: 3, boot: `life-${++this.#life}` }));
      await work(harness, new AutoWorkers(harness, [worker], (dispatch, params) => this.#reply(dispatch.node, params)));
      return true;
    };
    const isDone = await Promise.race([life(), killable.killed.then(() => false)]);
    // One that did not die stops between two turns.
    if (isDone) await Promise.race([harness.engine.stop(), killable.killed]);
    await handle.close();
    return isDone;
  }

  #reply(node: string, params: Record<string, unknown>) {
    if (this.#fails(node, [])) return { fail: "E.RUNNER.FAILURE" };
    return { done: { out: "index" in params ? Number(params["index"]) + 1 : node } };
  }
}

it.for(Array.from({ length: 60 }, (_, at) => at + 1))(
  "[E39] a run continues from its last commit, whenever an engine dies (seed %i)",
  async (seed) => {
    const unlucky = new FuzzRandom(seed * 7);
    const bad = new Set(unlucky.chance(0.3) ? ["ba", "aab", "ca"] : []);
    const fails: FailureRule = (node) => bad.has(node);
    const lives = new EngineLives(seed, fails);
    const flowSpec = randomFlow(lives.random, 0);
    let run = "";
    await lives.runOnce(async (harness) => {
      run = await waitWhileTimePasses(harness, harness.startRun(buildFlow(flowSpec)));
    }, 1_000);

    let isOver = false;
    for (let life = 0; !isOver && life < 300; life++) {
      await lives.runOnce(async (harness, autoWorkers) => {
        for (let look = 0; look < 10; look++) {
          await autoWorkers.answerAll();
          await harness.advance(1_000);
        }
      });
      await lives.runOnce(async (harness) => {
        isOver = ["succeeded", "failed"].includes((await harness.runDetail(run)).run.phase);
      }, 1_000);
    }

    await lives.runOnce(async (harness) => {
      const { run: ended, tasks } = await checkRun(harness, run);
      const at = tasksBySlot(tasks);
      const found = ended.phase === "succeeded" ? flowSpec.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
      expect(found).toEqual(new FlowModel(fails).values(flowSpec, "", [], null));
    }, 1_000);
  },
);
