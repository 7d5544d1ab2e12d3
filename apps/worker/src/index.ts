// The worker program, for whoever starts it: the command line loads this by name. This is the only entrance.

import { runWorker } from "./run-worker.ts";
import { listedSettings } from "./settings/help-text.ts";

/** The command of the `astra` program; `run` answers with the exit code, and the process should end then. */
export const workerCommand = {
  name: "worker",
  flags: listedSettings.map(({ flag, variable, help, choices }) => ({
    flag,
    env: variable,
    help,
    ...(choices !== undefined && { values: choices }),
  })),
  run: runWorker,
};
