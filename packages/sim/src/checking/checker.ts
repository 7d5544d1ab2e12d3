// The base class of all checkers: each receives what an outside observer can see of the simulated run, and reports the first thing that
// violates its property. Every property has a file of its own in checkers/; checker-table.ts lists them, checker-runner.ts feeds them.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { Observation, TrueTime } from "../observation/observation.ts";
import type { LogProjection } from "./log-projection.ts";
import type { MergedLog, ObservedFact } from "./merged-log.ts";
import type { ObservedFrame } from "./observed-frame.ts";
import type { ObservedSessions } from "./observed-sessions.ts";
import type { ObservedWorld } from "./observed-world.ts";
import type { RequestedRuns } from "./requested-runs.ts";

/** A call and its answer; what the caller knows after it. */
export interface ApiExchange {
  readonly call: Extract<Observation, { kind: "call" }>;
  readonly answer: Extract<Observation, { kind: "answer" }>;
}

/** The projection now includes everything that was committed in this tenant before the observation at which the read began. */
export interface CompleteLogRead {
  readonly tenant: string;
  readonly startedAtObservation: number;
}

/** What a checker is given. */
export interface CheckerContext {
  /** After the first violation the checker gets nothing more. */
  reportViolation(message: string, about: readonly string[]): void;
  readonly projection: LogProjection;
  readonly world: ObservedWorld;
  readonly sessions: ObservedSessions;
  readonly requestedRuns: RequestedRuns;
  readonly mergedLog: MergedLog;
}

/** Checks one property. A subclass implements only the handlers that it needs. */
export abstract class Checker {
  /** How many things it has checked; zero means that it had nothing to check. */
  checkedCount = 0;
  protected readonly projection: LogProjection;
  protected readonly world: ObservedWorld;
  protected readonly sessions: ObservedSessions;
  protected readonly requestedRuns: RequestedRuns;
  protected readonly mergedLog: MergedLog;
  readonly #reportViolation: CheckerContext["reportViolation"];

  constructor(context: CheckerContext) {
    this.projection = context.projection;
    this.world = context.world;
    this.sessions = context.sessions;
    this.requestedRuns = context.requestedRuns;
    this.mergedLog = context.mergedLog;
    this.#reportViolation = context.reportViolation;
  }

  /** Reports a violation with the ids its trace is about. */
  protected fail(message: string, ...about: readonly string[]): void {
    this.#reportViolation(message, about);
  }

  onObservation?(observation: Observation): void;
  /** Every frame, whatever becomes of it; then one of the next four, unless it was lost. `sessions` does not include the frame yet. */
  onFrame?(frame: ObservedFrame): void;
  onSentToScheduler?(frame: ObservedFrame): void;
  onSentToWorker?(frame: ObservedFrame): void;
  onDeliveredToScheduler?(frame: ObservedFrame): void;
  onDeliveredToWorker?(frame: ObservedFrame): void;
  onExchange?(exchange: ApiExchange): void;
  /** One fact of a tenant's log. Facts come in commit order, each once; the projection does not include this one yet. */
  onFact?(fact: ObservedFact): void;
  /** The projection now includes all facts of one instant: what must hold between turns holds now. */
  onTurn?(tenant: string, facts: readonly ObservedFact[]): void;
  onCompleteLogRead?(read: CompleteLogRead): void;
  /** Called every half second of true time, for what must happen within a time limit. */
  onTimePassed?(at: TrueTime): void;
  /** The simulated run is over. */
  onEnd?(): void;
}

interface LogExpectation {
  /** The observation from which on it must be in the log. */
  readonly n: number;
  readonly about: string;
  /** What is wrong if the log does not contain it. */
  findProblem(): string | null;
}

/** Checks what must be in the log once it was answered or sent: for every complete read of the log that begins later. */
export abstract class LogExpectationChecker extends Checker {
  /** By tenant, in the order of their observations. */
  readonly #expectations = new Map<string, LogExpectation[]>();

  protected expectInLog(tenant: string, n: number, about: string, findProblem: () => string | null): void {
    getOrCreate(this.#expectations, tenant, () => []).push({ n, about, findProblem });
  }

  override onCompleteLogRead({ tenant, startedAtObservation }: CompleteLogRead): void {
    const waiting = this.#expectations.get(tenant) ?? [];
    for (let [next] = waiting; next !== undefined && next.n < startedAtObservation; [next] = waiting) {
      waiting.shift();
      this.checkedCount++;
      const problem = next.findProblem();
      if (problem !== null) return this.fail(problem, next.about);
    }
  }
}

export interface Violation {
  readonly checker: string;
  readonly message: string;
  /** When it was found. */
  readonly at: TrueTime;
  readonly n: number;
  readonly about: readonly string[];
}
