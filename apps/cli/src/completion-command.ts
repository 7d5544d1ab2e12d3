// `astra completion bash|zsh|fish`: the script that a shell loads, and the answers that it asks this program for: commands, flags, their
// values, and the ids and names that live on the scheduler now.

import type { Command, Option } from "commander";
import type { Client } from "./client.ts";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** Each script asks `astra complete-words -- WORDS…`, whose last word is the one that is being written. */
const scripts: Readonly<Record<Shell, string>> = {
  // bash alone leaves quotes and backslashes to the script: those that are typed are taken off, those that are needed put on.
  bash: `_astra() {
  local word=\${COMP_WORDS[COMP_CWORD]} quote='' one
  case $word in
    [\\"\\']*) quote=\${word:0:1} word=\${word:1} ;;
    *) word=\${word//\\\\/} ;;
  esac
  COMPREPLY=()
  while IFS= read -r one; do
    if [ -z "$quote" ]; then printf -v one %q "$one"; fi
    COMPREPLY+=("$one")
  done < <(astra complete-words -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)
}
complete -o default -F _astra astra
`,
  zsh: `#compdef astra
_astra() {
  local -a found
  found=("\${(@f)$(astra complete-words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${#found} )) && [[ -n "\${found[1]}" ]]; then compadd -- "\${found[@]}"; else _files; fi
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

export async function completeWords(
  program: Command,
  words: readonly string[],
  live: (kind: Kind) => Promise<readonly string[]>,
): Promise<string[]> {
  const current = words.at(-1) ?? "";
  const { command, operands, flag } = walk(program, words.slice(0, -1));
  const found = await candidates({ command, operands, flag, current, live });
  return [...new Set(found)].filter((word) => word.startsWith(current)).sort();
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
  asked: Walk & { current: string; live: (kind: Kind) => Promise<readonly string[]> },
): Promise<readonly string[]> {
  const { command, operands, flag, current, live } = asked;
  if (flag !== null) {
    const kind = kinds[flag.long?.slice(2) ?? ""];
    return flag.argChoices ?? (kind === undefined ? [] : live(kind));
  }
  if (current.startsWith("-"))
    return ["--help", ...command.options.flatMap(({ long, hidden }) => (hidden || !long ? [] : [long]))];
  const below = command.createHelp().visibleCommands(command);
  if (below.length > 0 && operands === 0) return below.map((one) => one.name());
  const argument = command.registeredArguments[operands];
  const kind = kinds[argument?.name() ?? ""];
  return argument?.argChoices ?? (kind === undefined ? [] : live(kind));
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
