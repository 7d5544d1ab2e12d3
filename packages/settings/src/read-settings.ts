// Reads all settings of a table: a flag wins over the environment, that over the file, that over the default. Collects all problems.

import { didYouMean, errorMessage, Fault, isRecord, limits, readJson } from "@astraflow/protocol";
import {
  flagsOf,
  type SettingGrammar,
  type SettingOrigin,
  SettingProblem,
  type SettingRequest,
  type SettingTable,
  type SettingValues,
  type VariableGrammar,
  variableOf,
} from "./setting-table.ts";

export interface SettingSources {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Throws where the file cannot be read. */
  readFile(path: string): string;
}

interface GivenSetting {
  readonly values: readonly unknown[];
  readonly origin: SettingOrigin;
  /** As the user wrote it: a flag, a variable, a key in a file. */
  readonly name: string;
}

export interface SettingsResult<Table extends SettingTable<never>> {
  readonly request: SettingRequest;
  /** Not to be used where there are problems, but for checks that look for more of them. */
  readonly values: SettingValues<Table>;
  /** The settings that were given, and where. */
  readonly origins: ReadonlyMap<keyof Table, Pick<GivenSetting, "origin" | "name"> & { readonly value: unknown }>;
  readonly unread: Readonly<Record<string, { readonly value: unknown; readonly name: string }>>;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

type GivenSettings = ReadonlyMap<string, GivenSetting>;

export function readSettings<Sources extends SettingSources, Table extends SettingTable<Sources>>(
  table: Table,
  grammar: SettingGrammar,
  sources: Sources,
): SettingsResult<Table> {
  const reader = new SettingsReader(table, grammar);
  const flags = reader.readFlags(sources.argv);
  const variables = readVariables(table, grammar, sources.env, reader.problems);
  const file = reader.readFile(flags.file ?? sources.env[grammar.configVariable], sources);
  const chosen = chooseValues(table, [flags.given, variables, file.given], sources, grammar);
  const problems = [...reader.problems, ...chosen.problems];
  return { ...chosen, problems, request: flags.request, unread: file.unread };
}

/** For a program whose flags, by key, another parser has read. An unknown variable is a warning: other programs share the prefix. */
export function readFlagsAndVariables<Sources extends Pick<SettingSources, "env">, Table extends SettingTable<Sources>>(
  table: Table,
  grammar: VariableGrammar,
  flags: Readonly<Record<string, unknown>>,
  sources: Sources,
): Pick<SettingsResult<Table>, "values" | "origins" | "problems" | "warnings"> {
  const warnings: string[] = [];
  const variables = readVariables(table, grammar, sources.env, warnings);
  const given = Object.entries(table)
    .filter(([key]) => flags[key] !== undefined)
    .map(([key, row]) => [key, { values: [flags[key]], origin: "flag" as const, name: flagsOf(key, row)[0] ?? "" }] as const);
  const chosen = chooseValues(table, [new Map(given), variables], sources, grammar);
  return { ...chosen, warnings: [...warnings, ...chosen.warnings] };
}

/** The first of several sources that has a setting wins. */
function chooseValues<Sources, Table extends SettingTable<Sources>>(
  table: Table,
  givenSettings: readonly GivenSettings[],
  sources: Sources,
  { sentences }: VariableGrammar,
) {
  const problems: string[] = [];
  const warnings: string[] = [];
  const values: Record<string, unknown> = {};
  const origins = new Map<keyof Table, GivenSetting & { value: unknown }>();
  for (const [key, row] of Object.entries(table)) {
    values[key] = row.default;
    const given = givenSettings.find((one) => one.has(key))?.get(key);
    if (given === undefined) continue;
    const read = given.values.map((value) => row.read(value, given.origin, sources));
    const good = read.filter((value) => !(value instanceof SettingProblem));
    for (const value of read)
      if (value instanceof SettingProblem) problems.push(sentences.invalidValue(given.name, value.reason));
    if (good.length === 0) continue;
    if (row.ignoredBecause !== undefined) warnings.push(`${given.name} has no effect: ${row.ignoredBecause}`);
    else {
      values[key] = row.isList ? good.flat() : good.at(-1);
      origins.set(key, { ...given, value: given.values.at(-1) });
    }
  }
  return { values: values as SettingValues<Table>, origins, problems, warnings };
}

function readVariables(
  table: SettingTable<never>,
  { prefix, configVariable, isEmptyVariableUnset, sentences }: VariableGrammar,
  env: SettingSources["env"],
  problems: string[],
): GivenSettings {
  const keys = new Map(Object.keys(table).map((key) => [variableOf(prefix, key), key]));
  const given = new Map<string, GivenSetting>();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(prefix) || text === undefined || name === configVariable) continue;
    const key = keys.get(name);
    if (key === undefined) {
      const sentence = sentences.unknownVariable(name, didYouMean(variableByFlag(table, prefix, name) ?? name, keys.keys()));
      if (sentence !== null) problems.push(sentence);
    } else if (text !== "" || !isEmptyVariableUnset) {
      const values = table[key]?.isList ? text.split(/[\s,]+/).filter((part) => part !== "") : [text];
      given.set(key, { values, origin: "environment", name });
    }
  }
  return given;
}

/** Whoever knows the flag --token looks for PREFIX_TOKEN, although its variable may have another name. */
function variableByFlag(table: SettingTable<never>, prefix: string, name: string): string | undefined {
  const key = Object.keys(table).find((one) => variableOf(prefix, table[one]?.flag?.replaceAll("-", "_") ?? one) === name);
  return key === undefined ? undefined : variableOf(prefix, key);
}

class SettingsReader {
  readonly problems: string[] = [];
  readonly #table: SettingTable<never>;
  readonly #grammar: SettingGrammar;
  readonly #keys: readonly string[];

  constructor(table: SettingTable<never>, grammar: SettingGrammar) {
    this.#table = table;
    this.#grammar = grammar;
    this.#keys = Object.keys(table);
  }

  readFlags(argv: readonly string[]): { given: Map<string, GivenSetting>; file: string | undefined; request: SettingRequest } {
    const { sentences, requests, takesNextArgument } = this.#grammar;
    const keys = new Map(Object.entries(this.#table).flatMap(([key, row]) => flagsOf(key, row).map((flag) => [flag, key])));
    const shown = Object.entries(this.#table).map(([key, row]) => flagsOf(key, row)[0] ?? "");
    const known = [...shown, "--config", ...[...requests.keys()].filter((flag) => flag.startsWith("--"))];
    const given = new Map<string, GivenSetting>();
    let file: string | undefined;
    let request: SettingRequest = "run";
    for (let index = 0; index < argv.length; index++) {
      const argument = argv[index] ?? "";
      const [, flag = "", inline] = /^([^=]*)(?:=(.*))?$/s.exec(argument) ?? [];
      const next = argv[index + 1];
      const key = keys.get(flag);
      if (requests.has(flag)) request = requests.get(flag) ?? request;
      else if (key === undefined && flag !== "--config") {
        const hint = didYouMean(flag, known);
        if (flag.startsWith("-")) this.problems.push(sentences.unknownFlag(flag, hint));
        else this.problems.push(sentences.unexpectedArgument(argument, hint));
        // The value of an unknown flag is not a problem of its own.
        if (flag.startsWith("-") && inline === undefined && next?.startsWith("-") === false) index++;
      } else {
        const valueName = key === undefined ? "FILE" : this.#table[key]?.valueName;
        const takesNext = inline === undefined && next !== undefined && takesNextArgument(next, valueName === null);
        if (takesNext) index++;
        const value = inline ?? (takesNext ? next : valueName === null ? "true" : undefined);
        if (value === undefined) this.problems.push(sentences.missingValue(flag, valueName ?? "VALUE"));
        else if (key === undefined) file = value;
        else this.#addFlag(given, key, flag, value);
      }
    }
    return { given, file, request };
  }

  #addFlag(given: Map<string, GivenSetting>, key: string, flag: string, value: string): void {
    const { givenTwice } = this.#grammar.sentences;
    const before = given.get(key)?.values ?? [];
    const isList = this.#table[key]?.isList === true;
    if (before.length > 0 && !isList && givenTwice !== null) this.problems.push(givenTwice(flag));
    const values = isList || givenTwice !== null ? [...before, value] : [value];
    given.set(key, { values, origin: "flag", name: flag });
  }

  readFile(
    file: string | undefined,
    sources: SettingSources,
  ): { given: GivenSettings; unread: SettingsResult<SettingTable>["unread"] } {
    const { sentences, unreadKeys, normalizeKey, fileKey } = this.#grammar;
    const given = new Map<string, GivenSetting>();
    const unread: Record<string, { value: unknown; name: string }> = {};
    for (const [written, value] of file === undefined ? [] : Object.entries(this.#parseFile(file, sources))) {
      const name = sentences.keyInFile(written, file ?? "");
      const key = this.#keys.find((one) => normalizeKey(fileKey(one)) === normalizeKey(written));
      if (unreadKeys.includes(written)) unread[written] = { value, name };
      else if (key === undefined) {
        const hint = didYouMean(fileKey(written), [...this.#keys.map(fileKey), ...unreadKeys]);
        this.problems.push(sentences.unknownKey(name, hint));
      } else {
        const isList = this.#table[key]?.isList === true;
        const values = this.#grammar.fileValues === "json" ? [value] : toTexts(value, isList);
        if (values === null) this.problems.push(sentences.wrongFileValue(name, isList));
        else given.set(key, { values, origin: "file", name });
      }
    }
    return { given, unread };
  }

  #parseFile(file: string, sources: SettingSources): object {
    const { sentences } = this.#grammar;
    let text: string;
    try {
      text = sources.readFile(file);
    } catch (cause) {
      this.problems.push(sentences.unreadableFile(file, errorMessage(cause)));
      return {};
    }
    const value = readJson(text, { ...limits.json.manifest, subject: "it" });
    if (value instanceof Fault) this.problems.push(sentences.unreadableFile(file, describeJsonFault(value, file)));
    else if (isRecord(value)) return value;
    else this.problems.push(sentences.notAnObject(file));
    return {};
  }
}

/** Without the line itself: the file may hold secrets. */
function describeJsonFault({ message, details = {} }: Fault, file: string): string {
  const { line, column, problem } = details;
  return line === undefined ? message : `it is not JSON at ${file}:${String(line)}:${String(column)}: ${String(problem)}`;
}

/** Null where it is not one text, number or boolean, or a list of them where a list may be. */
function toTexts(value: unknown, isList: boolean): string[] | null {
  const items: unknown[] = Array.isArray(value) ? value : [value];
  const isText = items.every((item) => ["string", "number", "boolean"].includes(typeof item));
  return isText && (items.length === 1 || isList) ? items.map(String) : null;
}
