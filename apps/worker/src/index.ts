// The worker program, for whoever starts it: the command line loads this by name. This is the only entrance.

import { runWorker } from "./run-worker.ts";
import { type WorkerSetting, workerFlagOf, workerSettings } from "./settings/setting-table.ts";

/** A command of the `astra` program. */
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
  flags: (workerSettings as readonly WorkerSetting[])
    .filter((setting) => setting.without === undefined)
    .map((setting) => ({
      flag: `--${workerFlagOf(setting)}`,
      env: `ASTRA_WORKER_${setting.name}`,
      help: setting.help,
      ...(setting.reading.as === "one-of" && { values: setting.reading.words }),
    })),
  run: runWorker,
};
