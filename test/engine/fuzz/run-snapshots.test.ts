// A run as it was: what is folded from the log up to a position is what the run's detail showed at that position, for random
// workflows of containers and chains, with failures, losses and cancels.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { AutoWorkers, waitWhileTimePasses } from "../harness/auto-workers.ts";
import { buildChain, buildWorkflow, EngineHarness, nodeId, RefusedError, type TestWorker } from "../harness/engine-harness.ts";
import { buildFlow } from "../harness/flow-builder.ts";
import { randomFlow } from "../harness/flow-model.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";
import { addMiddlewares } from "../harness/middleware-chains.ts";
import { RandomMiddlewareWorkers } from "../harness/random-middleware-workers.ts";
import { endedPhases, RunSnapshotRecorder } from "../harness/run-snapshot-recorder.ts";

const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

describe("a run at an older position of the log", () => {
  it.for(seeds(25))(
    "[A280] a run read at an older log position equals its detail then: containers, failures, losses, cancels (seed %i)",
    async (seed) => {
      const random = new FuzzRandom(seed);
      const mode = random.pick(["strong", "weak"] as const);
      const harness = new EngineHarness({
        cluster: { mode, random, rates: mode === "weak" ? { busy: 0.02, fail: 0.02 } : {} },
        settings: { sweepTasksMax: random.pick([2, 5, 500]) },
      });
      await harness.start();
      const watch = new RunSnapshotRecorder(harness);
      const slots = random.pick([1, 3, 100]);
      const join = (name: string, boot: string) => waitWhileTimePasses(harness, harness.joinWorker(name, { slots, boot }));
      const autoWorkers = new AutoWorkers(harness, [await join("w0", "b0"), await join("w1", "b0")], () =>
        random.chance(0.1) ? { fail: "E.RUNNER.FAILURE" } : { done: { out: 1 } },
      );
      const run = await waitWhileTimePasses(harness, harness.startRun(buildFlow(randomFlow(random, 0, random.pick([0, 20])))));

      for (let look = 0; look < 400; look++) {
        if (endedPhases.includes(await watch.record(run))) break;
        await autoWorkers.answerAll(1 + random.integerBelow(4));
        await watch.record(run);
        if (random.chance(0.1)) {
          const at = random.integerBelow(2);
          if (autoWorkers.workers[at] !== undefined) await waitWhileTimePasses(harness, autoWorkers.workers[at].disconnect());
          autoWorkers.workers[at] = await join(`w${at}`, `b${look}`);
        } else if (random.chance(0.02)) await waitWhileTimePasses(harness, harness.cancelUnlessEnded(run));
        await harness.advance(random.pick([0, 1, 500]));
        for (const worker of autoWorkers.workers) await waitWhileTimePasses(harness, worker.heartbeat(null));
      }

      const { seen, shown } = await watch.readAgain();
      expect(shown).toEqual(seen);
      const { facts, rows } = await watch.compareFactsWithRows(run);
      expect(facts).toEqual(rows);
      await harness.engine.stop();
    },
  );

  it.for(seeds(25))(
    "[A280] a run read at an older log position equals its detail then: middleware chains whose workers fail (seed %i)",
    async (seed) => {
      const random = new FuzzRandom(seed + 500);
      const harness = await new EngineHarness().start();
      const watch = new RunSnapshotRecorder(harness);
      const players = new RandomMiddlewareWorkers(harness, random);
      const policy = { timeoutMs: 8_000, retry: { maxAttempts: 2, backoffMs: 100 }, maxDeliveries: 6 };
      for (const name of ["a", "b"]) await players.join(name, 1 + random.integerBelow(2));
      const length = 1 + random.integerBelow(3);
      let workflow = buildChain(length, { policy });
      for (let at = 0; at < length; at++) workflow = addMiddlewares(workflow, at, Array(random.integerBelow(4)).fill({ policy }));
      const run = await harness.startRun(workflow);

      for (let step = 0; step < 300; step++) {
        if (step === 60) players.stopFaults();
        await players.randomStep();
        if (endedPhases.includes(await watch.record(run))) break;
        if (step % 4 === 0) await players.time(700);
      }

      const { seen, shown } = await watch.readAgain();
      expect(shown).toEqual(seen);
      const { facts, rows } = await watch.compareFactsWithRows(run);
      expect(facts).toEqual(rows);
      await harness.engine.stop();
    },
  );

  it.for(seeds(25))(
    "[A280] a run read at an older log position equals its detail then: joins, keys, retry delays, feedback, skips and retries (seed %i)",
    async (seed) => {
      const random = new FuzzRandom(seed + 900);
      const harness = await new EngineHarness({ settings: { sweepTasksMax: random.pick([2, 500]) } }).start();
      const watch = new RunSnapshotRecorder(harness);
      const worker = await harness.joinWorker("w", { slots: 1 + random.integerBelow(4) });
      const size = 3 + random.integerBelow(8);
      const edges = Array.from({ length: size }, (_, to) => Array.from({ length: to }, (__, from) => [from, to] as const))
        .flat()
        .filter(() => random.chance(0.35));
      const nodes = Array.from({ length: size }, () => ({
        policy: {
          retry: { maxAttempts: 3, backoffMs: random.pick([0, 50]) },
          ...(random.chance(0.4) && { concurrency: { key: random.pick(["a", "b"]), limit: 1 } }),
        },
      }));
      const given = random.chance(0.5) ? { 0: { status: "succeeded", result: '{"out":1}', why: "pin" } as const } : null;
      const order = harness.startCommand(buildWorkflow(nodes, edges)) as Extract<Command, { type: "run.start" }>;
      const answer = await harness.ask(given === null ? order : { ...order, presetResults: given });
      const run = answer.of === "run" ? answer.run : "";

      for (let step = 0; step < 200; step++) {
        if (endedPhases.includes(await watch.record(run))) break;
        const held = worker.dispatchesSent.filter(() => random.chance(0.5));
        const one = held.at(-1);
        const orders = { tenant: "t1", by: "me", run, node: nodeId(random.integerBelow(size)), reason: "so it is" };
        const deed = random.pickWeighted({ work: 20, fail: 3, feedback: 6, time: 8, skip: 1, retry: 2, ack: 4 });
        if (deed === "time" || one === undefined) await harness.advance(random.pick([1, 60, 1_500]));
        else if (deed === "work") await ignoreRefusal(worker.succeed({ out: step }, one));
        else if (deed === "fail") await ignoreRefusal(worker.error("E.RUNNER.FAILURE", "no", one));
        else if (deed === "ack") await worker.ack(one);
        else if (deed === "skip") await ignoreRefusal(harness.ask({ type: "run.skip", ...orders }));
        else if (deed === "retry") await ignoreRefusal(harness.ask({ type: "run.retry", ...orders }));
        else
          await ignoreRefusal(
            harness.ask(feedback(worker, one, { stage: `s${step}`, progress: random.random(), metrics: { step } })),
          );
        await harness.settle();
        await worker.heartbeat(null);
      }

      const { seen, shown } = await watch.readAgain();
      expect(shown).toEqual(seen);
      const { facts, rows } = await watch.compareFactsWithRows(run);
      expect(facts).toEqual(rows);
      await harness.engine.stop();
    },
  );
});

/** What is over, or another's by now, is refused; the fuzz test expects that. */
async function ignoreRefusal(answer: Promise<unknown>): Promise<void> {
  await answer.catch((problem: unknown) => {
    if (!(problem instanceof RefusedError)) throw problem;
  });
}

const feedback = (
  worker: TestWorker,
  { task, fence }: { task: string; fence: number },
  data: Record<string, unknown>,
): Command => ({
  type: "task.feedback",
  tenant: "t1",
  worker: worker.worker,
  session: worker.session,
  task,
  fence,
  data,
});
