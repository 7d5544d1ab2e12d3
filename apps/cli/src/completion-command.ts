// `astra completion bash|zsh|fish`: the script that a shell loads, and the answers that it asks this program for: commands, flags, their
// values, and the ids and names that live on the scheduler now.

import type { Command, Option } from "commander";
import type { Client } from "./client.ts";
import { filterWords, listWords, offersOf, topicWords } from "./offers.ts";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** Each script asks `astra complete-words -- WORDS…`, whose last word is the one that is being written. */
const scripts: Readonly<Record<Shell, string>> = {
  // bash alone leaves quotes and backslashes to the script: those that are typed are taken off, those that are needed put on. It also breaks
  // words at : and =, outside quotes: they are put together for the question, and what stands before the break is taken off the answers.
  bash: `_astra() {
  local words=() joins='' piece word quote='' head='' one
  for piece in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    case $piece in
      [:=]*) if [ \${#words[@]} -gt 0 ]; then words[-1]+=$piece; else words+=("$piece"); fi; joins=1 ;;
      *) if [ -n "$joins" ]; then words[-1]+=$piece; else words+=("$piece"); fi; joins='' ;;
    esac
  done
  word=\${words[-1]}
  case $word in
    [\\"\\']*) quote=\${word:0:1} word=\${word:1} ;;
    *) word=\${word//\\\\/} head=\${word%"\${word##*[:=]}"} ;;
  esac
  words[-1]=$word
  COMPREPLY=()
  while IFS= read -r one; do
    case $one in *:) compopt -o nospace 2>/dev/null ;; esac
    one=\${one#"$head"}
    if [ -z "$quote" ]; then printf -v one %q "$one"; one=\${one//\\\\,/,}; fi
    COMPREPLY+=("$one")
  done < <(astra complete-words -- "\${words[@]}" 2>/dev/null)
}
complete -o default -F _astra astra
`,
  zsh: `#compdef astra
_astra() {
  local -a found
  found=("\${(@f)$(astra complete-words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${#found} )) && [[ -n "\${found[1]}" ]]; then
    if [[ "\${found[1]}" == *: ]]; then compadd -S '' -- "\${found[@]}"; else compadd -- "\${found[@]}"; fi
  else _files; fi
}
compdef _astra astra
`,
  fish: `function __astra_words
  set -l words (commandline -opc) (commandline -ct)
  astra complete-words -- $words[2..-1] 2>/dev/null
end
complete -c astra -a '(__astra_words)'
`,
};

export const completionScript = (shell: Shell): string => scripts[shell];

/** What arguments and flags are named after, where the scheduler knows the answers. */
export type Kind = "run" | "worker" | "workflow" | "letter" | "view";
const kinds: Readonly<Record<string, Kind>> = {
  run: "run",
  first: "run",
  second: "run",
  reuse: "run",
  worker: "worker",
  workflow: "workflow",
  task: "letter",
  view: "view",
};

/** A flag of a program that reads its own words. */
export interface AppFlag {
  readonly flag: string;
  /** The only values there are, where they can be counted. */
  readonly values?: readonly string[];
}

export interface Known {
  live(kind: Kind): Promise<readonly string[]>;
  /** Of a command whose words another program reads; null of any other. */
  appFlags(name: string): Promise<readonly AppFlag[] | null>;
}

export async function completeWords(program: Command, words: readonly string[], known: Known): Promise<string[]> {
  // zsh hands on the quote that opens a word.
  const written = (words.at(-1) ?? "").replace(/^["']/, "");
  const [, joined, value] = /^(--[\w-]+)=(.*)$/s.exec(written) ?? [];
  // --flag=value is that flag, then its value.
  const before = joined === undefined ? words.slice(0, -1) : [...words.slice(0, -1), joined];
  const current = value ?? written;
  const found = await candidates(walk(program, before), before, current, known);
  const fitting = [...new Set(found)].filter((word) => word.startsWith(current)).sort();
  return joined === undefined ? fitting : fitting.map((word) => `${joined}=${word}`);
}

interface Walk {
  readonly command: Command;
  /** Words that are neither commands nor flags. */
  readonly operands: number;
  /** The flag whose value is being written. */
  readonly flag: Option | null;
}

/** The command that a line means, whatever flags stand before it. */
export function commandOf(program: Command, words: readonly string[]): { command: Command; path: readonly string[] } {
  const { command } = walk(program, words);
  const path: string[] = [];
  for (let one: Command | null = command; one !== null && one !== program; one = one.parent) path.unshift(one.name());
  return { command, path };
}

function walk(program: Command, words: readonly string[]): Walk {
  let command = program;
  let operands = 0;
  let flag: Option | null = null;
  for (const word of words) {
    if (flag !== null) flag = null;
    else if (word.startsWith("-")) {
      const option = command.options.find(({ long, short }) => long === word || short === word);
      if (option !== undefined && (option.required || option.optional)) flag = option;
    } else {
      const next = command.commands.find((one) => one.name() === word || one.aliases().includes(word));
      if (next === undefined) operands += 1;
      else command = next;
    }
  }
  return { command, operands, flag };
}

async function candidates(
  { command, operands, flag }: Walk,
  before: readonly string[],
  current: string,
  known: Known,
): Promise<readonly string[]> {
  const apps = command.parent?.parent === null ? await known.appFlags(command.name()) : null;
  if (apps !== null) return appWords(apps, before.at(-1), current);
  if (flag !== null) return valueWords(command, flag, { before, current }, known);
  if (current.startsWith("-"))
    return ["--help", ...command.options.flatMap(({ long, hidden }) => (hidden || !long ? [] : [long]))];
  const below = command.createHelp().visibleCommands(command);
  if (below.length > 0 && operands === 0) return below.map((one) => one.name());
  const argument = command.registeredArguments[operands];
  const name = argument?.name() ?? "";
  const kind = kinds[name];
  const given = argument?.argChoices ?? offersOf(command).values?.[name];
  return given ?? (kind === undefined ? [] : known.live(kind));
}

function appWords(flags: readonly AppFlag[], last: string | undefined, current: string): readonly string[] {
  const values = flags.find(({ flag }) => flag === last)?.values;
  if (values !== undefined && !current.startsWith("-")) return values;
  return current.startsWith("-") ? ["--help", "--config", ...flags.map(({ flag }) => flag)] : [];
}

async function valueWords(
  command: Command,
  flag: Option,
  { before, current }: { readonly before: readonly string[]; readonly current: string },
  { live }: Known,
): Promise<readonly string[]> {
  const name = flag.long?.slice(2) ?? "";
  const ask = async (one: string): Promise<readonly string[]> => (kinds[one] === undefined ? [] : live(kinds[one]));
  const { filter, values } = offersOf(command);
  if (name === "filter" && filter !== undefined) return filterWords(current, filter(before), ask);
  if (name === "topics") return listWords(current, topicWords);
  return flag.argChoices ?? values?.[name] ?? ask(name);
}

const offeredMax = 200;

/** Names and ids as they are on the scheduler now; the id where a name has signs at which a shell breaks words. */
export async function liveWords(kind: Kind, client: Client): Promise<readonly string[]> {
  const plain = (name: string, id: string): string => (/^[\w.@-]+( [\w.@-]+)*$/.test(name) ? name : id);
  const limit = offeredMax;
  switch (kind) {
    case "run":
      return (await client.listRuns({ limit })).items.map(({ runId }) => runId);
    case "worker":
      return (await client.listWorkers({ limit })).items.map(({ id, instanceId }) => plain(id, instanceId ?? id));
    case "workflow":
      return (await client.listWorkflows({ limit })).items.map(({ id, metadata }) => plain(metadata.name, id));
    case "letter":
      return (await client.listDeadLetters({ limit })).items.map(({ taskId }) => taskId);
    case "view":
      return (await client.listViews({ limit })).items.map(({ name, viewId }) => plain(name, viewId));
  }
}
