// What a checker is: it hears what an onlooker can know of the world, and names the first thing that must never be.
// Each checker is a file of its own beside this one; table.ts lists them, judge.ts feeds them.

import type { AnswerSeen, CallSeen, Observation, TrueTime } from "../observation.ts";
import type { Lives } from "./lives.ts";
import type { Fact } from "./log-book.ts";
import type { Scene } from "./scene.ts";
import type { WireFrame } from "./wire.ts";

type At<T> = T & { readonly at: TrueTime; readonly n: number };

/** A call and its answer; what the caller knows after it. */
export interface Exchange {
  readonly call: At<CallSeen>;
  readonly answer: At<AnswerSeen>;
}

/** Everything that was committed in this tenant before `since` (the observation at which a complete reading began) is in the lives by now. */
export interface Known {
  readonly tenant: string;
  readonly since: number;
}

export interface Checker {
  /** How many things it could judge: a checker that saw nothing proves nothing. */
  readonly saw: number;
  observe?(seen: Observation): void;
  frame?(frame: WireFrame): void;
  exchange?(exchange: Exchange): void;
  /** One fact of a tenant's log, in commit order, each once; the lives do not know it yet. */
  fact?(fact: Fact): void;
  /** The facts of one instant are in the lives: what holds between turns holds now. */
  turn?(tenant: string, facts: readonly Fact[]): void;
  known?(known: Known): void;
  /** Time has passed; called now and then, for what must happen within a bound. */
  passes?(at: TrueTime): void;
  end?(): void;
}

/** What a checker is given. */
export interface Bench {
  /** Names a violation with the ids its story is about; after the first one the checker hears nothing more. */
  fail(message: string, about: readonly string[]): void;
  readonly lives: Lives;
  readonly scene: Scene;
}

export interface Violation {
  readonly checker: string;
  readonly message: string;
  /** When it was found. */
  readonly at: TrueTime;
  readonly n: number;
  readonly about: readonly string[];
}
