// What a table of settings looks like, what a setting is called as a flag and as a variable, and how a program words its problems.

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

const snakeCase = (key: string): string => key.replace(/(?<=[a-z])[A-Z]/g, (character) => `_${character}`);

export type SettingRequest = "run" | "help" | "version" | "check";

/** How environment variables are spelled. */
export interface VariableGrammar {
  readonly prefix: string;
  /** The variable that names the configuration file, as --config does. */
  readonly configVariable?: string;
  readonly isEmptyVariableUnset: boolean;
  readonly sentences: Pick<SettingSentences, "unknownVariable" | "invalidValue">;
}

export interface SettingGrammar extends VariableGrammar {
  readonly configVariable: string;
  /** Flags that ask for something else than to run. */
  readonly requests: ReadonlyMap<string, SettingRequest>;
  /** Whether a flag without `=` takes the argument that follows it. A switch that does not is true. */
  takesNextArgument(next: string, isSwitch: boolean): boolean;
  /** A key as the configuration file spells it. */
  fileKey(key: string): string;
  /** Keys that are the same after this are the same key. */
  normalizeKey(key: string): string;
  /** Keys of the file that are handed on unread. */
  readonly unreadKeys: readonly string[];
  /** text: a value of the file becomes a text, or a list of texts where the row is a list. json: readers get it as it is. */
  readonly fileValues: "text" | "json";
  readonly sentences: SettingSentences;
}

/** A `hint` is empty, or `; did you mean X?`. */
export interface SettingSentences {
  unknownFlag(flag: string, hint: string): string;
  unexpectedArgument(argument: string, hint: string): string;
  missingValue(flag: string, valueName: string): string;
  /** Null: the last one wins. */
  readonly givenTwice: ((flag: string) => string) | null;
  /** Null: not worth a word. */
  unknownVariable(name: string, hint: string): string | null;
  unknownKey(name: string, hint: string): string;
  unreadableFile(file: string, reason: string): string;
  notAnObject(file: string): string;
  /** The name of a key in a file, as the other sentences get it. */
  keyInFile(key: string, file: string): string;
  wrongFileValue(name: string, isList: boolean): string;
  invalidValue(name: string, reason: string): string;
}
