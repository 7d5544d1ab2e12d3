// The help of a command: one line, examples, then arguments, flags and commands. The texts are in *-command-definitions.ts.

import type { Command, Help, Option } from "commander";

const examplesByCommand = new WeakMap<Command, readonly string[]>();

export const setExamples = (command: Command, lines: readonly string[]): void => void examplesByCommand.set(command, lines);

/** Flags of nearly every command come last: people look for the special ones. */
const commonFlags: ReadonlySet<string> = new Set(
  ["url", "token", "ca", "verbose", "json", "quiet", "no-color", "output", "limit", "help"].map((name) => `--${name}`),
);

/** Replaces commander's own order, which begins with the usage and shows no examples. */
export function formatHelp(command: Command, helper: Help): string {
  const width = helper.padWidth(command, helper);
  const row = (term: string, description: string): string => helper.formatItem(term, width, description, helper);
  const section = (title: string, rows: readonly string[]): string[] => (rows.length === 0 ? [] : ["", `${title}:`, ...rows]);
  const flagRow = (one: Option): string => row(helper.optionTerm(one), helper.optionDescription(one));
  const flags = helper.visibleOptions(command);
  const examples = (examplesByCommand.get(command) ?? []).map((line) => `  ${line}`);
  const args = helper.visibleArguments(command).map((one) => row(helper.argumentTerm(one), helper.argumentDescription(one)));
  const below = helper.visibleCommands(command).map((one) => row(helper.subcommandTerm(one), helper.subcommandDescription(one)));
  return [
    helper.commandDescription(command),
    ...section("Examples", examples),
    "",
    `Usage: ${helper.commandUsage(command)}`,
    ...section("Arguments", args),
    ...section("Flags", flags.filter(({ long }) => !commonFlags.has(long ?? "")).map(flagRow)),
    ...section("Common flags", flags.filter(({ long }) => commonFlags.has(long ?? "")).map(flagRow)),
    ...section("Commands", below),
    "",
  ].join("\n");
}
