// Reads a program's settings from flags, environment and file by a table. Which settings there are, and what they mean, is the app's.

export { deepFreeze } from "./deep-freeze.ts";
export { isLoopbackHost } from "./loopback.ts";
export { readSettings, type SettingSources, type SettingsResult } from "./read-settings.ts";
export { firstSecretLine, readSecretArgument } from "./secret-argument.ts";
export type { SettingGrammar, SettingRequest, SettingSentences } from "./setting-grammar.ts";
export {
  flagsOf,
  type SettingOrigin,
  SettingProblem,
  type SettingRow,
  type SettingTable,
  type SettingValues,
  variableOf,
} from "./setting-table.ts";
