// The text of `astra worker --help`: every setting that has an effect, with its flag, its variable and its default.

import { flagsOf, type SettingRow, variableOf } from "@astraflow/settings";
import { configVariable, variablePrefix, workerSettings } from "./setting-table.ts";

/** The settings that have an effect, as `--help` and the command line's completion show them. */
export const listedSettings = Object.entries<SettingRow<never>>(workerSettings)
  .filter(([, row]) => row.ignoredBecause === undefined)
  .map(([key, row]) => ({ ...row, key, flag: flagsOf(key, row)[0] ?? "", variable: variableOf(variablePrefix, key) }));

export function renderHelp(): string {
  return [
    "astra worker: takes tasks from a scheduler and runs them",
    "",
    "  astra worker --token dev-token --packages-dir examples/packages",
    "  astra worker --url wss://scheduler.example/ws/worker --token @worker.token",
    "",
    ...listedSettings.flatMap((row) => [
      `  ${row.flag}, ${row.variable}`,
      `      ${row.help}${row.default === undefined ? "" : ` (default ${String(row.default)})`}`,
    ]),
    `  --config FILE, ${configVariable}`,
    "      JSON file with the same settings",
    "",
    "Flags win over the environment, that over the file.",
    "",
  ].join("\n");
}
