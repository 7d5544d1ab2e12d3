import { describe, expect, it } from "vitest";
import { readSettings } from "./read-settings.ts";
import { type SettingGrammar, SettingProblem } from "./setting-table.ts";

const readText = (given: unknown) => (given === "bad" ? new SettingProblem("is bad") : String(given));
const table = {
  dataDir: { flag: "dir", read: readText, help: "", default: "here" },
  name: { read: readText, help: "" },
  dev: { valueName: null, read: readText, help: "", default: "false" },
  token: { isList: true, read: readText, help: "", default: [] },
  old: { read: readText, help: "", ignoredBecause: "it is old" },
} as const;

const grammar: SettingGrammar = {
  prefix: "APP_",
  configVariable: "APP_CONFIG",
  requests: new Map([["--help", "help"]]),
  takesNextArgument: (_, isSwitch) => !isSwitch,
  isEmptyVariableUnset: true,
  fileKey: (key) => key,
  normalizeKey: (key) => key,
  unreadKeys: ["tenants"],
  fileValues: "text",
  sentences: {
    unknownFlag: (flag, hint) => `no flag ${flag}${hint}`,
    unexpectedArgument: (argument) => `unexpected ${argument}`,
    missingValue: (flag) => `${flag} needs a value`,
    givenTwice: (flag) => `${flag} twice`,
    unknownVariable: (name, hint) => `no variable ${name}${hint}`,
    unknownKey: (name, hint) => `no key ${name}${hint}`,
    unreadableFile: (file) => `${file} unreadable`,
    notAnObject: (file) => `${file} is no object`,
    keyInFile: (key, file) => `${key} in ${file}`,
    wrongFileValue: (name) => `${name} is no text`,
    invalidValue: (name, reason) => `${name} ${reason}`,
  },
};

const read = (argv: string[], env: Record<string, string> = {}, file: unknown = {}) =>
  readSettings(table, grammar, { argv, env, readFile: () => JSON.stringify(file) });

describe("settings by a table", () => {
  it("a setting's flag wins over the environment, that over the file, that over the default, and each origin is known", () => {
    const file = { dataDir: "file", name: "file", token: ["a", "b"], tenants: { acme: {} } };

    const result = read(["--dir", "flag", "--dev", "--config=c"], { APP_DATA_DIR: "env", APP_NAME: "env", APP_OLD: "1" }, file);

    expect(result.values).toMatchObject({ dataDir: "flag", name: "env", dev: "true", token: ["a", "b"] });
    expect([...result.origins].map(([key, { name }]) => [key, name])).toEqual([
      ["dataDir", "--dir"],
      ["name", "APP_NAME"],
      ["dev", "--dev"],
      ["token", "token in c"],
    ]);
    expect(result.unread).toEqual({ tenants: { value: { acme: {} }, name: "tenants in c" } });
    expect(result.warnings).toEqual(["APP_OLD has no effect: it is old"]);
    expect(read([], { APP_NAME: "" }).values).toMatchObject({ dataDir: "here", name: undefined, token: [] });
  });

  it("all problems of the settings are reported at once, unknown names with the nearest known one", () => {
    const argv = ["--nam", "x", "stray", "--dev", "--dev", "--data-dir=bad", "--config", "c", "--name"];

    expect(read(argv, { APP_DIR: "x", APP_TOKN: "x" }, { nmae: 1, old: {} }).problems).toEqual([
      "no flag --nam; did you mean --name?",
      "unexpected stray",
      "--dev twice",
      "--name needs a value",
      "no variable APP_DIR; did you mean APP_DATA_DIR?",
      "no variable APP_TOKN; did you mean APP_TOKEN?",
      "no key nmae in c; did you mean name?",
      "old in c is no text",
      "--data-dir is bad",
    ]);
  });
});
