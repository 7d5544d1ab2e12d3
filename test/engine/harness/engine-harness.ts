// Fixture for engine tests: a memory store, a manual clock, and workers that the test controls.
// The real driver and core run in it; only the outside is simulated.

import { createHash } from "node:crypto";
import {
  type AnswerBody,
  type AttemptRef,
  type Command,
  createEngine,
  defaultSettings,
  type Effect,
  type Engine,
  type EngineProblem,
  type EngineSettings,
  type FaultData,
  type MetricSamples,
  type SendDispatch,
  type SendStop,
  type Store,
  type WorkerDescription,
  type WorkerRow,
  type World,
} from "@astraflow/engine";
import { createMutantEngine, type Plant } from "@astraflow/engine/testing";
import { canonicalJson } from "@astraflow/graph";
import { omitUndefined } from "@astraflow/protocol";
import { MemoryCluster, type MemoryClusterOptions } from "@astraflow/store";
import { TestWorker } from "./test-worker.ts";
import { limitTurns, type TurnLimit } from "./turn-limit.ts";

export { TestWorker };

export interface NodeSpec {
  readonly type?: string;
  readonly params?: Record<string, unknown>;
  readonly policy?: Record<string, unknown>;
}

const testUuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
export const nodeId = testUuid;

/** A workflow of `nodes`, joined by `edges` [from, to]; every edge carries results.out into parameters.in. */
export function buildWorkflow(
  nodes: readonly NodeSpec[],
  edges: readonly (readonly [number, number])[],
): Record<string, unknown> {
  return {
    id: testUuid(999),
    schemaVersion: "2025-10",
    metadata: { name: "test" },
    nodes: nodes.map((node, at) => ({
      id: testUuid(at),
      type: node.type ?? "test.step",
      package: { name: "test", version: "1.0.0" },
      label: `node ${at}`,
      position: { x: 0, y: 0 },
      parameters: node.params ?? {},
      ...(node.policy === undefined ? {} : { policy: node.policy }),
      ui: {
        inputPorts: [
          { key: "in", label: "in", binding: { path: "parameters.in", mode: "write" } },
          ...nodes.map((_, from) => ({
            key: `in${from}`,
            label: "in",
            binding: { path: `parameters.in${from}`, mode: "write" },
          })),
        ],
        outputPorts: [{ key: "out", label: "out", binding: { path: "results.out", mode: "read" } }],
      },
    })),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      source: { node: testUuid(from), port: "out" },
      target: { node: testUuid(to), port: edges.filter(([, target]) => target === to).length > 1 ? `in${from}` : "in" },
    })),
  };
}

export const buildChain = (length: number, node: NodeSpec = {}): Record<string, unknown> =>
  buildWorkflow(
    Array.from({ length }, () => node),
    Array.from({ length: length - 1 }, (_, at) => [at, at + 1] as const),
  );

/** As the engine of a harness digests texts. */
export const harnessDigest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export const describeWorker = (changes: Partial<WorkerDescription> = {}): WorkerDescription => ({
  slots: 1,
  packages: [{ name: "test", version: "1.0.0", status: "installed" }],
  runtimes: ["node"],
  features: ["fence", "cancel", "held"],
  payloadTypes: [],
  pool: "default",
  tags: {},
  hostname: "h",
  version: "1",
  dialect: "v2",
  ...changes,
});

export interface HarnessOptions {
  readonly settings?: Partial<EngineSettings>;
  readonly cluster?: Partial<MemoryClusterOptions>;
  readonly store?: Store;
  readonly plant?: Plant;
  readonly yieldLoop?: () => Promise<void>;
  /** Part of the ids it makes: several engines on one store must not give two runs one id. */
  readonly name?: string;
  /** 0 <= n < 1; the middle where nothing is said. */
  readonly random?: () => number;
}

export class EngineHarness {
  now = 1_800_000_000_000;
  readonly effects: Effect[] = [];
  readonly problems: EngineProblem[] = [];
  readonly store: Store;
  readonly engine: Engine;
  readonly settings: EngineSettings;
  wakeAt: number | null = null;
  /** What the last join was answered. */
  lastJoinAnswer: AnswerBody | null = null;
  #ids = 0;
  #refs = 0;
  #answers = new Map<number, { resolve: (body: AnswerBody) => void; reject: (problem: Error) => void }>();
  #idleListeners: { resolve: () => void; reject: (problem: Error) => void }[] = [];
  readonly #turnLimit: TurnLimit;

  constructor(options: HarnessOptions = {}) {
    this.settings = { ...defaultSettings, ...options.settings };
    const clock = { wall: () => this.now, mono: () => this.now };
    this.store =
      options.store ??
      new MemoryCluster({ mode: "strong", random: { random: () => 0.5 }, clock, ...options.cluster }).createHandle();
    this.#turnLimit = limitTurns(this.store, (problem) => this.#failWaiting(problem));
    const world: World = {
      store: this.#turnLimit.store,
      ids: {
        next: (now) => `${now.toString(16).padStart(12, "0")}-${options.name ?? ""}${String(++this.#ids).padStart(8, "0")}`,
      },
      random: { next: options.random ?? (() => 0.5) },
      digest: harnessDigest,
      emit: (effects) => this.#receiveEffects(effects),
      scheduleWake: (wakeAt) => {
        this.wakeAt = wakeAt;
        for (const { resolve } of this.#idleListeners.splice(0)) resolve();
      },
      failpoint: () => undefined,
      reportProblem: (problem) => this.problems.push(problem),
      ...(options.yieldLoop !== undefined && { yieldLoop: options.yieldLoop }),
    };
    this.engine =
      options.plant === undefined ? createEngine(world, this.settings) : createMutantEngine(world, this.settings, options.plant);
  }

  #receiveEffects(effects: readonly Effect[]): void {
    this.effects.push(...effects);
    for (const effect of effects) {
      if (effect.type !== "answer") continue;
      const waiting = this.#answers.get(effect.ref);
      this.#answers.delete(effect.ref);
      if (effect.fault !== null) waiting?.reject(new RefusedError(effect.fault));
      else if (effect.body !== null) waiting?.resolve(effect.body);
    }
  }

  /** Whoever waits for an engine that never pauses would wait for ever, and no time limit of the runner could end it. */
  #failWaiting(problem: Error): void {
    const waiting = [...this.#answers.values(), ...this.#idleListeners.splice(0)];
    this.#answers.clear();
    for (const { reject } of waiting) reject(problem);
  }

  async start(): Promise<this> {
    await this.engine.start({ replica: "r1", cluster: "c1" });
    return this;
  }

  ask(command: Command): Promise<AnswerBody> {
    return this.askAll([command])[0] as Promise<AnswerBody>;
  }

  /** Several commands that arrive together and so share a turn. */
  askAll(commands: readonly Command[]): Promise<AnswerBody>[] {
    this.#turnLimit.restart();
    const items = commands.map((command) => ({ ref: ++this.#refs, command }));
    const promises = items.map(
      ({ ref }) => new Promise<AnswerBody>((resolve, reject) => this.#answers.set(ref, { resolve, reject })),
    );
    this.engine.push(items);
    return promises;
  }

  /** For callers that do not know how far the run is. */
  async cancelUnlessEnded(run: string): Promise<void> {
    await this.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" }).catch((why: RefusedError) => {
      if (why.code !== "E.RUN.TERMINAL") throw why;
    });
  }

  /** Lets time pass as far as the engine is concerned: moves the clock, wakes it, waits until it has nothing more to do. */
  async advance(ms: number): Promise<void> {
    this.now += ms;
    await this.settle();
  }

  async settle(): Promise<void> {
    this.#turnLimit.restart();
    const quiet = new Promise<void>((resolve, reject) => this.#idleListeners.push({ resolve, reject }));
    this.engine.wake();
    await quiet;
  }

  async startRun(
    workflow: Record<string, unknown>,
    changes: { tenant?: string; ask?: string; timeoutMs?: number; priority?: number } = {},
  ): Promise<string> {
    const answer = await this.ask(this.startCommand(workflow, changes));
    if (answer.of !== "run") throw new Error("no run");
    return answer.run;
  }

  startCommand(
    workflow: Record<string, unknown>,
    changes: { tenant?: string; ask?: string; timeoutMs?: number; priority?: number } = {},
  ): Command {
    const body = canonicalJson(workflow);
    return {
      type: "run.start",
      tenant: changes.tenant ?? "t1",
      by: "tester",
      digest: harnessDigest(body),
      body,
      client: "c",
      priority: changes.priority ?? 5,
      timeoutMs: changes.timeoutMs ?? null,
      ask: changes.ask === undefined ? null : { key: changes.ask, digest: harnessDigest(body) },
    };
  }

  async joinWorker(
    name: string,
    changes: Partial<WorkerDescription> & {
      tenant?: string;
      boot?: string | null;
      session?: string;
      running?: readonly AttemptRef[] | null;
      mayBeNewProcess?: true;
      keepsPackages?: true;
      resumed?: { readonly unacked: readonly AttemptRef[] };
    } = {},
  ): Promise<TestWorker> {
    const {
      tenant = "t1",
      boot = `${name}-boot`,
      session = `${name}-s${++this.#ids}`,
      running = [],
      resumed,
      mayBeNewProcess,
      keepsPackages,
      ...rest
    } = changes;
    const worker = `${tenant}/${name}`;
    const order = { type: "worker.join", tenant, worker, name, boot, session, about: describeWorker(rest), running } as const;
    this.lastJoinAnswer = await this.ask({ ...order, ...omitUndefined({ resumed, mayBeNewProcess, keepsPackages }) });
    return new TestWorker(this, tenant, worker, session, boot ?? "");
  }

  dispatches(worker?: string): SendDispatch[] {
    return this.effects.filter(
      (effect): effect is SendDispatch => effect.type === "dispatch" && (worker === undefined || effect.worker === worker),
    );
  }

  stopsSent(): SendStop[] {
    return this.effects.filter((effect): effect is SendStop => effect.type === "stop");
  }

  async runDetail(run: string, tenant = "t1") {
    const page = await this.store.page({ page: "run", tenant, run });
    if (page.detail === null) throw new Error(`run ${run} is not there`);
    return page.detail;
  }

  async workerRow(worker: string): Promise<WorkerRow> {
    const [tenant = ""] = worker.split("/");
    const page = await this.store.page({ page: "worker", tenant, worker, limit: 0 });
    if (page.worker === null) throw new Error(`${worker} is not there`);
    return page.worker;
  }

  /** The data of every fact of one type in the log about one worker. */
  async workerFacts(worker: string, type: string): Promise<Record<string, unknown>[]> {
    const [tenant = ""] = worker.split("/");
    const page = await this.store.events({ tenant, after: 0, limit: 10_000, subject: `worker/${worker}` });
    return page.items.filter((item) => item.type === type).map((item) => item.data);
  }

  countersNamed(name: string): MetricSamples[] {
    return this.effects.filter((effect): effect is MetricSamples => effect.type === "count" && effect.name === name);
  }

  async facts(tenant = "t1", subject?: `run/${string}` | `worker/${string}`): Promise<string[]> {
    const page = await this.store.events({ tenant, after: 0, limit: 10_000, ...(subject === undefined ? {} : { subject }) });
    return page.items.map((item) => item.type);
  }
}

/** A refusal as a test sees it. */
export class RefusedError extends Error {
  readonly code: string;
  readonly fault: FaultData;
  constructor(data: FaultData) {
    super(`${data.code}: ${data.message}`);
    this.code = data.code;
    this.fault = data;
  }
}
