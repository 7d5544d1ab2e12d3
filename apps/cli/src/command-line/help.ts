// The help of a command: one line, examples, then arguments, flags and commands. The texts are in *-command-definitions.ts.

import type { Command, Help, Option } from "commander";

const examples = new WeakMap<Command, readonly string[]>();

export function setExamples(command: Command, lines: readonly string[]): Command {
  examples.set(command, lines);
  return command;
}

const examplesOf = (command: Command): readonly string[] => examples.get(command) ?? [];

/** Flags of nearly every command come last: people look for the special ones. */
const commonFlags: ReadonlySet<string> = new Set(
  ["url", "token", "ca", "verbose", "json", "quiet", "no-color", "output", "limit", "help"].map((name) => `--${name}`),
);

/** Replaces commander's own order, which begins with the usage and shows no examples. */
export function formatHelp(command: Command, helper: Help): string {
  const width = helper.padWidth(command, helper);
  const row = (term: string, description: string): string => helper.formatItem(term, width, description, helper);
  const section = (title: string, rows: readonly string[]): string[] => (rows.length === 0 ? [] : ["", `${title}:`, ...rows]);
  const term = helper.argumentTerm.bind(helper);
  const flags = helper.visibleOptions(command);
  const flagRow = (one: Option): string => row(helper.optionTerm(one), helper.optionDescription(one));
  return [
    helper.commandDescription(command),
    ...section(
      "Examples",
      examplesOf(command).map((line) => `  ${line}`),
    ),
    "",
    `Usage: ${helper.commandUsage(command)}`,
    ...section(
      "Arguments",
      helper.visibleArguments(command).map((one) => row(term(one), helper.argumentDescription(one))),
    ),
    ...section("Flags", flags.filter(({ long }) => !commonFlags.has(long ?? "")).map(flagRow)),
    ...section("Common flags", flags.filter(({ long }) => commonFlags.has(long ?? "")).map(flagRow)),
    ...section(
      "Commands",
      helper.visibleCommands(command).map((one) => row(helper.subcommandTerm(one), helper.subcommandDescription(one))),
    ),
    "",
  ].join("\n");
}
