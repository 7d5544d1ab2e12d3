// The worker program, for whoever starts it: the command line loads this by name. This is the only entrance.

import { runWorker } from "./run-worker.ts";
import { listedSettings } from "./settings/help-text.ts";

export interface WorkerProgram {
  readonly name: string;
  readonly flags: readonly {
    readonly flag: string;
    readonly env: string;
    readonly help: string;
    readonly values?: readonly string[];
  }[];
  /** Answers with the exit code; the process should end then. */
  run(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<number>;
}

export const workerCommand: WorkerProgram = {
  name: "worker",
  flags: listedSettings.map(({ flag, variable, help, choices }) => ({
    flag,
    env: variable,
    help,
    ...(choices !== undefined && { values: choices }),
  })),
  run: runWorker,
};
