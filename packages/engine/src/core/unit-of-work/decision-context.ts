// What the decisions of all turns share: settings, the fleet, randomness, ids, and the cache of compiled plans.

import type { Plan, PlanNode } from "@astraflow/graph";
import type { LruMap } from "@astraflow/protocol";
import type { EngineSettings } from "../../interface/settings.ts";
import type { Millis, RouteId } from "../../storage/rows.ts";
import type { Fleet } from "../fleet/fleet.ts";

export interface DecisionContext {
  readonly settings: EngineSettings;
  readonly fleet: Fleet;
  /** This scheduler in its present life. */
  readonly self: { readonly replica: string; readonly epoch: number };
  /** By workflow. Definitions never change under their digest, so what was compiled once serves every run of it. */
  readonly plans: LruMap<string, CompiledPlan>;
  /** Schemas by node type, by tenant and digest of the manifest; a manifest never changes under its digest. */
  readonly manifests: LruMap<string, ManifestSchemas>;
  digest(text: string): string;
  random(): number;
  nextId(now: Millis): string;
  /** For tests alone: the requeue that forgets its fence. */
  readonly forgetsFence: boolean;
}

export type ManifestSchemas = ReadonlyMap<string, { readonly parameters?: unknown; readonly results?: unknown }>;

interface CompiledPlan {
  readonly plan: Plan;
  /** Route of each node for this tenant; filled as they are met. */
  readonly routes: Map<PlanNode, RouteId>;
}
