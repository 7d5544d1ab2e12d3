// A simulated run: machines, network, store, callers and faults on one timeline; first a fault phase, then a phase without faults in which everything must
// end. It runs until the last reads are done, or until it cannot continue. Checkers are not known here.

import { SimulatedApi } from "../callers/simulated-api.ts";
import { SimulatedCallers } from "../callers/simulated-callers.ts";
import { getOrCreate } from "../kernel/get-or-create.ts";
import { MachineClock } from "../kernel/machine-clock.ts";
import { ObservationTrace } from "../kernel/observation-trace.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import { drainMicrotasks, Timeline } from "../kernel/timeline.ts";
import { SchedulerMachine } from "../machines/scheduler-machine.ts";
import type { MachineContext } from "../machines/simulated-machine.ts";
import { WorkerMachine } from "../machines/worker-machine.ts";
import { SimulatedNetwork } from "../network/simulated-network.ts";
import type {
  DefectObservation,
  Observation,
  ObservationListener,
  ScheduledFault,
  WorldReport,
} from "../observation/observation.ts";
import { type FaultKind, type FaultProfile, faultTable } from "../plan/fault-table.ts";
import { generateWorldPlan, type WorldPlan } from "../plan/world-plan.ts";
import { type Mutant, mutantIn } from "../scheduler/mutants.ts";
import { SimulatedStoreServer } from "../store/simulated-store-server.ts";
import { type FaultableWorld, faultEffects } from "./fault-effects.ts";

export interface PlaySeedOptions {
  readonly seed: number;
  readonly profile: FaultProfile;
  /** Instead of the faults that the seed drew: the same ones or a part of them. */
  readonly schedule?: readonly ScheduledFault[];
  /** A known bug to switch on; checkers that do not find it are too weak. */
  readonly plant?: Mutant | null;
  /** Answers every resume with a reset. */
  readonly isResumeRefused?: boolean;
  readonly observe: ObservationListener;
}

export async function playSeed({ seed, profile, plant = null, observe, ...options }: PlaySeedOptions): Promise<WorldReport> {
  const plan = generateWorldPlan(seed, profile, options);
  const { schedule = plan.faults } = options;
  return await new SimulatedWorld({ ...plan, faults: schedule }, observe, plant).run();
}

/** A world with more events than this is looping. */
const eventsMax = 1_500_000;
const pollMs = 400;

class SimulatedWorld {
  readonly #plan: WorldPlan;
  readonly #timeline = new Timeline();
  readonly #trace: ObservationTrace;
  readonly #callers: SimulatedCallers;
  readonly #faultable: FaultableWorld;
  readonly #faultCounts: Record<string, number> = {};
  readonly #eventCounts: Record<string, number> = {};
  readonly #activeFaultEnds = new Set<() => void>();
  #hasEnded = false;
  #hasConverged = false;

  constructor(plan: WorldPlan, observe: ObservationListener, mutant: Mutant | null) {
    this.#plan = plan;
    const timeline = this.#timeline;
    const random = new SeededRandom(`world ${plan.seed}`).fork("play");
    const sessionCounter = new SessionEventCounter((name) => this.#count(this.#eventCounts, name));
    const trace = new ObservationTrace(timeline, (observation) => {
      sessionCounter.observe(observation);
      observe(observation);
    });
    this.#trace = trace;
    const clockOf = (machine: string): MachineClock => {
      const shape = plan.clocks[machine];
      if (shape === undefined) throw new Error(`the plan has no clock for machine ${machine}`);
      return new MachineClock(timeline, shape);
    };
    const storeClock = clockOf("store");
    const store = new SimulatedStoreServer({
      timeline,
      random: random.fork("store"),
      clock: storeClock,
      latencyMs: plan.storeLatencyMs,
      mutant: mutantIn("store", mutant),
      onTurnLoop: (replica, message) => this.#reportDefect("spin", replica, message),
    });
    const schedulers = new Map<string, SchedulerMachine>();
    const workers = new Map<string, WorkerMachine>();
    const clones = new Map<string, WorkerMachine>();
    const find = (name: string) => schedulers.get(name)?.listeningProcess ?? null;
    const network = new SimulatedNetwork(timeline, trace, random.fork("network"), find);
    const context: MachineContext = {
      timeline,
      trace,
      network,
      store,
      random: random.fork("machines"),
      countEvent: (name) => this.#count(this.#eventCounts, name),
      reportDefect: (name, process, message) => this.#reportDefect(name, process, message),
      hasClones: () => clones.size > 0,
    };
    for (const name of plan.schedulers)
      schedulers.set(name, new SchedulerMachine(name, clockOf(name), context, { ...plan, mutant }));
    for (const spec of plan.workers)
      workers.set(spec.worker, new WorkerMachine(spec.worker, clockOf(spec.worker), context, { ...plan, spec }));
    const cloneOf = (worker: string): WorkerMachine | undefined => {
      const spec = plan.workers.find((one) => one.worker === worker);
      // Of two processes without boot ids nobody can tell which is which.
      if (spec === undefined || spec.dialect !== undefined) return undefined;
      return getOrCreate(clones, worker, () => {
        const name = `${worker}b`;
        const copy = { ...spec, worker: name, hasDisk: false };
        return new WorkerMachine(name, clockOf(worker), context, { ...plan, spec: copy });
      });
    };
    const api = new SimulatedApi(timeline, trace, random.fork("api"), find);
    this.#callers = new SimulatedCallers({ ...plan, timeline, api, random: random.fork("callers") });
    const { isNetworkLossy } = plan;
    this.#faultable = { timeline, network, store, storeClock, api, schedulers, workers, cloneOf, isNetworkLossy };
  }

  async run(): Promise<WorldReport> {
    const { seed, profile, schedulers, tenants, workers, guarantees, faultPhaseMs } = this.#plan;
    this.#trace.record({ kind: "set-up", seed, profile, schedulers, tenants, workers, guarantees });
    this.#trace.record({ kind: "phase", phase: "storm" });
    for (const machine of this.#machines()) machine.start();
    for (const call of this.#plan.plannedCalls) this.#timeline.after(call.at, () => this.#callers.makeCall(call));
    for (const fault of this.#plan.faults) this.#timeline.after(fault.at, () => this.#applyFault(fault));
    this.#timeline.after(faultPhaseMs, () => void this.#endFaultPhase());
    this.#callers.startReaders();
    while (!this.#hasEnded) {
      if (!this.#timeline.runNextEvent())
        this.#reportDefect("stuck", "world", "the event queue is empty and the world has not ended");
      await drainMicrotasks();
      if (this.#timeline.eventCount > eventsMax)
        this.#reportDefect("stuck", "world", `the world has not ended after ${eventsMax} events`);
    }
    return this.#createReport();
  }

  #machines(): (SchedulerMachine | WorkerMachine)[] {
    return [...this.#faultable.schedulers.values(), ...this.#faultable.workers.values()];
  }

  #applyFault(fault: ScheduledFault): void {
    const { kind: name, target, detail } = fault;
    if (!Object.hasOwn(faultTable, name)) throw new Error(`unknown fault kind ${name}`);
    const end = faultEffects[name as FaultKind](this.#faultable, fault);
    if (end === undefined) return;
    this.#count(this.#faultCounts, name);
    const about = { kind: "fault", name, target, ...(detail !== undefined && { detail }) } as const;
    this.#trace.record({ ...about, event: "begins" });
    if (end === null) return;
    const finish = (): void => {
      if (!this.#activeFaultEnds.delete(finish)) return;
      end();
      this.#trace.record({ ...about, event: "ends" });
    };
    this.#activeFaultEnds.add(finish);
    this.#timeline.after(fault.ms ?? 0, finish);
  }

  /** All faults end, all processes are up, nobody drains; then everything must come to its end. */
  async #endFaultPhase(): Promise<void> {
    for (const finish of this.#activeFaultEnds) finish();
    for (const machine of this.#faultable.schedulers.values()) {
      machine.killAtFailpoint = null;
      // One that was asked to stop and has not managed to is killed, as an operator would.
      if (machine.isUp && machine.listeningProcess === null) machine.kill(0, "it did not come up or did not stop");
    }
    for (const machine of this.#machines()) machine.start();
    this.#trace.record({ kind: "phase", phase: "heal" });
    const healedAt = this.#timeline.now;
    // Not waited for: an operator that never gets through must not keep the bound from running out.
    let isCalm = false;
    void this.#callers.undrainAllWorkers().then(() => {
      isCalm = true;
    });
    // Some operators come late; what they begin must end too.
    const lastOrderAt = Math.max(0, ...this.#plan.plannedCalls.map(({ at }) => at));
    while (!this.#hasConverged && this.#timeline.now - healedAt <= this.#plan.guarantees.convergeMs) {
      await new Promise<void>((resolve) => void this.#timeline.after(pollMs, resolve));
      const isNobodyLeft = isCalm && this.#callers.activeCalls === 0 && this.#timeline.now > lastOrderAt;
      this.#hasConverged = isNobodyLeft && (await this.#callers.hasEverythingEnded());
    }
    this.#callers.stopReaders();
    this.#trace.record({ kind: "phase", phase: "converged", isInTime: this.#hasConverged });
    await this.#callers.readEverything();
    this.#trace.record({ kind: "phase", phase: "end" });
    this.#hasEnded = true;
  }

  #reportDefect(name: DefectObservation["name"], process: string, message: string): void {
    this.#trace.record({ kind: "broken", name, process, message });
    if (name === "spin" || name === "stuck") this.#hasEnded = true;
  }

  #count(counts: Record<string, number>, name: string): void {
    counts[name] = (counts[name] ?? 0) + 1;
  }

  #createReport(): WorldReport {
    const { seed, profile } = this.#plan;
    const { acceptedRuns } = this.#callers;
    const workers = [...this.#faultable.workers.values()];
    return {
      seed,
      profile,
      faults: this.#faultCounts,
      sometimes: this.#eventCounts,
      observations: this.#trace.count,
      traceHash: this.#trace.finishHash(),
      events: this.#timeline.eventCount,
      simulatedMs: Math.round(this.#timeline.now),
      runs: acceptedRuns.length,
      tasks: acceptedRuns.reduce((sum, { nodes }) => sum + nodes, 0),
      starts: workers.reduce((sum, { handlerStartCount }) => sum + handlerStartCount, 0),
      hasConverged: this.#hasConverged,
    };
  }
}

/** Counts session events for the figures of a campaign: begun, resumed, renewed, reset. */
class SessionEventCounter {
  readonly #count: (name: string) => void;
  /** Sockets that have a session: a later accept there only brings a new token. */
  readonly #acceptedConnections = new Set<string>();

  constructor(count: (name: string) => void) {
    this.#count = count;
  }

  observe(observation: Observation): void {
    if (observation.kind !== "frame" || observation.event !== "sent") return;
    const { text, toward, connection } = observation;
    if (toward === "scheduler") {
      if (text.includes('"control.resume"')) this.#count("session: asked to resume");
      return;
    }
    if (text.includes('"control.session.accept"')) {
      const isResumed = text.includes('"resumed":true');
      const isRenewed = this.#acceptedConnections.has(connection);
      this.#count(`session: ${isRenewed ? "token renewed" : isResumed ? "resumed" : "begun"}`);
      this.#acceptedConnections.add(connection);
    }
    const code = text.includes('"control.reset"') ? /"code":"([^"]+)"/.exec(text)?.[1] : undefined;
    if (code !== undefined) this.#count(`session: reset with ${code}`);
  }
}
