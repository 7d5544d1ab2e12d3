// Every known bug that can be switched on, and the layer that has it. Checkers that miss a mutant are too weak.

import type { EngineSettings } from "@astraflow/engine";
import { sessionMutants } from "./session-mutants.ts";
import { workflowMutants } from "./workflow-mutants.ts";

export const mutants = {
  "ack-before-commit": "engine",
  "requeue-forgets-fence": "engine",
  "sequence-positions": "store",
  "no-root-lock": "store",
  "drop-unit": "store",
  /** Workers that cannot report what they run are never asked for it. */
  "silent-unasked": "settings",
  /** What cannot be stopped frees its slot when it is cancelled. */
  "unstopped-slot-freed": "settings",
  ...sessionMutants,
  ...workflowMutants,
} as const;
export type Mutant = keyof typeof mutants;

type MutantLayer = (typeof mutants)[Mutant];
type MutantIn<L extends MutantLayer> = { [M in Mutant]: (typeof mutants)[M] extends L ? M : never }[Mutant];

/** The mutant, if it belongs to this layer. */
export function mutantIn<L extends MutantLayer>(layer: L, mutant: Mutant | null): MutantIn<L> | null {
  return mutant !== null && mutants[mutant] === layer ? (mutant as MutantIn<L>) : null;
}

/** The settings of an engine that has the bug. */
export function mutateSettings(settings: EngineSettings, mutant: MutantIn<"settings"> | null): EngineSettings {
  if (mutant === "silent-unasked") return { ...settings, recheckMs: neverMs, silentGraceMs: neverMs };
  return mutant === "unstopped-slot-freed" ? { ...settings, unstoppedSlotMs: 0 } : settings;
}

const neverMs = 1_000_000_000_000;
