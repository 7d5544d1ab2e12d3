// An installer in a process of its own that kills itself at a named step. Started by install-crash.test.ts.

import type { PkgInstallPayload } from "@astraflow/protocol";
import { PackageInstaller } from "../src/packages/install-package.ts";
import type { InstallSettings } from "../src/packages/install-settings.ts";

interface KilledInstallerJob {
  readonly settings: InstallSettings;
  readonly request: PkgInstallPayload;
  readonly isUninstall: boolean;
  readonly killAt: string;
}

const { settings, request, isUninstall, killAt } = JSON.parse(process.argv[2] ?? "") as KilledInstallerJob;
const installer = new PackageInstaller(settings, {
  stagingId: "killed",
  installedAt: "2026-01-02T03:04:05Z",
  stageReached: () => {},
  failpoint: async (name) => {
    if (name !== killAt) return;
    process.kill(process.pid, "SIGKILL");
    // The signal may take a moment.
    await new Promise(() => setInterval(() => {}, 1_000));
  },
});
await (isUninstall ? installer.uninstall(request.name, request.version) : installer.install(request));
