// Runs under random steering: keys, resources, skips, retries, rebinds, drains and lost workers in any order. Whatever was asked, every run
// comes to its end and nothing is left open.

import type { Command, TaskRow } from "@astraflow/engine";
import { createSeededRandom } from "@astraflow/protocol/testing";
import { describe, expect, it } from "vitest";
import { type Crew, graph, Harness, type Node, nodeId } from "./harness.ts";

/** 380: a task was moved into a line that the same turn had found empty, and was forgotten there. */
const seeds = [...Array.from({ length: 24 }, (_, at) => at + 1), 380];
const turnsMax = 20_000;
const names = ["w0", "w1", "w2"] as const;

class Storm {
  readonly world: Harness;
  readonly roll: (sides: number) => number;
  readonly crews = new Map<string, Crew>();
  readonly runs: string[] = [];
  readonly resources: string[] = [];
  readonly codes = new Set<string>();
  boots = 0;
  #turns = 0;

  constructor(seed: number) {
    this.roll = createSeededRandom(seed * 2_654_435_761 + 1);
    this.world = new Harness({
      cluster: { mode: seed % 2 === 0 ? "weak" : "strong", gate: ({ step }) => (step === "begin" ? this.#brake() : undefined) },
    });
  }

  /** An engine that turns on the spot would keep the test's own time limit from ever being heard. */
  #brake(): Promise<void> | undefined {
    return ++this.#turns < turnsMax ? undefined : new Promise(() => undefined);
  }

  async open(): Promise<void> {
    await this.world.start();
    for (const name of names) await this.join(name);
  }

  async join(name: string): Promise<void> {
    this.crews.set(name, await this.world.join(name, { slots: 2, boot: `${name}-${++this.boots}` }));
  }

  node(): Node {
    const retry = { retry: { maxAttempts: 2, backoffMs: 3_000 } };
    const resource = this.resources[this.roll(this.resources.length || 1)];
    switch (this.roll(6)) {
      case 0:
        return { policy: { ...retry, affinity: { key: `k${this.roll(3)}`, mode: "sticky", ttlSeconds: 20 } } };
      case 1:
        return { policy: { ...retry, affinity: { key: `p${this.roll(3)}`, mode: "preferred" } } };
      case 2:
        return resource === undefined ? {} : { params: { a: [{ resourceRef: { resourceId: resource } }] } };
      case 3:
        return { policy: { ...retry, concurrency: { key: "c" } } };
      default:
        return { policy: retry };
    }
  }

  async begin(): Promise<void> {
    const nodes = Array.from({ length: 1 + this.roll(5) }, () => this.node());
    const edges = nodes.flatMap((_, at) => (at > 0 && this.roll(4) > 0 ? [[this.roll(at), at] as const] : []));
    this.runs.push(await this.world.run(graph(nodes, edges)));
  }

  async leased(): Promise<TaskRow[]> {
    const found: TaskRow[] = [];
    for (const run of this.runs) found.push(...(await this.world.detail(run)).tasks.filter(({ phase }) => phase === "leased"));
    return found;
  }

  /** The holder of an attempt says how it ended. Refusals are part of the weather. */
  async answer(task: TaskRow, isFair: boolean): Promise<void> {
    const crew = this.crews.get(task.worker?.slice(3) ?? "");
    if (crew === undefined) return;
    const about = { tenant: "t1", worker: crew.worker, session: crew.session, task: task.id, fence: task.fence };
    if (!isFair && this.roll(5) === 0)
      return this.say({ type: "task.error", ...about, code: "E.RUNNER.FAILURE", message: "it broke" });
    const resource = `res-${task.id}`;
    const isLeaving = this.roll(3) === 0;
    if (isLeaving) this.resources.push(resource);
    await this.say({
      type: "task.result",
      ...about,
      status: "succeeded",
      result: "{}",
      error: null,
      durationMs: 1,
      ...(isLeaving ? { artifacts: [{ resource, type: "file" }] } : {}),
    });
  }

  async say(command: Command): Promise<void> {
    await this.world.ask(command).catch((problem: { code?: string }) => {
      if (problem.code === undefined || problem.code === "E.INTERNAL") throw problem;
      this.codes.add(problem.code);
    });
  }

  async steer(): Promise<void> {
    const run = this.runs[this.roll(this.runs.length)];
    if (run === undefined) return;
    const node = nodeId(this.roll(5));
    const base = { tenant: "t1", by: "ada", run } as const;
    const worker = this.roll(3) === 0 ? null : `t1/w${this.roll(4)}`;
    const commands: Command[] = [
      { type: "run.skip", ...base, node, reason: "dice" },
      { type: "run.retry", ...base, node, reason: "dice" },
      {
        type: "run.rebind",
        ...base,
        node: this.roll(2) === 0 ? null : node,
        worker,
        mode: this.roll(2) === 0 ? "switch" : "drain",
      },
    ];
    await this.say(commands[this.roll(3)] as Command);
  }

  async pass(seconds: number): Promise<void> {
    for (let at = 0; at < seconds; at++) {
      await this.world.advance(1_000);
      for (const crew of this.crews.values()) await this.say(beatOf(crew));
    }
  }

  async step(): Promise<void> {
    const name = names[this.roll(names.length)] as string;
    switch (this.roll(9)) {
      case 0:
      case 1:
        return this.begin();
      case 2:
      case 3:
      case 4: {
        const held = await this.leased();
        const task = held[this.roll(held.length || 1)];
        return task === undefined ? undefined : this.answer(task, false);
      }
      case 5:
        return this.steer();
      case 6: {
        const crew = this.crews.get(name);
        if (crew === undefined) return this.join(name);
        this.crews.delete(name);
        await crew.leave();
        return undefined;
      }
      case 7:
        return this.say({ type: "worker.drain", tenant: "t1", by: "ada", worker: `t1/${name}`, on: this.roll(2) === 0 });
      default:
        return this.pass(1 + this.roll(12));
    }
  }

  /** Fair weather until all is over. */
  async calm(): Promise<void> {
    for (const name of names) {
      if (!this.crews.has(name)) await this.join(name);
      await this.say({ type: "worker.drain", tenant: "t1", by: "ada", worker: `t1/${name}`, on: false });
    }
    for (let at = 0; at < 120; at++) {
      for (const task of await this.leased()) await this.answer(task, true);
      await this.pass(1);
    }
  }
}

const beatOf = (crew: Crew): Command => ({
  type: "worker.beat",
  tenant: "t1",
  worker: crew.worker,
  session: crew.session,
  healthy: true,
  held: null,
});

describe("random steering", () => {
  it("[E93] never leaves a run open, whatever was asked of it and whoever was lost", { timeout: 120_000 }, async () => {
    const left: string[] = [];
    const codes = new Set<string>();
    for (const seed of seeds) {
      const storm = new Storm(seed);
      await storm.open();
      for (let at = 0; at < 60; at++) await storm.step();
      await storm.calm();
      for (const run of storm.runs) {
        const { run: row, tasks } = await storm.world.detail(run);
        const isOver = row.endedAt !== null && row.open === 0 && tasks.every(({ endedAt }) => endedAt !== null);
        if (!isOver)
          left.push(`seed ${seed}: ${run} ${row.phase} ${row.open} ${tasks.map(({ phase, pin }) => `${phase}@${pin}`).join()}`);
      }
      left.push(...storm.world.problems.map(({ message }) => `seed ${seed}: ${message}`));
      for (const code of storm.codes) codes.add(code);
      await storm.world.engine.stop();
    }

    expect(left).toEqual([]);
    expect([...codes]).toEqual(expect.arrayContaining(["E.TASK.ENDED", "E.RUN.TERMINAL", "E.NOT_FOUND", "E.TASK.MOVE_REFUSED"]));
  });
});
