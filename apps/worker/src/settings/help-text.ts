// What `--help` prints: every setting that has an effect, by flag and variable, with its default. The settings are in settings.ts.

import { configFileSetting, envPrefix, type WorkerSetting, workerFlagOf, workerSettings } from "./setting-table.ts";

export function renderHelp(): string {
  const rows = (workerSettings as readonly WorkerSetting[]).filter((setting) => setting.without === undefined);
  return [
    "astra worker: takes tasks from a scheduler and runs them",
    "",
    "  astra worker --token dev-token --packages-dir examples/packages",
    "  astra worker --url wss://scheduler.example/ws/worker --token @worker.token",
    "",
    ...rows.flatMap((setting) => [
      `  --${workerFlagOf(setting)}, ${envPrefix}${setting.name}`,
      `      ${setting.help}${setting.otherwise === undefined ? "" : ` (default ${setting.otherwise})`}`,
    ]),
    `  --config FILE, ${envPrefix}${configFileSetting}`,
    "      JSON file with the same settings",
    "",
    "Flags win over the environment, that over the file.",
    "",
  ].join("\n");
}
