// What was compiled or parsed from definitions, for all turns: bounded by number and by the length of the texts it came from.

import { declaredUnrepeatable, type Plan, type PlanNode } from "@astraflow/graph";
import { LruMap, type Manifest } from "@astraflow/protocol";
import type { RouteId } from "../../storage/rows.ts";

export interface CompiledPlan {
  readonly plan: Plan;
  /** Route of each node for this tenant; filled as they are met. */
  readonly routes: Map<PlanNode, RouteId>;
  /** Length of the definition. */
  readonly chars: number;
}

/** What a manifest says of a node type, as far as the engine judges by it. */
export interface ManifestNodeRules {
  readonly schema: { readonly parameters?: unknown; readonly results?: unknown };
  /** What its adapter declares, where that is not `per_request`. */
  readonly idempotency: string | undefined;
}

/** By node type. */
export type ManifestRules = ReadonlyMap<string, ManifestNodeRules>;

export interface CachedRules {
  readonly rules: ManifestRules;
  /** Length of the document they were read from. */
  readonly chars: number;
}

/** A definition may hold megabytes of parameters, and takes several times its length once it is compiled. */
export const definitionCacheLimits = {
  plansMax: 1_000,
  /** Only those of package versions of which workers have different ones. */
  manifestsMax: 200,
  charsMax: 32 * 1024 * 1024,
  /** Definitions from this length on are compiled in steps; others take a few milliseconds. */
  stepwiseCharsMin: 256 * 1024,
  /** Of all that were compiled in steps for one turn; further ones are compiled at once, one after the other. */
  turnCharsMax: 64 * 1024 * 1024,
} as const;

/**
 * Plans of large definitions that were compiled for one turn. They are held until it is decided: the cache might drop one to make room for
 * another, and the turn would never have all that it needs.
 */
export class TurnPlans {
  readonly #plans = new Map<string, CompiledPlan>();
  #charsLeft: number = definitionCacheLimits.turnCharsMax;

  get(workflow: string): CompiledPlan | undefined {
    return this.#plans.get(workflow);
  }

  /** Whether it is worth compiling in steps, and there is room to hold it. */
  takes(body: string): boolean {
    return body.length >= definitionCacheLimits.stepwiseCharsMin && body.length <= this.#charsLeft;
  }

  add(workflow: string, compiled: CompiledPlan): void {
    this.#plans.set(workflow, compiled);
    this.#charsLeft -= compiled.chars;
  }
}

/** Definitions never change under their digest, and manifests neither: what was compiled once serves every run. */
export function createDefinitionCaches() {
  return {
    /** By workflow. */
    plans: createCache<CompiledPlan>(definitionCacheLimits.plansMax),
    /** By tenant and digest of the manifest. */
    manifests: createCache<CachedRules>(definitionCacheLimits.manifestsMax),
  };
}

const createCache = <T extends { readonly chars: number }>(entriesMax: number) =>
  new LruMap<string, T>({
    entriesMax,
    weightMax: definitionCacheLimits.charsMax,
    weightOf: ({ chars }) => chars,
    touchOnGet: false,
  });

export function readManifestRules({ adapters, nodes }: Manifest): ManifestRules {
  const declared = new Map(adapters.map(({ name, idempotency }) => [name, declaredUnrepeatable(idempotency)]));
  return new Map(nodes.map(({ type, schema, adapter }) => [type, { schema, idempotency: declared.get(adapter) }]));
}
