// The judge of values by JSON Schemas: works off the keywords within a budget. A useful part of draft 2020-12 with the older spellings that
// manifests use; `format` and what is in neither table are annotations.

import { canonicalText } from "./canonical.ts";
import { isReference } from "./kept.ts";
import { isObject } from "./path.ts";
import { type Pattern, readPattern } from "./pattern.ts";
import { partKeywords } from "./schema-keywords-parts.ts";
import { valueKeywords } from "./schema-keywords-values.ts";
import { atPointer } from "./schema-parts.ts";
import { type Judging, type Keyword, type SchemaProblem, type Steps, wrong } from "./schema-words.ts";

const schemaLimits = { stepsMax: 1_000_000, depthMax: 128 } as const;

const keywords: ReadonlyMap<string, Keyword> = new Map([...valueKeywords, ...partKeywords]);

/** Steps that may still be taken; several values may share one. */
export interface Budget {
  stepsLeft: number;
}

class OutOfBudget extends Error {}

export class Judge implements Judging {
  readonly #root: unknown;
  readonly #patterns = new Map<string, Pattern | null>();
  readonly #texts = new WeakMap<object, string>();
  readonly #budget: Budget;
  #depth = 0;

  constructor(root: unknown, budget: Budget = { stepsLeft: schemaLimits.stepsMax }) {
    this.#root = root;
    this.#budget = budget;
  }

  problem(value: unknown): SchemaProblem | null {
    try {
      return this.visit(this.#root, value, []);
    } catch (error) {
      if (!(error instanceof OutOfBudget)) throw error;
      return { path: "", message: "cannot be checked: its schema takes too many steps; make the schema simpler" };
    }
  }

  visit(schema: unknown, value: unknown, at: Steps): SchemaProblem | null {
    this.spend(1);
    if (schema === false) return wrong(at, "must not be there");
    // A value that stays with the worker that made it cannot be judged here; its reference stands for whatever the schema wants.
    if (!isObject(schema) || isReference(value)) return null;
    this.#depth += 1;
    if (this.#depth > schemaLimits.depthMax) throw new OutOfBudget();
    try {
      for (const key of Object.keys(schema)) {
        this.spend(1);
        const keyword = keywords.get(key);
        const problem = keyword === undefined ? null : keyword(this, schema[key], value, at, schema);
        if (problem !== null) return problem;
      }
      return null;
    } finally {
      this.#depth -= 1;
    }
  }

  fits(schema: unknown, value: unknown): boolean {
    return this.visit(schema, value, []) === null;
  }

  follow(ref: string): unknown {
    this.spend(1);
    return atPointer(this.#root, ref);
  }

  spend(steps: number): void {
    this.#budget.stepsLeft -= steps;
    if (this.#budget.stepsLeft < 0) throw new OutOfBudget();
  }

  /** A large value is written out once. */
  text(value: unknown): string {
    if (typeof value !== "object" || value === null) return canonicalText(value);
    const known = this.#texts.get(value);
    if (known !== undefined) return known;
    const text = canonicalText(value);
    this.spend(text.length / 20);
    this.#texts.set(value, text);
    return text;
  }

  /** A pattern that is not understood matches everything; the checker of workflows has said so. */
  matches(source: string, text: string): boolean {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      const read = readPattern(source);
      pattern = typeof read === "string" ? null : read;
      this.#patterns.set(source, pattern);
      this.spend(source.length);
    }
    if (pattern === null) return true;
    this.spend((pattern.size * text.length) / 10);
    return pattern.test(text);
  }
}
