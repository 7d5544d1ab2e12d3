// The world: machines, network, store, callers and faults on one timeline; a storm, then calm in which everything must end. It runs
// until the last reads are done, or until it sees that it cannot go on, and judges nothing.

import type { Plant as EnginePlant } from "@astraflow/engine/testing";
import type { Plant as StorePlant } from "@astraflow/store";
import { Api } from "./api.ts";
import { Callers } from "./callers.ts";
import { Dice } from "./dice.ts";
import { faultEffects, type Stricken } from "./fault-effects.ts";
import { type FaultKind, faultTable } from "./fault-table.ts";
import type { Ground } from "./machine.ts";
import { MachineClock } from "./machine-clock.ts";
import { Network } from "./network.ts";
import type { BrokenSeen, FaultEvent, Observe, PhaseSeen, WorkerShape, WorldReport } from "./observation.ts";
import type { WorldPlan } from "./plan.ts";
import { SchedulerMachine } from "./scheduler-machine.ts";
import { type SessionPlant, sessionPlants } from "./session-plants.ts";
import { SpinWatch } from "./spin-watch.ts";
import { StoreServer } from "./store-server.ts";
import { SessionTally } from "./tally.ts";
import { quiet, Timeline } from "./timeline.ts";
import { Trace } from "./trace.ts";
import { WorkerMachine, type WorkerSetUp } from "./worker-machine.ts";
import { type WorkflowPlant, workflowPlants } from "./workflow-plants.ts";

export type Plant = EnginePlant | StorePlant | SessionPlant | WorkflowPlant;
/** Every bug that can be switched on, and where it sits. */
export const plants = {
  "ack-before-commit": "engine",
  "requeue-forgets-fence": "engine",
  "sequence-positions": "store",
  "no-root-lock": "store",
  "drop-unit": "store",
  ...sessionPlants,
  ...workflowPlants,
} as const satisfies Record<Plant, "engine" | "store" | "session" | "workflow">;
const isEnginePlant = (plant: Plant | null): plant is EnginePlant => plant !== null && plants[plant] === "engine";
const isStorePlant = (plant: Plant | null): plant is StorePlant => plant !== null && plants[plant] === "store";
const isSessionPlant = (plant: Plant | null): plant is SessionPlant => plant !== null && plants[plant] === "session";

const isWorkflowPlant = (plant: Plant | null): plant is WorkflowPlant => plant !== null && plants[plant] === "workflow";

/** More events than any world should need: it goes round in circles. */
const stepsMax = 1_500_000;
const pollMs = 400;

export class SimulatedWorld {
  readonly #plan: WorldPlan;
  readonly #timeline = new Timeline();
  readonly #trace: Trace;
  readonly #callers: Callers;
  readonly #stricken: Stricken;
  readonly #counts: Record<string, number> = {};
  readonly #sometimes: Record<string, number> = {};
  readonly #underWay = new Set<() => void>();
  #isOver = false;
  #hasConverged = false;

  constructor(plan: WorldPlan, observe: Observe, plant: Plant | null) {
    this.#plan = plan;
    const timeline = this.#timeline;
    const dice = new Dice(`world ${plan.seed}`).fork("play");
    const tally = new SessionTally((name) => this.#count(this.#sometimes, name));
    const trace = new Trace(timeline, (seen) => {
      tally.hear(seen);
      observe(seen);
    });
    this.#trace = trace;
    const clockOf = (machine: string): MachineClock => {
      const shape = plan.clocks[machine];
      if (shape === undefined) throw new Error(`no clock was drawn for ${machine}`);
      return new MachineClock(timeline, shape);
    };
    const storeClock = clockOf("store");
    const spin = new SpinWatch(timeline, (replica, message) => this.#broken("spin", replica, message));
    const store = new StoreServer({
      timeline,
      dice: dice.fork("store"),
      clock: storeClock,
      latencyMs: plan.storeLatencyMs,
      plant: isStorePlant(plant) ? plant : null,
      turnBegins: (replica) => spin.turn(replica),
    });
    const schedulers = new Map<string, SchedulerMachine>();
    const workers = new Map<string, WorkerMachine>();
    const clones = new Map<string, WorkerMachine>();
    const find = (name: string) => schedulers.get(name)?.listening ?? null;
    const network = new Network(timeline, trace, dice.fork("network"), find);
    const ground: Ground = {
      timeline,
      trace,
      network,
      store,
      dice: dice.fork("machines"),
      sometimes: (name) => this.#count(this.#sometimes, name),
      broken: (name, process, message) => this.#broken(name, process, message),
      hasClones: () => clones.size > 0,
    };
    const { engine: settings, doors: limits, tenants, hintsLostShare, tokenMs } = plan;
    for (const name of plan.schedulers)
      schedulers.set(
        name,
        new SchedulerMachine(name, clockOf(name), ground, {
          settings,
          limits,
          tenants,
          hintsLostShare,
          tokenMs,
          plant: isEnginePlant(plant) ? plant : null,
          sessionPlant: isSessionPlant(plant) ? plant : null,
          workflowPlant: isWorkflowPlant(plant) ? plant : null,
        }),
      );
    const setUpOf = (shape: WorkerShape): WorkerSetUp => ({
      shape,
      schedulers: plan.schedulers,
      settings: plan.link,
      quietBeatMs: settings.quietHeartbeatMs,
    });
    for (const shape of plan.workers)
      workers.set(shape.worker, new WorkerMachine(shape.worker, clockOf(shape.worker), ground, setUpOf(shape)));
    const cloneOf = (worker: string): WorkerMachine | undefined => {
      const shape = plan.workers.find((one) => one.worker === worker);
      // Of two processes without boot ids nobody can tell which is which.
      if (shape === undefined || shape.dialect !== undefined) return undefined;
      let clone = clones.get(worker);
      if (clone === undefined) {
        const name = `${worker}b`;
        const copy = { ...shape, worker: name, hasDisk: false };
        clones.set(worker, (clone = new WorkerMachine(name, clockOf(worker), ground, setUpOf(copy))));
      }
      return clone;
    };
    const api = new Api(timeline, trace, dice.fork("api"), find);
    this.#callers = new Callers({
      timeline,
      api,
      dice: dice.fork("callers"),
      schedulers: plan.schedulers,
      tenants,
      workers: plan.workers,
    });
    this.#stricken = { timeline, network, store, storeClock, api, schedulers, workers, cloneOf, isLoose: plan.isLoose };
  }

  async live(): Promise<WorldReport> {
    const { seed, profile, schedulers, tenants, workers, promises, stormMs } = this.#plan;
    this.#trace.see({ kind: "set-up", seed, profile, schedulers, tenants, workers, promises });
    this.#phase("storm");
    for (const machine of this.#machines()) machine.start();
    for (const order of this.#plan.orders) this.#timeline.after(order.at, () => this.#callers.place(order));
    for (const fault of this.#plan.faults) this.#timeline.after(fault.at, () => this.#strike(fault));
    this.#timeline.after(stormMs, () => void this.#heal());
    this.#callers.watch();
    while (!this.#isOver) {
      if (!this.#timeline.step()) this.#broken("stuck", "world", "nothing is left to happen");
      await quiet();
      if (this.#timeline.steps > stepsMax) this.#broken("stuck", "world", `${stepsMax} events and no end`);
    }
    return this.#report();
  }

  #machines(): (SchedulerMachine | WorkerMachine)[] {
    return [...this.#stricken.schedulers.values(), ...this.#stricken.workers.values()];
  }

  #strike(fault: FaultEvent): void {
    const { kind: name, target, detail } = fault;
    if (!Object.hasOwn(faultTable, name)) throw new Error(`there is no fault called ${name}`);
    const end = faultEffects[name as FaultKind](this.#stricken, fault);
    if (end === undefined) return;
    this.#count(this.#counts, name);
    const about = { kind: "fault", name, target, ...(detail !== undefined && { detail }) } as const;
    this.#trace.see({ ...about, event: "begins" });
    if (end === null) return;
    const finish = (): void => {
      if (!this.#underWay.delete(finish)) return;
      end();
      this.#trace.see({ ...about, event: "ends" });
    };
    this.#underWay.add(finish);
    this.#timeline.after(fault.ms ?? 0, finish);
  }

  /** All faults end, all processes are up, nobody drains; then everything must come to its end. */
  async #heal(): Promise<void> {
    for (const finish of this.#underWay) finish();
    for (const machine of this.#stricken.schedulers.values()) {
      machine.armed = null;
      // One that was asked to stop and has not managed to is killed, as an operator would.
      if (machine.isUp && machine.listening === null) machine.kill(0, "it did not come up or did not stop");
    }
    for (const machine of this.#machines()) machine.start();
    this.#phase("heal");
    const healedAt = this.#timeline.now;
    // Not waited for: an operator that never gets through must not keep the bound from running out.
    let isCalm = false;
    void this.#callers.calmDown().then(() => {
      isCalm = true;
    });
    // Some operators come late; what they begin must end too.
    const lastOrderAt = Math.max(0, ...this.#plan.orders.map(({ at }) => at));
    while (!this.#hasConverged && this.#timeline.now - healedAt <= this.#plan.promises.convergeMs) {
      await new Promise<void>((resolve) => void this.#timeline.after(pollMs, resolve));
      const isNobodyLeft = isCalm && this.#callers.busy === 0 && this.#timeline.now > lastOrderAt;
      this.#hasConverged = isNobodyLeft && (await this.#callers.isAllOver());
    }
    this.#callers.stopWatching();
    this.#trace.see({ kind: "phase", phase: "converged", isInTime: this.#hasConverged });
    await this.#callers.audit();
    this.#phase("end");
    this.#isOver = true;
  }

  #phase(phase: PhaseSeen["phase"]): void {
    this.#trace.see({ kind: "phase", phase });
  }

  #broken(name: BrokenSeen["name"], process: string, message: string): void {
    this.#trace.see({ kind: "broken", name, process, message });
    if (name === "spin" || name === "stuck") this.#isOver = true;
  }

  #count(counts: Record<string, number>, name: string): void {
    counts[name] = (counts[name] ?? 0) + 1;
  }

  #report(): WorldReport {
    const { seed, profile } = this.#plan;
    const { accepted } = this.#callers;
    return {
      seed,
      profile,
      faults: this.#counts,
      sometimes: this.#sometimes,
      observations: this.#trace.count,
      traceHash: this.#trace.close(),
      events: this.#timeline.steps,
      simulatedMs: Math.round(this.#timeline.now),
      runs: accepted.length,
      tasks: accepted.reduce((sum, { nodes }) => sum + nodes, 0),
      starts: [...this.#stricken.workers.values()].reduce((sum, { starts }) => sum + starts, 0),
      hasConverged: this.#hasConverged,
    };
  }
}
