// How a program spells its settings and words its problems. The apps differ here, and each keeps what its users know.

export type SettingRequest = "run" | "help" | "version";

export interface SettingGrammar {
  /** Of the environment variables. */
  readonly prefix: string;
  /** The variable that names the configuration file, as --config does. */
  readonly configVariable: string;
  /** Flags that ask for something else than to run. */
  readonly requests: ReadonlyMap<string, SettingRequest>;
  /** Whether a flag without `=` takes the argument that follows it. A switch that does not is true. */
  takesNextArgument(next: string, isSwitch: boolean): boolean;
  readonly isEmptyVariableUnset: boolean;
  /** A key as the configuration file spells it. */
  fileKey(key: string): string;
  /** Keys that are the same after this are the same key. */
  normalizeKey(key: string): string;
  /** Keys of the file that are handed on unread. */
  readonly unreadKeys: readonly string[];
  /** Throws, or gives something else than an object, where the text cannot be used. */
  parseFile(text: string): unknown;
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
  unknownVariable(name: string, hint: string): string;
  unknownKey(name: string, hint: string): string;
  unreadableFile(file: string, reason: string): string;
  notAnObject(file: string): string;
  /** The name of a key in a file, as the other sentences get it. */
  keyInFile(key: string, file: string): string;
  wrongFileValue(name: string, isList: boolean): string;
  invalidValue(name: string, reason: string): string;
}
