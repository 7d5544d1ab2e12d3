// The load of the engine bench: chains of short nodes on one worker that answers at once, in one process. The real driver, core and store run without a
// wire. Every commit can be recorded, so that the hand-written inserts write exactly the same rows.

import { createHash } from "node:crypto";
import {
  type ChangeSet,
  type Command,
  createEngine,
  defaultSettings,
  type Effect,
  type Engine,
  type EngineGauge,
  type Store,
  type TurnTransaction,
} from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { openSqlite, type SqliteStore } from "@astraflow/store";
import { createJoinCommand } from "../harness/join-command.ts";

const tenant = "bench";
const worker = `${tenant}/w`;
const session = "s1";

export interface RecordedTurn {
  readonly turn: number;
  readonly now: number;
  readonly changeSets: readonly ChangeSet[];
}

export class EngineLoad {
  readonly store: SqliteStore;
  readonly #engine: Engine;
  readonly #chain: { body: string; digest: string; length: number };
  readonly #inFlight: number;
  /** While set, every committed turn is kept. */
  recordedTurns: RecordedTurn[] | null = null;
  /** While set, the time between two batches of effects is noted: what live work has to wait. */
  gapsMs: number[] | null = null;
  #effectsAt = 0;
  #ref = 0;
  #ids = 0n;
  #targetRuns = 0;
  #endedTasks = 0;
  #startedRuns = 0;
  #done: (() => void) | null = null;
  #queuedCommands: { ref: number; command: Command }[] = [];
  #isPushing = false;

  constructor(file: string, options: { length: number; inFlight: number }) {
    this.store = openSqlite({ file, clock: { wall: () => Date.now(), mono: () => performance.now() } });
    this.#inFlight = options.inFlight;
    const body = canonicalJson(chainWorkflow(options.length));
    this.#chain = { body, digest: digest(body), length: options.length };
    this.#engine = createEngine(
      {
        store: this.#recordingStore(this.store),
        ids: { next: (now) => this.#nextRunId(now) },
        random: { next: () => 0.5 },
        digest,
        emit: (effects) => this.#handleEffects(effects),
        scheduleWake: () => undefined,
        failpoint: () => undefined,
        reportProblem: (problem) => {
          throw new Error(`${problem.code}: ${problem.message}`, { cause: problem.cause });
        },
      },
      { ...defaultSettings, turnCommandsMax: 1024, leaseMs: 86_400_000, heartbeatMs: 28_800_000, ackDeadlineMs: 3_600_000 },
    );
  }

  async start(): Promise<void> {
    await this.#engine.start({ replica: "bench", cluster: "bench" });
    await new Promise<void>((resolve) => {
      this.#done = resolve;
      this.#push(createJoinCommand(tenant, "w", session, this.#inFlight));
    });
  }

  /** Runs whole chains until at least `tasks` tasks have ended; resolves with how many did. */
  async run(tasks: number): Promise<number> {
    this.#endedTasks = 0;
    this.#startedRuns = 0;
    this.#effectsAt = performance.now();
    this.#targetRuns = Math.ceil(tasks / this.#chain.length);
    const finished = new Promise<void>((resolve) => {
      this.#done = resolve;
    });
    for (let run = 0; run < Math.min(this.#inFlight, this.#targetRuns); run++) this.#startRun();
    await finished;
    return this.#endedTasks;
  }

  gauge(): EngineGauge {
    return this.#engine.gauge();
  }

  async stop(): Promise<void> {
    await this.#engine.stop();
    await this.store.close();
  }

  #startRun(): void {
    this.#startedRuns++;
    this.#push({
      type: "run.start",
      tenant,
      by: "bench",
      digest: this.#chain.digest,
      body: this.#chain.body,
      client: "bench",
      priority: 5,
      timeoutMs: null,
      ask: null,
    });
  }

  /** What one turn provokes arrives together, as frames read from a socket in one go would. */
  #push(command: Command): void {
    this.#queuedCommands.push({ ref: ++this.#ref, command });
    if (this.#isPushing) return;
    this.#isPushing = true;
    setImmediate(() => {
      this.#isPushing = false;
      const items = this.#queuedCommands;
      this.#queuedCommands = [];
      this.#engine.push(items);
    });
  }

  #handleEffects(effects: readonly Effect[]): void {
    const held: { task: string; fence: number }[] = [];
    const now = performance.now();
    this.gapsMs?.push(now - this.#effectsAt);
    this.#effectsAt = now;
    for (const effect of effects) {
      if (effect.type === "answer" && effect.fault !== null) throw new Error(`${effect.fault.code}: ${effect.fault.message}`);
      if (effect.type === "answer" && effect.body?.of === "join") this.#done?.();
      if (effect.type !== "dispatch") continue;
      const { task, fence } = effect.dispatch;
      const attempt = { tenant, worker, session, task, fence };
      held.push({ task, fence });
      this.#push({
        type: "task.result",
        ...attempt,
        status: "succeeded",
        result: '{"out":"a result of some forty characters, say"}',
        error: null,
        durationMs: 1,
      });
      this.#endedTasks++;
      if (!task.endsWith(`.${this.#chain.length - 1}`)) continue;
      if (this.#startedRuns < this.#targetRuns) this.#startRun();
      else if (this.#endedTasks >= this.#targetRuns * this.#chain.length) this.#finishAfterLast();
    }
    // One frame of the worker acks all that arrived together.
    if (held.length > 0) this.#push({ type: "task.ack", tenant, worker, session, held });
  }

  /** The last result is still on its way; one more order behind it tells when it is in. */
  #finishAfterLast(): void {
    const done = this.#done;
    setImmediate(() => setImmediate(() => setImmediate(() => done?.())));
  }

  #recordingStore(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (name === "begin") return async (want: Parameters<Store["begin"]>[0]) => this.#recordCommit(await target.begin(want));
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }

  #recordCommit(tx: TurnTransaction): TurnTransaction {
    if (this.recordedTurns === null) return tx;
    const commit = tx.commit.bind(tx);
    tx.commit = async (turn, units) => {
      const outcome = await commit(turn, units);
      if (outcome.outcome === "committed") this.recordedTurns?.push({ turn, now: tx.now, changeSets: units });
      return outcome;
    };
    return tx;
  }

  #nextRunId(now: number): string {
    const count = ++this.#ids;
    const time = Math.floor(now).toString(16).padStart(12, "0");
    const rest = count.toString(16).padStart(15, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-8${rest.slice(3, 6)}-${rest.slice(6).padStart(12, "0")}`;
  }
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

function chainWorkflow(length: number): Record<string, unknown> {
  const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
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
      ui: {
        inputPorts: [{ key: "in", label: "in", binding: { path: "parameters.in", mode: "write" } }],
        outputPorts: [{ key: "out", label: "out", binding: { path: "results.out", mode: "read" } }],
      },
    })),
    edges: Array.from({ length: length - 1 }, (_, at) => ({
      id: `e${at}`,
      source: { node: uuid(at), port: "out" },
      target: { node: uuid(at + 1), port: "in" },
    })),
  };
}
