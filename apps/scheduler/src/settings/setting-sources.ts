// Collects the words of every setting from flags, environment and file, in that order of strength, by the table. All problems are
// gathered, none stops the reading. Nothing here knows what a setting means.

import { didYouMean } from "@astraflow/protocol";
import { type Origin, Refusal } from "./setting-readers.ts";
import {
  environmentPrefix,
  flagOf,
  type SettingKey,
  type SettingRow,
  settingKeys,
  settingTable,
  variableOf,
} from "./setting-table.ts";

export interface Sources {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Throws where the file cannot be read. */
  readFile(path: string): string;
}

export interface Gathered {
  readonly values: ReadonlyMap<SettingKey, unknown>;
  /** The file's `tenants`, unread; undefined where there is none. Only a file can say as much. */
  readonly tenants: { readonly value: unknown; readonly name: string } | undefined;
  readonly problems: readonly string[];
  readonly wants: "start" | "help" | "version";
}

interface Found {
  readonly texts: readonly string[];
  readonly origin: Origin;
  /** As the person wrote it: a flag, a variable, a key of the file. */
  readonly name: string;
}

type FoundMap = Map<SettingKey, Found>;

export function gatherSettings(sources: Sources): Gathered {
  const problems: string[] = [];
  const flags = readFlags(sources.argv, problems);
  const variables = readVariables(sources.env, problems);
  const path = flags.config ?? sources.env[`${environmentPrefix}CONFIG`];
  const file: FileWords = path === undefined ? { found: new Map(), tenants: undefined } : readConfigFile(path, sources, problems);

  const values = new Map<SettingKey, unknown>();
  for (const key of settingKeys) {
    const found = flags.found.get(key) ?? variables.get(key) ?? file.found.get(key);
    if (found) readFound(key, found, { values, problems });
  }
  return { values, tenants: file.tenants, problems, wants: flags.wants };
}

function readFound(key: SettingKey, found: Found, into: { values: Map<SettingKey, unknown>; problems: string[] }): void {
  const row: SettingRow<unknown> = settingTable[key];
  const read = found.texts.map((text) => row.read(text, found.origin));
  for (const value of read) if (value instanceof Refusal) into.problems.push(`${found.name} ${value.reason}.`);
  const good = read.filter((value) => !(value instanceof Refusal));
  if (good.length > 0) into.values.set(key, row.isMany ? good.flat() : good.at(-1));
}

function readFlags(
  argv: readonly string[],
  problems: string[],
): { found: FoundMap; config: string | undefined; wants: Gathered["wants"] } {
  const byFlag = new Map(settingKeys.map((key) => [flagOf(key), key]));
  const known = [...byFlag.keys(), "--config", "--help", "--version"];
  const found: FoundMap = new Map();
  let config: string | undefined;
  let wants: Gathered["wants"] = "start";
  for (let i = 0; i < argv.length; i += 1) {
    const word = argv[i] ?? "";
    const [flag = "", ...rest] = word.split("=");
    const inline = word.includes("=") ? rest.join("=") : undefined;
    const key = byFlag.get(flag);
    if (flag === "--help" || flag === "-h") wants = "help";
    else if (flag === "--version") wants = "version";
    else if (key === undefined && flag !== "--config") {
      const kind = word.startsWith("-")
        ? `There is no flag ${flag}`
        : `"${word.replace(/:\/\/.*/s, "://…")}" is not expected here; settings are given as flags`;
      problems.push(`${kind}${didYouMean(flag, known) || "."} See astra scheduler --help.`);
      // Its value, if it looks like one, would only be a second complaint about the same slip.
      if (word.startsWith("-") && inline === undefined && argv[i + 1]?.startsWith("-") === false) i += 1;
    } else {
      const isSwitch = key !== undefined && settingTable[key].word === null;
      const next = argv[i + 1];
      const takesNext = inline === undefined && !isSwitch && next !== undefined && !next.startsWith("--");
      if (takesNext) i += 1;
      const text = inline ?? (takesNext ? next : isSwitch ? "true" : undefined);
      if (text === undefined) problems.push(`${flag} needs a value (${flag} ${key ? settingTable[key].word : "FILE"}).`);
      else if (key === undefined) config = text;
      else addFlag(found, { key, flag, text }, problems);
    }
  }
  return { found, config, wants };
}

function addFlag(found: FoundMap, given: { key: SettingKey; flag: string; text: string }, problems: string[]): void {
  const before = found.get(given.key);
  const row: SettingRow<unknown> = settingTable[given.key];
  if (before && !row.isMany) problems.push(`${given.flag} is given twice; keep one.`);
  found.set(given.key, { texts: [...(before?.texts ?? []), given.text], origin: "flag", name: given.flag });
}

function readVariables(env: Sources["env"], problems: string[]): FoundMap {
  const byName = new Map(settingKeys.map((key) => [variableOf(key), key]));
  const found: FoundMap = new Map();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(environmentPrefix) || text === undefined || name === `${environmentPrefix}CONFIG`) continue;
    const key = byName.get(name);
    if (key === undefined) problems.push(`There is no setting ${name}${didYouMean(name, [...byName.keys()]) || "; unset it."}`);
    else if (text !== "") {
      const row: SettingRow<unknown> = settingTable[key];
      found.set(key, {
        texts: row.isMany ? text.split(/[\s,]+/).filter((part) => part !== "") : [text],
        origin: "environment",
        name,
      });
    }
  }
  return found;
}

interface FileWords {
  readonly found: FoundMap;
  readonly tenants: Gathered["tenants"];
}

function readConfigFile(path: string, sources: Sources, problems: string[]): FileWords {
  const found: FoundMap = new Map();
  const nothing = { found, tenants: undefined };
  let value: unknown;
  try {
    value = JSON.parse(sources.readFile(path));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    problems.push(`The configuration file ${path} cannot be read as JSON (${why}); correct it or leave --config out.`);
    return nothing;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    problems.push(`The configuration file ${path} must hold one JSON object with settings by name, like {"logLevel": "warn"}.`);
    return nothing;
  }
  const { tenants, ...rest } = value as Record<string, unknown>;
  for (const [key, given] of Object.entries(rest)) {
    const known = settingKeys.find((one) => one === key);
    const texts = (Array.isArray(given) ? given : [given]).map(plainText);
    const row: SettingRow<unknown> | undefined = known && settingTable[known];
    if (known === undefined)
      problems.push(`There is no setting "${key}" in ${path}${didYouMean(key, [...settingKeys, "tenants"]) || "; remove it."}`);
    else if (texts.includes(undefined) || (texts.length !== 1 && !row?.isMany)) {
      problems.push(`"${key}" in ${path} must be one text, number or boolean${row?.isMany ? ", or a list of them" : ""}.`);
    } else found.set(known, { texts: texts.filter((text) => text !== undefined), origin: "file", name: `"${key}" in ${path}` });
  }
  return { found, tenants: tenants === undefined ? undefined : { value: tenants, name: `"tenants" in ${path}` } };
}

function plainText(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
