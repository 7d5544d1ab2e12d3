// A checker of what must be in the log once it was answered or sent: for every complete read of the log that begins later.

import { getOrCreate } from "../kernel/get-or-create.ts";
import { Checker, type CompleteLogRead } from "./checker.ts";

interface LogExpectation {
  /** The observation from which on it must be in the log. */
  readonly n: number;
  readonly about: string;
  /** What is wrong if the log does not contain it. */
  findProblem(): string | null;
}

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
