/** The types of check-steps.mjs; its tests read them. */

export interface CheckStep {
  name: string;
  /** Program and arguments, run in the root of the repository. */
  words: readonly string[];
}

export interface CheckEnvironment {
  root: string;
  node: string;
  env: NodeJS.ProcessEnv;
}

export type ListSteps = (place: { root: string; node: string }) => CheckStep[];
/** Runs steps, two at a time, and returns the names of those that failed. */
export type RunSteps = (steps: readonly CheckStep[], place: CheckEnvironment, print: (line: string) => void) => Promise<string[]>;

export const listSteps: ListSteps;
export const runSteps: RunSteps;
