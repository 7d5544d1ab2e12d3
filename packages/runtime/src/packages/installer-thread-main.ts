// The installer's thread. Started by installer-thread.ts, imported by no file.

import { parentPort, workerData } from "node:worker_threads";
import { errorMessage, Fault } from "@astraflow/protocol";
import { type InstallOutcome, PackageInstaller } from "./install-package.ts";
import type { FromInstallerThread, InstallerThreadData } from "./installer-thread.ts";
import { VersionFolders } from "./version-folders.ts";

const data = workerData as InstallerThreadData;
const post = (message: FromInstallerThread) => parentPort?.postMessage(message);

async function runJob(): Promise<InstallOutcome> {
  const { settings, job, stagingId, installedAt, authorization } = data;
  const installer = new PackageInstaller(settings, {
    stagingId,
    installedAt,
    stageReached: (stage, progress) => post({ type: "stage", stage, progress }),
    groups: { groupStarted: (pid) => post({ type: "spawned", pid }), groupEnded: (pid) => post({ type: "reaped", pid }) },
    ...(authorization !== undefined && { authorization }),
  });
  const folders = new VersionFolders(settings.packagesDir);
  switch (job.type) {
    case "install":
      return installer.install(job.request);
    case "uninstall":
      return installer.uninstall(job.name, job.version);
    case "list":
      return { details: { versions: await folders.listVersions(job.name) } };
    case "clean":
      await folders.removeLeftovers();
      return { details: {} };
  }
}

try {
  post({ type: "done", outcome: await runJob() });
} catch (thrown) {
  const code = thrown instanceof Fault ? thrown.code : "E.INTERNAL";
  const details = thrown instanceof Fault && thrown.details !== undefined ? { details: thrown.details } : {};
  post({ type: "failed", code, message: errorMessage(thrown), ...details });
}
