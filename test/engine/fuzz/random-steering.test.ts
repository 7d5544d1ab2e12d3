// Runs under random steering: keys, resources, skips, retries, rebinds, drains and lost workers in any order. Whatever was asked, every run
// comes to its end and nothing is left open.

import type { Command, TaskRow } from "@astraflow/engine";
import { createSeededRandom } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import { buildWorkflow, EngineHarness, type NodeSpec, nodeId, type TestWorker } from "../harness/engine-harness.ts";

/** 380: a task was moved into a line that the same turn had found empty, and was forgotten there. */
const seeds = [...Array.from({ length: 24 }, (_, at) => at + 1), 380];
const turnsMax = 20_000;
const names = ["w0", "w1", "w2"] as const;

class RandomSteering {
  readonly harness: EngineHarness;
  readonly randomBelow: (sides: number) => number;
  readonly workers = new Map<string, TestWorker>();
  readonly runs: string[] = [];
  readonly resources: string[] = [];
  readonly codes = new Set<string>();
  boots = 0;
  #turns = 0;

  constructor(seed: number) {
    this.randomBelow = createSeededRandom(seed * 2_654_435_761 + 1);
    this.harness = new EngineHarness({
      cluster: {
        mode: seed % 2 === 0 ? "weak" : "strong",
        pauseAt: ({ step }) => (step === "begin" ? this.#haltSpinningEngine() : undefined),
      },
    });
  }

  /** An engine that is stuck in a loop would keep the test's own timeout from firing. */
  #haltSpinningEngine(): Promise<void> | undefined {
    return ++this.#turns < turnsMax ? undefined : new Promise(() => undefined);
  }

  async start(): Promise<void> {
    await this.harness.start();
    for (const name of names) await this.joinWorker(name);
  }

  async joinWorker(name: string): Promise<void> {
    this.workers.set(name, await this.harness.joinWorker(name, { slots: 2, boot: `${name}-${++this.boots}` }));
  }

  randomNode(): NodeSpec {
    const retry = { retry: { maxAttempts: 2, backoffMs: 3_000 } };
    const resource = this.resources[this.randomBelow(this.resources.length || 1)];
    switch (this.randomBelow(6)) {
      case 0:
        return { policy: { ...retry, affinity: { key: `k${this.randomBelow(3)}`, mode: "sticky", ttlSeconds: 20 } } };
      case 1:
        return { policy: { ...retry, affinity: { key: `p${this.randomBelow(3)}`, mode: "preferred" } } };
      case 2:
        return resource === undefined ? {} : { params: { a: [{ resourceRef: { resourceId: resource } }] } };
      case 3:
        return { policy: { ...retry, concurrency: { key: "c" } } };
      default:
        return { policy: retry };
    }
  }

  async startRandomRun(): Promise<void> {
    const nodes = Array.from({ length: 1 + this.randomBelow(5) }, () => this.randomNode());
    const edges = nodes.flatMap((_, at) => (at > 0 && this.randomBelow(4) > 0 ? [[this.randomBelow(at), at] as const] : []));
    this.runs.push(await this.harness.startRun(buildWorkflow(nodes, edges)));
  }

  async leasedTasks(): Promise<TaskRow[]> {
    const found: TaskRow[] = [];
    for (const run of this.runs)
      found.push(...(await this.harness.runDetail(run)).tasks.filter(({ phase }) => phase === "leased"));
    return found;
  }

  /** The holder of an attempt reports how it ended. Refusals are expected. */
  async answerTask(task: TaskRow, isFair: boolean): Promise<void> {
    const crew = this.workers.get(task.worker?.slice(3) ?? "");
    if (crew === undefined) return;
    const about = { tenant: "t1", worker: crew.worker, session: crew.session, task: task.id, fence: task.fence };
    if (!isFair && this.randomBelow(5) === 0)
      return this.sendCommand({ type: "task.error", ...about, code: "E.RUNNER.FAILURE", message: "it broke" });
    const resource = `res-${task.id}`;
    const isLeaving = this.randomBelow(3) === 0;
    if (isLeaving) this.resources.push(resource);
    await this.sendCommand({
      type: "task.result",
      ...about,
      status: "succeeded",
      result: "{}",
      error: null,
      durationMs: 1,
      ...(isLeaving ? { artifacts: [{ resource, type: "file" }] } : {}),
    });
  }

  async sendCommand(command: Command): Promise<void> {
    await this.harness.ask(command).catch((problem: { code?: string }) => {
      if (problem.code === undefined || problem.code === "E.INTERNAL") throw problem;
      this.codes.add(problem.code);
    });
  }

  async steerRandomly(): Promise<void> {
    const run = this.runs[this.randomBelow(this.runs.length)];
    if (run === undefined) return;
    const node = nodeId(this.randomBelow(5));
    const base = { tenant: "t1", by: "ada", run } as const;
    const worker = this.randomBelow(3) === 0 ? null : `t1/w${this.randomBelow(4)}`;
    const commands: Command[] = [
      { type: "run.skip", ...base, node, reason: "dice" },
      { type: "run.retry", ...base, node, reason: "dice" },
      {
        type: "run.rebind",
        ...base,
        node: this.randomBelow(2) === 0 ? null : node,
        worker,
        mode: this.randomBelow(2) === 0 ? "switch" : "drain",
      },
    ];
    await this.sendCommand(commands[this.randomBelow(3)] as Command);
  }

  async passSeconds(seconds: number): Promise<void> {
    for (let at = 0; at < seconds; at++) {
      await this.harness.advance(1_000);
      for (const worker of this.workers.values()) await this.sendCommand(heartbeatCommand(worker));
    }
  }

  async randomStep(): Promise<void> {
    const name = names[this.randomBelow(names.length)] as string;
    switch (this.randomBelow(9)) {
      case 0:
      case 1:
        return this.startRandomRun();
      case 2:
      case 3:
      case 4: {
        const held = await this.leasedTasks();
        const task = held[this.randomBelow(held.length || 1)];
        return task === undefined ? undefined : this.answerTask(task, false);
      }
      case 5:
        return this.steerRandomly();
      case 6: {
        const crew = this.workers.get(name);
        if (crew === undefined) return this.joinWorker(name);
        this.workers.delete(name);
        await crew.disconnect();
        return undefined;
      }
      case 7:
        return this.sendCommand({
          type: "worker.drain",
          tenant: "t1",
          by: "ada",
          worker: `t1/${name}`,
          on: this.randomBelow(2) === 0,
        });
      default:
        return this.passSeconds(1 + this.randomBelow(12));
    }
  }

  /** No more faults, until all runs have ended. */
  async finishRuns(): Promise<void> {
    for (const name of names) {
      if (!this.workers.has(name)) await this.joinWorker(name);
      await this.sendCommand({ type: "worker.drain", tenant: "t1", by: "ada", worker: `t1/${name}`, on: false });
    }
    for (let at = 0; at < 120; at++) {
      for (const task of await this.leasedTasks()) await this.answerTask(task, true);
      await this.passSeconds(1);
    }
  }
}

const heartbeatCommand = (worker: TestWorker): Command => ({
  type: "worker.beat",
  tenant: "t1",
  worker: worker.worker,
  session: worker.session,
  healthy: true,
  held: null,
});

describe("random steering", () => {
  it("[E93] random steering never leaves a run open, whatever was requested and whichever worker was lost", {
    timeout: 120_000,
  }, async () => {
    const left: string[] = [];
    const codes = new Set<string>();
    for (const seed of seeds) {
      const steering = new RandomSteering(seed);
      await steering.start();
      for (let at = 0; at < 60; at++) await steering.randomStep();
      await steering.finishRuns();
      for (const run of steering.runs) {
        const { run: row, tasks } = await steering.harness.runDetail(run);
        const isOver = row.endedAt !== null && row.open === 0 && tasks.every(({ endedAt }) => endedAt !== null);
        if (!isOver)
          left.push(`seed ${seed}: ${run} ${row.phase} ${row.open} ${tasks.map(({ phase, pin }) => `${phase}@${pin}`).join()}`);
      }
      left.push(...steering.harness.problems.map(({ message }) => `seed ${seed}: ${message}`));
      for (const code of steering.codes) codes.add(code);
      await steering.harness.engine.stop();
    }

    expect(left).toEqual([]);
    expect([...codes]).toEqual(expect.arrayContaining(["E.TASK.ENDED", "E.RUN.TERMINAL", "E.NOT_FOUND", "E.TASK.MOVE_REFUSED"]));
  });
});
