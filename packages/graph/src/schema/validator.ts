// Validates values against JSON Schemas within a step budget, because schemas come from other people. Most of draft 2020-12 and draft 7;
// `format` and keywords that keywords.ts does not list are annotations. docs/guides/workflows.md lists what is not supported.

import { isObject, type JsonPath } from "../values/binding-path.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { isRemoteValueRef } from "../values/remote-value.ts";
import { keywordChecks, problemAt, type SchemaProblem } from "./keywords.ts";
import { compilePattern, type LinearPattern } from "./linear-pattern.ts";
import { resolveLocalRef } from "./schema-lookup.ts";

/** A step takes about 0.2 microseconds: no validation takes longer than 50 ms, wherever it happens. */
const validatorLimits = { stepsMax: 250_000, depthMax: 128 } as const;

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
      const message = "cannot be checked: its schema takes too many steps; make the schema or the value simpler";
      return { path: "", message, isTooCostly: true };
    }
  }

  validateAt(schema: unknown, value: unknown, at: JsonPath): SchemaProblem | null {
    this.spendSteps(1);
    if (schema === false) return problemAt(at, "must not be there");
    if (!isObject(schema) || this.#isUndecided(value)) return null;
    this.#depth += 1;
    if (this.#depth > validatorLimits.depthMax) throw new StepBudgetExceeded();
    try {
      for (const key of this.keysOf(schema)) {
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
    this.spendSteps(1 + ref.length / 20);
    return resolveLocalRef(this.#root, ref);
  }

  spendSteps(steps: number): void {
    this.#budget.stepsLeft -= steps;
    if (this.#budget.stepsLeft < 0) throw new StepBudgetExceeded();
  }

  /** The keys of an object. All are paid for at once: collecting them takes its time even if only the first is looked at. */
  keysOf(value: object): string[] {
    const keys = Object.keys(value);
    this.spendSteps(keys.length);
    return keys;
  }

  /** Equal values have equal texts. The text of an object is built once. */
  canonicalTextOf(value: unknown): string {
    if (typeof value !== "object" || value === null) return canonicalJson(value);
    const known = this.#canonicalTexts.get(value);
    if (known !== undefined) return known;
    this.#spendStepsFor(value);
    const text = canonicalJson(value);
    this.#canonicalTexts.set(value, text);
    return text;
  }

  /** What the text of a value costs, spent before it is built: building it cannot be interrupted. */
  #spendStepsFor(value: unknown): void {
    if (typeof value === "string") return this.spendSteps(1 + value.length / 100);
    this.spendSteps(4);
    if (Array.isArray(value)) for (const item of value) this.#spendStepsFor(item);
    else if (isObject(value)) for (const key of this.keysOf(value)) this.#spendStepsFor(value[key]);
  }

  /** An unsupported pattern matches everything; checking the workflow warns about it. */
  matchesPattern(source: string, text: string): boolean {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      const read = compilePattern(source);
      pattern = typeof read === "string" ? null : read;
      this.#patterns.set(source, pattern);
      this.spendSteps(4 * source.length);
    }
    this.spendSteps(1 + ((pattern?.size ?? 0) * text.length) / 10);
    if (pattern === null) return true;
    return pattern.test(text);
  }
}
