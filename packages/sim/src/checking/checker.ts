// The base class of all checkers: each receives what an outside observer can see of the simulated run, and reports the first thing that
// violates its property. Every property has a file of its own in checkers/; checker-table.ts lists them, checker-runner.ts feeds them.

import type { ApiAnswerObservation, ApiCallObservation, Observation, TrueTime } from "../observation/observation.ts";
import type { LogProjection } from "./log-projection.ts";
import type { MergedLog, ObservedFact } from "./merged-log.ts";
import type { ObservedFrame } from "./observed-frame.ts";
import type { ObservedWorld } from "./observed-world.ts";
import type { RequestedRuns } from "./requested-runs.ts";

type Stamped<T> = T & { readonly at: TrueTime; readonly n: number };

/** A call and its answer; what the caller knows after it. */
export interface ApiExchange {
  readonly call: Stamped<ApiCallObservation>;
  readonly answer: Stamped<ApiAnswerObservation>;
}

/** The projection now includes everything that was committed in this tenant before the observation at which the read began. */
export interface CompleteLogRead {
  readonly tenant: string;
  readonly startedAtObservation: number;
}

/** What a checker is given. */
export interface CheckerContext {
  /** Reports a violation with the ids its trace is about; after the first one the checker gets nothing more. */
  reportViolation(message: string, about: readonly string[]): void;
  readonly projection: LogProjection;
  readonly world: ObservedWorld;
  readonly requestedRuns: RequestedRuns;
  readonly mergedLog: MergedLog;
}

/** Checks one property. A subclass implements only the handlers that it needs. */
export abstract class Checker {
  /** How many things it has checked; zero means that it had nothing to check. */
  checkedCount = 0;
  protected readonly projection: LogProjection;
  protected readonly world: ObservedWorld;
  protected readonly requestedRuns: RequestedRuns;
  protected readonly mergedLog: MergedLog;
  protected readonly reportViolation: CheckerContext["reportViolation"];

  constructor(context: CheckerContext) {
    this.projection = context.projection;
    this.world = context.world;
    this.requestedRuns = context.requestedRuns;
    this.mergedLog = context.mergedLog;
    this.reportViolation = context.reportViolation;
  }

  onObservation?(observation: Observation): void;
  onFrame?(frame: ObservedFrame): void;
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

export interface Violation {
  readonly checker: string;
  readonly message: string;
  /** When it was found. */
  readonly at: TrueTime;
  readonly n: number;
  readonly about: readonly string[];
}
