// `astra scheduler`: reads the settings, starts a scheduler and prints the ready line. SIGTERM shuts down gracefully; a second one, one before
// the ready line, or the end of --grace exits at once, and so does an engine that dies or is replaced. SIGHUP reloads tokens and certificates.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { exitCodes, Fault, formatFault, formatSettingsFault } from "@astraflow/protocol";
import { flagsOf, type SettingRow } from "@astraflow/settings";
import { StartupError } from "./platform/startup-error.ts";
import { openLog, type Scheduler, startScheduler } from "./scheduler.ts";
import { describeSettings, readConfig, type SchedulerConfig } from "./settings/config.ts";
import { settingTable } from "./settings/setting-table.ts";

/** The command of the `astra` program. */
export const schedulerCommand = {
  name: "scheduler",
  /** With the allowed values, if there are few. */
  flags: Object.entries<SettingRow>(settingTable).map(([key, row]) => ({
    flag: flagsOf(key, row)[0] ?? "",
    help: row.help,
    ...(row.choices !== undefined && { values: row.choices }),
  })),
  /** Runs until it is stopped; returns the exit code. */
  async run(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<number> {
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
  // After an uncaught error the state is unknown: better to restart from the store.
  process.on("uncaughtException", (cause) => {
    log.fatal({ err: cause }, "scheduler.crashed");
    process.exit(exitCodes.failed);
  });
  const signals = new SignalHandlers();
  let scheduler: Scheduler;
  try {
    scheduler = await startScheduler(config, log);
  } catch (cause) {
    if (!(cause instanceof StartupError)) throw cause;
    const code = cause.cause instanceof Fault ? cause.cause.code : "E.CONFIG.INVALID";
    process.stderr.write(formatFault({ code, message: cause.message }));
    return exitCodes.usage;
  }
  signals.isReady = true;
  signals.reload = () => scheduler.reload();
  process.stdout.write(`${JSON.stringify({ ready: true, http: scheduler.http, ws: scheduler.ws, pid: process.pid })}\n`);

  const why = await Promise.race([signals.stopRequested, scheduler.died]);
  if (why instanceof Fault && why.code === "E.STORE.IN_USE") {
    const message = `another scheduler has started under this one's name (${why.message}); this one can no longer write and exits. Give each scheduler its own --replica or --data-dir.`;
    log.fatal({ code: why.code, details: why.details }, message);
    process.exit(exitCodes.replaced);
  }
  if (why instanceof Error) {
    log.fatal({ err: why }, "scheduler.died");
    process.exit(exitCodes.failed); // doors without an engine or a store could only collect what they cannot store
  }
  log.info({ signal: why, graceMs: config.graceMs }, "scheduler.stopping");
  const isLate = await Promise.race([scheduler.stop().then(() => false), pause(config.graceMs, true, { ref: false })]);
  if (isLate) {
    // Nothing is lost: what is not in the store was never confirmed.
    log.warn({ graceMs: config.graceMs }, "scheduler.grace.over");
    process.exit(exitCodes.ok);
  }
  return exitCodes.ok;
}

/** Everyone who can list processes can read a command line, so an address with a password is removed from it. */
function hidePasswordFromProcessList(argv: readonly string[]): void {
  if (argv.some((word) => /:\/\/[^/]*:[^/]*@/.test(word))) process.title = "astra scheduler";
}

/** Before the ready line nothing was accepted, so a signal exits at once, also from a start that hangs. */
class SignalHandlers {
  /** Once it is ready a signal shuts down gracefully. */
  isReady = false;
  /** What SIGHUP does; before that it is ignored, because nothing has been read yet. */
  reload = async (): Promise<void> => undefined;
  /** Resolves with the first signal after that; the second one exits at once. */
  readonly stopRequested: Promise<NodeJS.Signals>;

  constructor() {
    const stopRequest = Promise.withResolvers<NodeJS.Signals>();
    let isStopping = false;
    this.stopRequested = stopRequest.promise;
    process.on("SIGHUP", () => void this.reload());
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        if (!this.isReady || isStopping) process.exit(exitCodes.terminated);
        isStopping = true;
        stopRequest.resolve(signal);
      });
    }
  }
}

function readVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown";
}
