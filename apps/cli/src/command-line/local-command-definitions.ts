// The commands that work on this machine: `up`, `doctor`, `sim`, `bench`, `completion`.

import { createCliClient } from "../api/api-client.ts";
import { resolveApiEndpoint } from "../api/api-endpoint.ts";
import {
  type CompletionShell,
  type CompletionSources,
  completeCommandLine,
  completionScript,
  fetchNames,
  shells,
} from "../completion/completion.ts";
import { isAppName, loadAppCommand } from "../local/app-loader.ts";
import { type BackupFlags, runBackup, runRestore } from "../local/backup-command.ts";
import { runBench } from "../local/bench-command.ts";
import { type DoctorFlags, runDoctor } from "../local/doctor-command.ts";
import { runSimulation } from "../local/sim-command.ts";
import { startInstallation } from "../local/up-command.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { type CommandTable, type LocalCommandContext, parseInteger } from "./command-table.ts";

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

export const startCommands: CommandTable = {
  up: {
    isOffline: true,
    help: "run a scheduler, a worker and a demo on this machine, to try things out",
    examples: ["astra up", "--listen 127.0.0.1:0 --data-dir ./var", "--no-demo"],
    options: {
      "--listen <host:port>": "address of the scheduler (default 127.0.0.1:8080, or a free port if that is in use)",
      "--data-dir <dir>": { help: "folder for the files of scheduler and worker", default: "./var" },
      "--no-demo": "without the demo run",
      "--log-level <level>": {
        help: `lowest level that scheduler and worker log to stderr: ${logLevels.join(", ")}`,
        default: "warn",
      },
    },
    suggestions: { "log-level": logLevels },
    runLocally: startInstallation,
  },
};

const simulatorProfiles = ["default", "calm", "crashes", "network", "session", "store", "clocks", "disk", "workflow"] as const;
const benchNames = ["chain", "engine", "postgres", "retention", "session", "slice"] as const;

export const toolCommands: CommandTable = {
  doctor: {
    help: "check whether this machine can run a scheduler, and show what its store keeps",
    examples: ["astra doctor", "--failpoints", "--json --data-dir /var/lib/astra"],
    options: {
      "--data-dir <dir>": { help: "data folder of the scheduler", default: "./var/scheduler" },
      "--listen <host:port>": { help: "address that the scheduler is to listen on", default: "127.0.0.1:8080" },
      "--store <url>": "the scheduler's store, if it is PostgreSQL (ASTRA_SCHEDULER_STORE)",
      "--repair": "make a damaged sqlite store open again with what is left of it; its scheduler must be stopped",
      "--failpoints": "list the failpoints instead",
    },
    runLocally: (context, flags: DoctorFlags) =>
      runDoctor(context, { ...flags, store: flags.store ?? context.env["ASTRA_SCHEDULER_STORE"] }),
  },
  backup: {
    isOffline: true,
    help: "copy the data folder of a scheduler, which may go on working, with a checksum of every file",
    examples: ["./var/backups/monday", "--data-dir /var/lib/astra /mnt/backups/astra-1", "--json ./var/backups/monday"],
    arguments: { "<folder>": "a new folder for the backup" },
    options: {
      "--data-dir <dir>": { help: "the scheduler's folder", default: "./var/scheduler" },
      "--store <url>": "the scheduler's store, if it is not in that folder (ASTRA_SCHEDULER_STORE)",
    },
    runLocally: (context, flags: BackupFlags) =>
      runBackup(context, { ...flags, store: flags.store ?? context.env["ASTRA_SCHEDULER_STORE"] }),
  },
  restore: {
    isOffline: true,
    help: "check a backup and copy it into the data folder of a scheduler that has no store yet",
    examples: ["./var/backups/monday", "--data-dir /var/lib/astra /mnt/backups/astra-1", "--json ./var/backups/monday"],
    arguments: { "<folder>": "the folder of the backup" },
    options: {
      "--data-dir <dir>": { help: "the scheduler's folder", default: "./var/scheduler" },
      "--store <url>": "where the store is to be, if not in that folder (ASTRA_SCHEDULER_STORE)",
    },
    runLocally: (context, flags: BackupFlags) =>
      runRestore(context, { ...flags, store: flags.store ?? context.env["ASTRA_SCHEDULER_STORE"] }),
  },
  sim: {
    isOffline: true,
    help: "run the fault simulator over seeds and check every guarantee",
    examples: ["--seeds 1..1000 --jobs 2", "--seed 7 --story", "--profile network --shrink --save"],
    options: {
      "--seeds <from..to>": "the seeds to run (default 1..200)",
      "--seed <n>": { help: "a single seed", parse: parseInteger(0, 999_999_999) },
      "--story": "print what happens in that seed, line by line",
      "--profile <name>": { help: `which faults: ${simulatorProfiles.join(", ")}`, default: "default" },
      "--refuse-resume": "answer every resume with a reset; all guarantees must still hold",
      "--shrink": "find the smallest fault schedule of every seed that fails",
      "--twice": "run every seed twice and compare the traces",
      "--save": "save failures as regressions, shrunk, inside the repository",
      "--jobs <n>": { help: "number of threads", parse: parseInteger(1, 64), default: 1 },
      "--plant <name>": "enable a known bug (mutant) and expect the checkers to catch it",
    },
    suggestions: { profile: simulatorProfiles },
    runLocally: runSimulation,
  },
  bench: {
    isOffline: true,
    help: `run a benchmark (inside the repository): ${benchNames.join(", ")}`,
    examples: ["engine", "slice --tasks 2000", "postgres --json"],
    arguments: { "[args...]": "its name and its own flags" },
    suggestions: { args: benchNames },
    allowsUnknownFlags: true,
    runLocally: runBench,
  },
  completion: {
    isOffline: true,
    help: "print the script with which a shell completes commands, flags, and the ids of runs, workers and workflows",
    examples: ['eval "$(astra completion bash)"', "zsh > ~/.zfunc/_astra", "fish | source"],
    arguments: { "<shell>": { help: "the shell", choices: shells } },
    async runLocally({ terminal, json }, { shell }: { shell: CompletionShell }) {
      const script = completionScript(shell);
      terminal.print(json ? JSON.stringify({ shell, script }) : script.trimEnd());
      return exitCodes.ok;
    },
  },
  "complete-words": {
    isOffline: true,
    isHidden: true,
    help: "complete the last of these arguments; called by the completion scripts",
    examples: ['-- runs show ""', "-- ru", "-- runs list --st"],
    arguments: { "[args...]": "all arguments so far" },
    runLocally: printCompletions,
  },
};

/** A shell waits for the completion, so it must not take long. */
const completionTimeoutMs = 1_500;

async function printCompletions(
  { program, env, terminal, json }: LocalCommandContext,
  { args }: { readonly args: readonly string[] },
): Promise<number> {
  const valueOf = (flag: string): string | undefined => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  const sources: CompletionSources = {
    async listNames(kind) {
      const endpoint = resolveApiEndpoint({ url: valueOf("--url"), token: valueOf("--token"), ca: valueOf("--ca") }, env);
      return fetchNames(kind, createCliClient(endpoint, { waitMs: completionTimeoutMs }));
    },
    appFlags: async (name) => (isAppName(name) ? (await loadAppCommand(name)).flags : null),
  };
  const found = await completeCommandLine(program, args, sources).catch((cause: unknown) => {
    // A shell has no place for an error while it completes: a scheduler that is away or refuses means no suggestions.
    if (cause instanceof CliFailure) return [];
    throw cause;
  });
  if (json) terminal.print(JSON.stringify({ words: found }));
  else for (const name of found) terminal.print(name);
  return exitCodes.ok;
}
