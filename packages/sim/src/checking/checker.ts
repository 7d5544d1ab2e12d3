// What a checker is: it hears what an onlooker can know of the world, and names the first thing that must never be.
// Each checker is a file of its own beside this one; checker-table.ts lists them, checker-runner.ts feeds them.

import type { ApiAnswerObservation, ApiCallObservation, Observation, TrueTime } from "../observation/observation.ts";
import type { LogProjection } from "./log-projection.ts";
import type { ObservedFact } from "./merged-log.ts";
import type { ObservedFrame } from "./observed-frame.ts";
import type { ObservedWorld } from "./observed-world.ts";

type Stamped<T> = T & { readonly at: TrueTime; readonly n: number };

/** A call and its answer; what the caller knows after it. */
export interface ApiExchange {
  readonly call: Stamped<ApiCallObservation>;
  readonly answer: Stamped<ApiAnswerObservation>;
}

/** Everything that was committed in this tenant before `since` (the observation at which a complete reading began) is in the lives by now. */
export interface CompleteLogRead {
  readonly tenant: string;
  readonly startedAtObservation: number;
}

export interface Checker {
  /** How many things it could judge: a checker that saw nothing proves nothing. */
  readonly checkedCount: number;
  onObservation?(observation: Observation): void;
  onFrame?(frame: ObservedFrame): void;
  onExchange?(exchange: ApiExchange): void;
  /** One fact of a tenant's log, in commit order, each once; the lives do not know it yet. */
  onFact?(fact: ObservedFact): void;
  /** The facts of one instant are in the lives: what holds between turns holds now. */
  onTurn?(tenant: string, facts: readonly ObservedFact[]): void;
  onCompleteLogRead?(known: CompleteLogRead): void;
  /** Time has passed; called now and then, for what must happen within a bound. */
  onTimePassed?(at: TrueTime): void;
  onEnd?(): void;
}

/** What a checker is given. */
export interface CheckerContext {
  /** Names a violation with the ids its story is about; after the first one the checker hears nothing more. */
  reportViolation(message: string, about: readonly string[]): void;
  readonly projection: LogProjection;
  readonly world: ObservedWorld;
}

export interface Violation {
  readonly checker: string;
  readonly message: string;
  /** When it was found. */
  readonly at: TrueTime;
  readonly n: number;
  readonly about: readonly string[];
}
