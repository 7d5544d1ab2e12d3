// Reads a program's settings from flags, environment and file by a table. Which settings there are, and what they mean, is the app's.

export { readFlagsAndVariables, readSettings, type SettingSources, type SettingsResult } from "./read-settings.ts";
export { formatSettingsHelp } from "./setting-help.ts";
export {
  flagsOf,
  type SettingGrammar,
  type SettingOrigin,
  SettingProblem,
  type SettingRequest,
  type SettingRow,
  type SettingSentences,
  type SettingTable,
  type SettingValues,
  variableOf,
} from "./setting-table.ts";
export { deepFreeze, firstSecretLine, isLoopbackHost, readSecretArgument } from "./setting-values.ts";
