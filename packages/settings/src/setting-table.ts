// What a table of settings looks like, and what a setting is called as a flag and as a variable.

/** Why a value cannot be used, as the end of a sentence that begins with the setting's name. */
export class SettingProblem {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

export type SettingOrigin = "flag" | "environment" | "file";

export interface SettingRow<Sources = unknown> {
  /** A shorter flag beside the one that follows from the key. */
  readonly flag?: string;
  /** What follows the flag in --help; null: a switch, which needs no value. */
  readonly valueName?: string | null;
  readonly help: string;
  readonly default?: unknown;
  /** May be given several times; the values are collected. */
  readonly isList?: boolean;
  /** The only values there are, for completion. */
  readonly choices?: readonly string[];
  /** Why the setting, though known and read, has no effect. */
  readonly ignoredBecause?: string;
  /** Reads a text, or from a file perhaps a JSON value (see SettingGrammar). Only `sources` may be asked for more. */
  read(value: unknown, origin: SettingOrigin, sources: Sources): unknown;
}

/** By key, in camelCase or SCREAMING_CASE. */
export type SettingTable<Sources = unknown> = Readonly<Record<string, SettingRow<Sources>>>;

/** What the rows of a table read; undefined where a setting is not given and has no default. */
export type SettingValues<Table extends SettingTable<never>> = {
  readonly [K in keyof Table]:
    | Exclude<ReturnType<Table[K]["read"]>, SettingProblem>
    | (Table[K] extends { readonly default: unknown } ? never : undefined);
};

/** The flags of a setting, the one to show first. */
export function flagsOf(key: string, { flag }: Pick<SettingRow, "flag">): readonly string[] {
  const full = `--${snakeCase(key).toLowerCase().replaceAll("_", "-")}`;
  return flag === undefined ? [full] : [`--${flag}`, full];
}

export const variableOf = (prefix: string, key: string): string => prefix + snakeCase(key).toUpperCase();

const snakeCase = (key: string): string => key.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`);
