// Validates values against JSON Schemas within a step budget, because schemas come from other people. Most of draft 2020-12 and draft 7;
// `format` and keywords that keywords.ts does not list are annotations. docs/guides/workflows.md lists what is not supported.

import { isObject, type JsonPath } from "../values/binding-path.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { isRemoteValueRef } from "../values/remote-value.ts";
import { keywordChecks, problemAt, type SchemaProblem } from "./keywords.ts";
import { compilePattern, type LinearPattern } from "./linear-pattern.ts";
import { resolveLocalRef } from "./schema-lookup.ts";

const validatorLimits = { stepsMax: 1_000_000, depthMax: 128 } as const;

/** Steps that may still be spent; several validations may share a budget. */
export interface StepBudget {
  stepsLeft: number;
}

export interface ValidatorOptions {
  readonly budget?: StepBudget;
  /** Names that begin with two underscores are set by the scheduler: they are never missing. */
  readonly allowsMissingReserved?: boolean;
  /** Values that cannot be judged yet; they satisfy every schema. */
  readonly isUndecided?: (value: unknown) => boolean;
}

class StepBudgetExceeded extends Error {}

export class SchemaValidator {
  readonly #root: unknown;
  readonly #patterns = new Map<string, LinearPattern | null>();
  readonly #canonicalTexts = new WeakMap<object, string>();
  readonly #budget: StepBudget;
  readonly #allowsMissingReserved: boolean;
  readonly #isUndecided: (value: unknown) => boolean;
  #depth = 0;

  constructor(root: unknown, options: ValidatorOptions = {}) {
    this.#root = root;
    this.#budget = options.budget ?? { stepsLeft: validatorLimits.stepsMax };
    this.#allowsMissingReserved = options.allowsMissingReserved ?? false;
    // A value that stayed with its worker cannot be checked here; a reference to it satisfies every schema.
    const isUndecided = options.isUndecided ?? (() => false);
    this.#isUndecided = (value) => isRemoteValueRef(value) || isUndecided(value);
  }

  validate(value: unknown): SchemaProblem | null {
    try {
      return this.validateAt(this.#root, value, []);
    } catch (error) {
      if (!(error instanceof StepBudgetExceeded)) throw error;
      return { path: "", message: "cannot be checked: its schema takes too many steps; make the schema simpler" };
    }
  }

  validateAt(schema: unknown, value: unknown, at: JsonPath): SchemaProblem | null {
    this.spendSteps(1);
    if (schema === false) return problemAt(at, "must not be there");
    if (!isObject(schema) || this.#isUndecided(value)) return null;
    this.#depth += 1;
    if (this.#depth > validatorLimits.depthMax) throw new StepBudgetExceeded();
    try {
      for (const key of Object.keys(schema)) {
        this.spendSteps(1);
        const keyword = keywordChecks.get(key);
        const problem = keyword === undefined ? null : keyword(this, schema[key], value, at, schema);
        if (problem !== null) return problem;
      }
      return null;
    } finally {
      this.#depth -= 1;
    }
  }

  isValid(schema: unknown, value: unknown): boolean {
    return this.validateAt(schema, value, []) === null;
  }

  mayBeMissing(name: string): boolean {
    return this.#allowsMissingReserved && name.startsWith("__");
  }

  /** What a reference points to; undefined: it does not resolve, so it restricts nothing. */
  resolveRef(ref: string): unknown {
    this.spendSteps(1);
    return resolveLocalRef(this.#root, ref);
  }

  spendSteps(steps: number): void {
    this.#budget.stepsLeft -= steps;
    if (this.#budget.stepsLeft < 0) throw new StepBudgetExceeded();
  }

  /** Equal values have equal texts. The text of an object is built once. */
  canonicalTextOf(value: unknown): string {
    if (typeof value !== "object" || value === null) return canonicalJson(value);
    const known = this.#canonicalTexts.get(value);
    if (known !== undefined) return known;
    const text = canonicalJson(value);
    this.spendSteps(text.length / 20);
    this.#canonicalTexts.set(value, text);
    return text;
  }

  /** An unsupported pattern matches everything; checking the workflow warns about it. */
  matchesPattern(source: string, text: string): boolean {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      const read = compilePattern(source);
      pattern = typeof read === "string" ? null : read;
      this.#patterns.set(source, pattern);
      this.spendSteps(source.length);
    }
    if (pattern === null) return true;
    this.spendSteps((pattern.size * text.length) / 10);
    return pattern.test(text);
  }
}
