// Shared by regression tests: a memory store that several engines use in turn or together, one clock for all of them, and a limit
// on engines that never pause. Workers and commands come from the harness.

import type { CommandAnswer, EngineSettings, RowKey, Store, TurnTransaction } from "@astraflow/engine";
import { MemoryCluster, type MemoryClusterOptions } from "@astraflow/store";
import { EngineHarness, type TestWorker } from "./engine-harness.ts";

/** An engine that needs this many turns between two checks of the test is not busy; it is stuck in a loop. */
const turnsMax = 3_000;
const emptyWant = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };

/** Lets everything happen that can happen without the clock. */
const runPendingCallbacks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class EngineCluster {
  readonly #cluster: MemoryCluster;
  readonly #engines: EngineHarness[] = [];
  #now = 1_800_000_000_000;
  #turns = 0;
  /** Whether an engine had to be halted because it never paused. */
  isSpinning = false;

  constructor(options: Partial<MemoryClusterOptions> = {}) {
    const now = () => this.#now;
    this.#cluster = new MemoryCluster({
      mode: "strong",
      random: { random: () => 0.5 },
      clock: { wall: now, mono: now },
      pauseAt: ({ step }) => (step === "begin" ? this.#haltSpinningEngine() : undefined),
      ...options,
    });
  }

  /** Without it a spinning engine would keep the test from ever going on, and no time limit could end it. */
  #haltSpinningEngine(): Promise<void> | undefined {
    if (++this.#turns < turnsMax) return undefined;
    this.isSpinning = true;
    return new Promise(() => undefined);
  }

  /** Starts an engine on the shared store; its own clock is not used. */
  async startEngine(
    replica: string,
    { settings = {}, wrap = (store) => store }: { settings?: Partial<EngineSettings>; wrap?: (store: Store) => Store } = {},
  ): Promise<EngineHarness> {
    const engine = new EngineHarness({ store: wrap(this.#cluster.createHandle()), settings });
    this.#engines.push(engine);
    await engine.engine.start({ replica, cluster: "c1" });
    return engine;
  }

  /** Ends an engine in good order, as a restart does; the store stays. */
  async stopEngine(engine: EngineHarness): Promise<void> {
    this.#engines.splice(this.#engines.indexOf(engine), 1);
    await engine.engine.stop();
  }

  /** Moves the clock without waking any engine, so that the next command meets what has become due. */
  skipTime(ms: number): void {
    this.#now += ms;
  }

  /** Lets seconds pass, one by one; each time every engine looks and does what it finds. */
  async passSeconds(seconds: number): Promise<void> {
    for (let second = 0; second < seconds && !this.isSpinning; second++) {
      this.#now += 1_000;
      this.#turns = 0;
      for (const { engine } of this.#engines) engine.wake();
      await runPendingCallbacks();
    }
  }

  /** Seconds in which a worker reports that it is connected and holds nothing. */
  async passSecondsIdle(seconds: number, worker: TestWorker): Promise<void> {
    for (let second = 0; second < seconds && !this.isSpinning; second++) {
      await worker.heartbeat([]);
      await this.passSeconds(1);
    }
  }

  /** Another program makes a run's definition unreadable; engines that have read it before do not notice until a restart. */
  async corruptWorkflow(engine: EngineHarness, run: string): Promise<void> {
    const { workflow } = (await engine.runDetail(run)).run;
    const key: RowKey = `workflow/${workflow}`;
    const { store, lastTurn } = await this.#openStore("poisoner");
    const tx = await store.begin({ ...emptyWant, rows: [key] });
    const puts = [{ kind: "workflow" as const, id: workflow, body: "{ not json" }];
    const committed = await tx.commit(lastTurn + 1, [
      { roots: [key], puts, deletes: [], enqueued: [], logEntries: [], mail: [] },
    ]);
    if (committed.outcome !== "committed") throw new Error(`${key} could not be poisoned`);
  }

  /** The first task of a run, which waits in its line, is for this worker alone: nothing orders that yet, so its row is written. */
  async pinFirstTask(engine: EngineHarness, run: string, worker: string): Promise<void> {
    const [task] = (await engine.runDetail(run)).tasks;
    if (task?.phase !== "ready") throw new Error(`no task of ${run} waits`);
    const { store, lastTurn } = await this.#openStore("pinner");
    const tx = await store.begin({ ...emptyWant, rows: [`run/${run}`, `task/${task.id}`] });
    const puts = [{ ...task, pin: worker, line: `r|${task.route}|${worker}`, rank: null }];
    const ready = [{ task: task.id, tenant: "t1", cost: 1 }];
    const unit = { roots: [`run/${run}` as const], puts, deletes: [], enqueued: ready, logEntries: [], mail: [] };
    const committed = await tx.commit(lastTurn + 1, [unit]);
    if (committed.outcome !== "committed") throw new Error(`${task.id} could not be pinned`);
  }

  /** Another scheduler has a run in hand until its turn is given up. */
  async holdRun(run: string): Promise<TurnTransaction> {
    const { store } = await this.#openStore("holder");
    return await store.begin({ ...emptyWant, rows: [`run/${run}`] });
  }

  async #openStore(replica: string): Promise<{ store: Store; lastTurn: number }> {
    const store = this.#cluster.createHandle();
    const { lastTurn } = await store.open({ replica, cluster: "c1" });
    return { store, lastTurn };
  }
}

/** The answer to a caller once everything has happened that can without the clock: `done`, a fault's code, or silence. */
export function outcomeOf(answer: Promise<unknown>): Promise<string> {
  const word = answer.then(
    () => "done",
    (refused: { code: string }) => refused.code,
  );
  return Promise.race([word, runPendingCallbacks().then(() => "silence")]);
}

export const answersOf = (harness: EngineHarness): CommandAnswer[] =>
  harness.effects.filter((effect): effect is CommandAnswer => effect.type === "answer");
