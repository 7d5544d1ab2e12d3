// What the decisions of all turns share: settings, the fleet, randomness, ids, and what was compiled from definitions.

import type { EngineSettings } from "../../interface/settings.ts";
import type { Millis } from "../../storage/rows.ts";
import type { Fleet } from "../fleet/fleet.ts";
import type { createDefinitionCaches } from "./definition-caches.ts";

export interface DecisionContext extends ReturnType<typeof createDefinitionCaches> {
  readonly settings: EngineSettings;
  readonly fleet: Fleet;
  /** This scheduler in its present life. */
  readonly self: { readonly replica: string; readonly epoch: number };
  digest(text: string): string;
  random(): number;
  nextId(now: Millis): string;
  /** For tests alone: the requeue that forgets its fence. */
  readonly forgetsFence: boolean;
}
