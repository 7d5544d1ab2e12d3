// A package manager on a real disk: journal, installer's threads, and a watchdog for the processes they start.

import path from "node:path";
import type { WorkerEnvironment } from "../system/environment.ts";
import { ProcessWatchdog } from "../system/process-watchdog.ts";
import { openInstallJournal } from "./install-journal.ts";
import type { InstallSettings } from "./install-settings.ts";
import { startInstallerThread } from "./installer-thread.ts";
import { type PackageLogEvent, PackageManager } from "./package-manager.ts";

export interface PackageManagerOptions {
  readonly settings: InstallSettings;
  readonly environment: Pick<WorkerEnvironment, "after" | "wallClock">;
  /** Different in every process, so that two of them never share a staging folder. */
  readonly boot: string;
  /** What the scheduler's own origin is to be shown; asked for each download. */
  readonly authorization?: () => { readonly origin: string; readonly value: string } | undefined;
  readonly log: (event: PackageLogEvent) => void;
}

export function createPackageManager(options: PackageManagerOptions): PackageManager {
  const { settings, environment, boot, log } = options;
  const reportProblem = ({ message, cause }: { readonly message: string; readonly cause: unknown }) =>
    log({ level: "warn", event: "package", message, details: { cause: String(cause) } });
  const watchdog = new ProcessWatchdog(reportProblem);
  let jobs = 0;
  return new PackageManager({
    environment,
    journal: openInstallJournal(path.join(settings.packagesDir, ".state", "commands")),
    startJob(job, listener) {
      const authorization = options.authorization?.();
      return startInstallerThread(
        {
          settings,
          job,
          stagingId: `${boot}-${jobs++}`,
          installedAt: new Date(environment.wallClock()).toISOString(),
          ...(authorization !== undefined && { authorization }),
        },
        { ...listener, groupStarted: (pid) => watchdog.watchGroup(pid), groupEnded: (pid) => watchdog.unwatchGroup(pid) },
      );
    },
    closed: () => watchdog.close(),
    log,
  });
}
