// `astra scheduler`: reads the settings, starts a scheduler and prints the ready line. SIGTERM stops it in order; a second signal, one
// before the ready line, or the end of --grace stop it at once. An engine that dies or is replaced ends the process. SIGHUP reads the
// files of tokens and certificates again.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { exitCodes, Fault, formatFault, formatSettingsFault } from "@astraflow/protocol";
import { flagsOf, type SettingRow } from "@astraflow/settings";
import { StartupError } from "./platform/startup-error.ts";
import { openLog, type Scheduler, startScheduler } from "./scheduler.ts";
import { describeSettings, readConfig, type SchedulerConfig } from "./settings/config.ts";
import { settingTable } from "./settings/setting-table.ts";

export interface SchedulerCommand {
  readonly name: "scheduler";
  /** With the only values there are, where they can be counted. */
  readonly flags: readonly { readonly flag: string; readonly help: string; readonly values?: readonly string[] }[];
  /** Runs until it is told to end; answers the exit code. */
  run(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<number>;
}

export const schedulerCommand: SchedulerCommand = {
  name: "scheduler",
  flags: Object.entries<SettingRow>(settingTable).map(([key, row]) => ({
    flag: flagsOf(key, row)[0] ?? "",
    help: row.help,
    ...(row.choices !== undefined && { values: row.choices }),
  })),
  async run(argv, env) {
    hidePasswordFromProcessList(argv);
    const answer = readConfig({ argv, env, readFile: (path) => readFileSync(path, "utf8") });
    switch (answer.type) {
      case "help":
        process.stdout.write(`${describeSettings()}\n`);
        return exitCodes.ok;
      case "version":
        process.stdout.write(`${readVersion()}\n`);
        return exitCodes.ok;
      case "refused":
        process.stderr.write(formatSettingsFault(answer.problems, "astra scheduler --help"));
        return exitCodes.usage;
      case "start":
        return runScheduler(answer.config);
    }
  },
};

async function runScheduler(config: SchedulerConfig): Promise<number> {
  const log = openLog(config);
  // Whatever nobody caught has left some promise or callback in an unknown state: better to start again from the store.
  process.on("uncaughtException", (cause) => {
    log.fatal({ err: cause }, "scheduler.crashed");
    process.exit(exitCodes.failed);
  });
  const signals = installSignalHandlers();
  let scheduler: Scheduler;
  try {
    scheduler = await startScheduler(config, log);
  } catch (cause) {
    if (!(cause instanceof StartupError)) throw cause;
    const code = cause.cause instanceof Fault ? cause.cause.code : "E.CONFIG.INVALID";
    process.stderr.write(formatFault({ code, message: cause.message }));
    return exitCodes.usage;
  }
  signals.markReady();
  signals.setReloadHandler(() => scheduler.reload());
  process.stdout.write(`${JSON.stringify({ ready: true, http: scheduler.http, ws: scheduler.ws, pid: process.pid })}\n`);

  const why = await Promise.race([signals.stopRequested, scheduler.died]);
  if (why instanceof Fault && why.code === "E.STORE.IN_USE") {
    log.fatal({ code: why.code, details: why.details }, describeReplacement(why));
    process.exit(exitCodes.replaced);
  }
  if (why instanceof Error) {
    log.fatal({ err: why }, "scheduler.died");
    process.exit(exitCodes.failed); // doors without an engine or a store would only collect what they cannot keep
  }
  log.info({ signal: why, graceMs: config.graceMs }, "scheduler.stopping");
  const isLate = await Promise.race([scheduler.stop().then(() => false), pause(config.graceMs, true, { ref: false })]);
  if (isLate) {
    // Nothing is lost: what is not in the store was never answered.
    log.warn({ graceMs: config.graceMs }, "scheduler.grace.over");
    process.exit(exitCodes.ok);
  }
  return exitCodes.ok;
}

function describeReplacement(fault: Fault): string {
  return `another scheduler has started under this one's name (${fault.message}); this one can write nothing any more and ends. Give each scheduler its own --replica or --data-dir.`;
}

/** What was written on the command line is read by everyone who can list processes: an address with a password does not stay there. */
function hidePasswordFromProcessList(argv: readonly string[]): void {
  if (argv.some((word) => /:\/\/[^/]*:[^/]*@/.test(word))) process.title = "astra scheduler";
}

interface SignalHandlers {
  /** From here on there is something to end in order. */
  markReady(): void;
  /** From here on SIGHUP means something; before, whoever sent it has what they want, for nothing was read yet. */
  setReloadHandler(reload: () => Promise<void>): void;
  /** The first wish to end after that; the second ends at once. */
  readonly stopRequested: Promise<NodeJS.Signals>;
}

/** Before the ready line nobody was promised anything, and a start that hangs must not outlive a wish to end. */
function installSignalHandlers(): SignalHandlers {
  const stopRequest = Promise.withResolvers<NodeJS.Signals>();
  let isReady = false;
  let isStopping = false;
  let reload = async (): Promise<void> => undefined;
  process.on("SIGHUP", () => void reload());
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (!isReady || isStopping) process.exit(exitCodes.terminated);
      isStopping = true;
      stopRequest.resolve(signal);
    });
  }
  return {
    markReady: () => {
      isReady = true;
    },
    setReloadHandler: (handler) => {
      reload = handler;
    },
    stopRequested: stopRequest.promise,
  };
}

function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown";
}
