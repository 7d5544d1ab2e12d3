// What `--help` prints: every setting that has an effect, by flag and variable, with its default. The settings are in settings.ts.

import { envPrefix, fileSetting, flagOf, type Setting, settings } from "./settings.ts";

export function describeUsage(): string {
  const rows = (settings as readonly Setting[]).filter((setting) => setting.without === undefined);
  return [
    "astra worker: takes tasks from a scheduler and runs them",
    "",
    "  astra worker --token dev-token --packages-dir examples/packages",
    "  astra worker --url wss://scheduler.example/ws/worker --token @worker.token",
    "",
    ...rows.flatMap((setting) => [
      `  --${flagOf(setting)}, ${envPrefix}${setting.name}`,
      `      ${setting.help}${setting.otherwise === undefined ? "" : ` (default ${setting.otherwise})`}`,
    ]),
    `  --config FILE, ${envPrefix}${fileSetting}`,
    "      JSON file with the same settings",
    "",
    "Flags win over the environment, that over the file.",
    "",
  ].join("\n");
}
