// Checks of parameters and results against schemas in one turn. Those that take many steps are left to the driver, which lets the thread go
// between them; a tenant that has spent its share of the turn waits for the next one.

import { findParamsProblem, findResultsProblem, type PlanNode } from "@astraflow/graph";

type CheckedValue = "parameters" | "results";
type ValueProblem = ReturnType<typeof findResultsProblem>;

interface Check {
  readonly of: CheckedValue;
  readonly node: PlanNode;
  /** JSON. */
  readonly value: string;
}

interface Verdict extends Omit<Check, "value"> {
  readonly problem: ValueProblem;
  readonly steps: number;
}

/** A step takes about 0.2 microseconds. */
const checkLimits = {
  /** Inside the decision, for one check and for all of a turn. */
  stepsEachMax: 10_000,
  stepsMax: 100_000,
  /** Of one check outside of the decision; it then counts as failed. */
  outsideStepsMax: 250_000,
  /** Of one tenant in a turn, outside of the decision: about 400 ms. */
  tenantStepsMax: 2_000_000,
  /** What a check is taken to need that came when the steps of the turn were used up. */
  unknownSteps: 1_000,
  verdictsOfValueMax: 8,
} as const;

const findProblem = ({ of, node, value }: Check, budget: { stepsLeft: number }): ValueProblem =>
  of === "parameters" ? findParamsProblem(node, JSON.parse(value), budget) : findResultsProblem(node, JSON.parse(value), budget);

export class TurnChecks {
  #stepsLeft: number = checkLimits.stepsMax;
  /** By value: what was found by which schema, for which node. */
  readonly #verdicts = new Map<string, Verdict[]>();
  #missing: Check[] = [];
  /** Steps outside of the decision, by tenant, as far as this round is decided. */
  readonly #spentSteps = new Map<string, number>();

  /** All of the turn is decided from the start; the verdicts of earlier rounds are kept. */
  beginRound(): void {
    this.#missing = [];
    this.#spentSteps.clear();
  }

  get isComplete(): boolean {
    return this.#missing.length === 0;
  }

  /** Whether further values of this tenant are for the next turn. */
  isSpent(tenant: string): boolean {
    return this.#spentSteps.size > 0 && (this.#spentSteps.get(tenant) ?? 0) >= checkLimits.tenantStepsMax;
  }

  /** Where a value does not match the schema of its node. A check that takes long is made after this round; until then the value passes. */
  findProblem(tenant: string, of: CheckedValue, node: PlanNode, value: string): ValueProblem {
    const known = this.#verdicts.size === 0 ? undefined : this.#findVerdict(of, node, value);
    if (known !== undefined) {
      this.#spend(tenant, known.steps);
      return known.problem;
    }
    const check = { of, node, value };
    const stepsMax = Math.min(checkLimits.stepsEachMax, this.#stepsLeft);
    const budget = { stepsLeft: stepsMax };
    const problem = stepsMax > 0 ? findProblem(check, budget) : null;
    this.#stepsLeft -= stepsMax - Math.max(0, budget.stepsLeft);
    if (stepsMax > 0 && problem?.isTooCostly !== true) return problem;
    this.#missing.push(check);
    this.#spend(tenant, stepsMax < checkLimits.stepsEachMax ? checkLimits.unknownSteps : checkLimits.outsideStepsMax);
    return null;
  }

  /** The checks that the round has left over. After each that is taken it is made. */
  *completeMissing(): Generator<void> {
    for (const check of this.#missing) {
      if (this.#findVerdict(check.of, check.node, check.value) !== undefined) continue;
      const { of, node, value } = check;
      const budget = { stepsLeft: checkLimits.outsideStepsMax };
      const problem = findProblem(check, budget);
      const steps = checkLimits.outsideStepsMax - Math.max(0, budget.stepsLeft);
      const verdicts = this.#verdicts.get(value) ?? [];
      this.#verdicts.set(value, [...verdicts, { of, node, problem, steps }]);
      yield;
    }
  }

  #findVerdict(of: CheckedValue, node: PlanNode, value: string): Verdict | undefined {
    const verdicts = this.#verdicts.get(value) ?? [];
    const ofNode = verdicts.filter((one) => one.of === of && one.node.id === node.id);
    const known = ofNode.find((one) => one.node.schema[of] === node.schema[of]);
    // A schema that is another object in every round would interrupt the turn for ever: it is the same text.
    return known ?? (ofNode.length >= checkLimits.verdictsOfValueMax ? ofNode[0] : undefined);
  }

  #spend(tenant: string, steps: number): void {
    this.#spentSteps.set(tenant, (this.#spentSteps.get(tenant) ?? 0) + steps);
  }
}
