// What a shell offers for the values of flags and arguments beyond commander's choices: suggestions that are not binding, and the keys and
// values of a query line. The command tables say which command has which.

import { eventDataSchemas } from "@astraflow/protocol";
import type { Command } from "commander";

/** The keys of a query line, as in queryKeys. */
export type FilterKeys = Readonly<
  Record<string, { readonly values?: readonly string[]; readonly isMany?: true; readonly isInstant?: true }>
>;

interface CompletionHints {
  /** By the name of a flag, without dashes, or of an argument. */
  readonly values?: Readonly<Record<string, readonly string[]>>;
  /** By the arguments before it: a flag may choose the list. */
  readonly filter?: (before: readonly string[]) => FilterKeys;
}

const hintsByCommand = new WeakMap<Command, CompletionHints>();

export function setCompletionHints(command: Command, more: CompletionHints): Command {
  hintsByCommand.set(command, { ...hintsByCommand.get(command), ...more });
  return command;
}

export const completionHintsOf = (command: Command): CompletionHints => hintsByCommand.get(command) ?? {};

/** Event types and their beginnings. */
export const eventTopics: readonly string[] = [
  ...new Set(
    Object.keys(eventDataSchemas).flatMap((type) => type.split(".").map((_, at, all) => all.slice(0, at + 1).join("."))),
  ),
];

/** The query line with its last term completed: a key, or the value of a key. */
export async function completeFilter(
  line: string,
  keys: FilterKeys,
  listNames: (key: string) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const from = line.lastIndexOf(" ") + 1;
  const [, key, value = ""] = /^([a-z]+):(.*)$/.exec(line.slice(from)) ?? [];
  if (key === undefined) return Object.keys(keys).map((one) => `${line.slice(0, from)}${one}:`);
  if (!Object.hasOwn(keys, key)) return [];
  const { values, isMany } = keys[key] ?? {};
  const found =
    values ?? (key === "topic" ? eventTopics : (await listNames(key)).filter((candidate) => !candidate.includes(" ")));
  return (isMany ? completeCommaList(value, found) : found).map((one) => `${line.slice(0, from)}${key}:${one}`);
}

/** Completes the last item of a comma-separated list; items that are already in it are not offered again. */
export function completeCommaList(value: string, args: readonly string[]): readonly string[] {
  const before = value.slice(0, value.lastIndexOf(",") + 1);
  const taken = before.split(",");
  return args.filter((candidate) => !taken.includes(candidate)).map((candidate) => `${before}${candidate}`);
}
