// The load of the postgres bench: one scheduler's engine on a store, and workers in the same process that answer at once. A fixed number of commands is in
// flight; a task counts once its result has been answered, that is, once it is on disk. The caller opens the store.

import { createHash, randomBytes } from "node:crypto";
import {
  type Command,
  type CommandRequest,
  createEngine,
  defaultSettings,
  type Effect,
  type Engine,
  type EngineSettings,
  type Store,
} from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { createJoinCommand } from "../harness/join-command.ts";

export interface PostgresLoadShape {
  /** Tasks of a run, one after the other. */
  readonly chain: number;
  /** Commands kept alive; the workers have twice as many slots, so that nothing has to wait for one. */
  readonly inFlight: number;
  readonly workers: number;
  readonly turnsInFlight: number;
}

const tenant = "bench";
const slotsPerInFlight = 2;
const resultText = '{"out":"a result of some forty characters, say"}';
/** Nobody is lost in a bench, and nothing is sent twice: what is measured is the way of a task without trouble. */
const faultFreeSettings: Partial<EngineSettings> = { leaseMs: 86_400_000, heartbeatMs: 28_800_000, ackDeadlineMs: 3_600_000 };

export class PostgresLoad {
  readonly #replica: string;
  readonly #engine: Engine;
  readonly #shape: PostgresLoadShape;
  readonly #workflow: { body: string; digest: string };
  readonly #openResults = new Set<number>();
  readonly #openStarts = new Set<number>();
  readonly #problems = new Map<string, number>();
  #queuedCommands: CommandRequest[] = [];
  #timer: NodeJS.Timeout | undefined;
  #ref = 0;
  #ids = 0;
  #runsLeft = 0;
  #endedTasks = 0;
  #joining: { left: number; resolve: () => void } | null = null;
  /** Called with the total number of ended tasks, once all runs have been started. */
  onEnded: (ended: number) => void = () => undefined;
  onFailed: (error: Error) => void = (error) => {
    throw error;
  };

  constructor(store: Store, replica: string, shape: PostgresLoadShape) {
    this.#replica = replica;
    this.#shape = shape;
    const body = canonicalJson(chainWorkflow(shape.chain));
    this.#workflow = { body, digest: digest(body) };
    this.#engine = createEngine(
      {
        store,
        ids: { next: (now) => this.#uuid(now) },
        random: { next: () => Math.random() },
        digest,
        emit: (effects) => this.#handleEffects(effects),
        scheduleWake: (wakeAt, now) => {
          clearTimeout(this.#timer);
          this.#timer = setTimeout(() => this.#engine.wake(), Math.max(0, wakeAt - now));
        },
        failpoint: () => undefined,
        reportProblem: ({ code }) => this.#problems.set(code, (this.#problems.get(code) ?? 0) + 1),
      },
      { ...defaultSettings, ...faultFreeSettings, turnsInFlight: shape.turnsInFlight },
    );
  }

  /** Problems that the engine reported, by code, including commits that had to be tried again. */
  get problems(): Readonly<Record<string, number>> {
    const { retriedTurns } = this.#engine.gauge();
    return { ...Object.fromEntries(this.#problems), ...(retriedTurns > 0 && { retriedTurns }) };
  }

  /** Resolves when every worker has its seat. */
  async start(): Promise<void> {
    await this.#engine.start({ replica: this.#replica, cluster: "bench" });
    const { workers, inFlight } = this.#shape;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#joining = { left: workers, resolve };
    for (let at = 0; at < workers; at++) {
      const name = `${this.#replica}-w${at}`;
      this.#push(createJoinCommand(tenant, name, name, Math.ceil((inFlight / workers) * slotsPerInFlight)));
    }
    await promise;
  }

  /** Adds so many tasks, in whole runs, to what is to be done. */
  addTasks(tasks: number): void {
    this.#runsLeft += Math.ceil(tasks / this.#shape.chain);
    this.#startRuns();
  }

  /** The same, and waits until they have ended; for loads that are alone on their database. */
  async runToEnd(tasks: number): Promise<void> {
    const target = this.#endedTasks + Math.ceil(tasks / this.#shape.chain) * this.#shape.chain;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.onEnded = (ended) => (ended >= target ? resolve() : undefined);
    this.onFailed = reject;
    this.addTasks(tasks);
    await promise;
  }

  async stop(): Promise<void> {
    await this.#engine.stop();
    clearTimeout(this.#timer);
  }

  #startRuns(): void {
    while (this.#runsLeft > 0 && this.#openResults.size + this.#openStarts.size < this.#shape.inFlight) {
      this.#runsLeft--;
      const { body, digest } = this.#workflow;
      const ordinary = { by: "bench", client: "bench", priority: 5, timeoutMs: null, ask: null };
      this.#openStarts.add(this.#push({ type: "run.start", tenant, digest, body, ...ordinary }));
    }
  }

  /** What one turn provokes arrives together: doors, too, hand over at once all that they have read. */
  #push(command: Command): number {
    const ref = ++this.#ref;
    this.#queuedCommands.push({ ref, command });
    if (this.#queuedCommands.length === 1)
      setImmediate(() => {
        const items = this.#queuedCommands;
        this.#queuedCommands = [];
        this.#engine.push(items);
      });
    return ref;
  }

  #handleEffects(effects: readonly Effect[]): void {
    const before = this.#endedTasks;
    const acks = new Map<string, { worker: string; held: { task: string; fence: number }[] }>();
    for (const effect of effects) {
      if (effect.type === "answer") this.#handleAnswer(effect);
      if (effect.type !== "dispatch") continue;
      const { worker, session } = effect;
      const { task, fence } = effect.dispatch;
      const report = { type: "task.result", tenant, worker, session, task, fence, error: null, durationMs: 1 } as const;
      this.#openResults.add(this.#push({ ...report, status: "succeeded", result: resultText }));
      const ack = acks.get(session) ?? { worker, held: [] };
      acks.set(session, ack);
      ack.held.push({ task, fence });
    }
    // One frame of a worker acks all that it got together.
    for (const [session, { worker, held }] of acks) this.#push({ type: "task.ack", tenant, worker, session, held });
    this.#startRuns();
    if (this.#endedTasks > before && this.#runsLeft === 0) this.onEnded(this.#endedTasks);
  }

  #handleAnswer({ ref, fault, body }: Extract<Effect, { type: "answer" }>): void {
    if (fault !== null) this.onFailed(new Error(`${this.#replica}: ${fault.code}: ${fault.message}`));
    if (this.#openResults.delete(ref)) this.#endedTasks++;
    this.#openStarts.delete(ref);
    if (body?.of === "join" && this.#joining !== null && --this.#joining.left === 0) this.#joining.resolve();
  }

  /** Time-ordered like the real ones, and never the same as those of the other scheduler. */
  #uuid(now: number): string {
    const time = Math.floor(now).toString(16).padStart(12, "0");
    const count = (++this.#ids % 4_096).toString(16).padStart(3, "0");
    const rest = randomBytes(8).toString("hex");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${count}-8${rest.slice(1, 4)}-${rest.slice(4)}`;
  }
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

function chainWorkflow(length: number): Record<string, unknown> {
  const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
  const port = (key: string, path: string, mode: string) => [{ key, label: key, binding: { path, mode } }];
  return {
    id: uuid(99_999),
    schemaVersion: "2025-10",
    metadata: { name: "bench chain" },
    nodes: Array.from({ length }, (_, at) => ({
      id: uuid(at),
      type: "bench.step",
      package: { name: "bench", version: "1.0.0" },
      label: `step ${at}`,
      position: { x: at * 200, y: 0 },
      parameters: { n: at },
      ui: { inputPorts: port("in", "parameters.in", "write"), outputPorts: port("out", "results.out", "read") },
    })),
    edges: Array.from({ length: length - 1 }, (_, at) => ({
      id: `e${at}`,
      source: { node: uuid(at), port: "out" },
      target: { node: uuid(at + 1), port: "in" },
    })),
  };
}
