// `astra completion bash|zsh|fish`: the script that a shell loads, and the candidates that it asks for.

import { eventDataSchemas } from "@astraflow/protocol";
import type { Command, Option } from "commander";
import type { Client } from "../api/api-client.ts";

export const shells = ["bash", "zsh", "fish"] as const;
export type CompletionShell = (typeof shells)[number];

/** Each script runs `astra complete-words -- ARGS…`, whose last argument is the one being typed. */
const shellScripts: Readonly<Record<CompletionShell, string>> = {
  // Only bash leaves quotes and backslashes to the script, which removes the typed ones and adds those that are needed. Outside quotes it also
  // splits words at : and =, so the script joins them before it asks, and removes the part before the split from the candidates.
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

export const completionScript = (shell: CompletionShell): string => shellScripts[shell];

/** Arguments and flags whose values the scheduler knows, by their names. */
export type CompletionKind = "run" | "worker" | "workflow" | "letter" | "view" | "nodeType" | "package" | "packageKey";
const kindByArgument: Readonly<Record<string, CompletionKind>> = {
  run: "run",
  first: "run",
  second: "run",
  reuse: "run",
  worker: "worker",
  workflow: "workflow",
  task: "letter",
  view: "view",
  type: "nodeType",
  package: "package",
  keyId: "packageKey",
};

/** A flag of the scheduler or the worker, which read their own arguments. */
export interface AppFlag {
  readonly flag: string;
  /** The only values that it takes, if there are few. */
  readonly values?: readonly string[];
}

export interface CompletionSources {
  listNames(kind: CompletionKind): Promise<readonly string[]>;
  /** Null for a command of the CLI itself. */
  appFlags(name: string): Promise<readonly AppFlag[] | null>;
}

export async function completeCommandLine(
  program: Command,
  args: readonly string[],
  sources: CompletionSources,
): Promise<string[]> {
  // zsh passes the quote that opens an argument.
  const written = (args.at(-1) ?? "").replace(/^["']/, "");
  const [, joined, value] = /^(--[\w-]+)=(.*)$/s.exec(written) ?? [];
  // --flag=value is that flag, then its value.
  const before = joined === undefined ? args.slice(0, -1) : [...args.slice(0, -1), joined];
  const current = value ?? written;
  const found = await listCandidates(parseCommandLine(program, before), before, current, sources);
  const fitting = [...new Set(found)].filter((candidate) => candidate.startsWith(current)).sort();
  return joined === undefined ? fitting : fitting.map((candidate) => `${joined}=${candidate}`);
}

interface ParsedCommandLine {
  readonly command: Command;
  /** How many arguments are neither commands nor flags. */
  readonly operandCount: number;
  /** The flag whose value is being typed. */
  readonly flag: Option | null;
}

/** The command of a command line, whatever flags come before it. */
export function findCommand(program: Command, args: readonly string[]): { command: Command; path: readonly string[] } {
  const { command } = parseCommandLine(program, args);
  const path: string[] = [];
  for (let one: Command | null = command; one !== null && one !== program; one = one.parent) path.unshift(one.name());
  return { command, path };
}

function parseCommandLine(program: Command, args: readonly string[]): ParsedCommandLine {
  let command = program;
  let operands = 0;
  let flag: Option | null = null;
  for (const candidate of args) {
    if (flag !== null) flag = null;
    else if (candidate.startsWith("-")) {
      const option = command.options.find(({ long, short }) => long === candidate || short === candidate);
      if (option !== undefined && (option.required || option.optional)) flag = option;
    } else {
      const next = command.commands.find((one) => one.name() === candidate || one.aliases().includes(candidate));
      if (next === undefined) operands += 1;
      else command = next;
    }
  }
  return { command, operandCount: operands, flag };
}

async function listCandidates(
  { command, operandCount: operands, flag }: ParsedCommandLine,
  before: readonly string[],
  current: string,
  sources: CompletionSources,
): Promise<readonly string[]> {
  const apps = command.parent?.parent === null ? await sources.appFlags(command.name()) : null;
  if (apps !== null) return appFlagCandidates(apps, before.at(-1), current);
  if (flag !== null) return flagValueCandidates(command, flag, { before, current }, sources);
  if (current.startsWith("-"))
    return ["--help", ...command.options.flatMap(({ long, hidden }) => (hidden || !long ? [] : [long]))];
  const below = command.createHelp().visibleCommands(command);
  if (below.length > 0 && operands === 0) return below.map((one) => one.name());
  const argument = command.registeredArguments[operands];
  const name = argument?.name() ?? "";
  const kind = kindByArgument[name];
  const fixedValues = argument?.argChoices ?? hintsByCommand.get(command)?.suggestions?.[name];
  return fixedValues ?? (kind === undefined ? [] : sources.listNames(kind));
}

function appFlagCandidates(flags: readonly AppFlag[], last: string | undefined, current: string): readonly string[] {
  const values = flags.find(({ flag }) => flag === last)?.values;
  if (values !== undefined && !current.startsWith("-")) return values;
  return current.startsWith("-") ? ["--help", "--config", ...flags.map(({ flag }) => flag)] : [];
}

async function flagValueCandidates(
  command: Command,
  flag: Option,
  { before, current }: { readonly before: readonly string[]; readonly current: string },
  { listNames }: CompletionSources,
): Promise<readonly string[]> {
  const name = flag.long?.slice(2) ?? "";
  const ask = async (one: string): Promise<readonly string[]> =>
    kindByArgument[one] === undefined ? [] : listNames(kindByArgument[one]);
  const { filter, completesFilter, suggestions } = hintsByCommand.get(command) ?? {};
  const keys = completesFilter?.(before) ?? filter;
  if (name === "filter" && keys !== undefined) return completeFilter(current, keys, ask);
  if (name === "topics") return completeCommaList(current, eventTopics);
  return flag.argChoices ?? suggestions?.[name] ?? ask(name);
}

const candidatesMax = 200;

/** The id where a shell would split the name. */
const plainName = (name: string, id: string): string => (/^[\w.@-]+( [\w.@-]+)*$/.test(name) ? name : id);

type ListNames = (client: Client, query: { limit: number }) => Promise<string[]>;

const nameLists: Readonly<Record<CompletionKind, ListNames>> = {
  run: async (client, query) => (await client.listRuns(query)).items.map(({ runId }) => runId),
  worker: async (client, query) =>
    (await client.listWorkers(query)).items.map(({ id, instanceId }) => plainName(id, instanceId ?? id)),
  workflow: async (client, query) =>
    (await client.listWorkflows(query)).items.map(({ id, metadata }) => plainName(metadata.name, id)),
  letter: async (client, query) => (await client.listDeadLetters(query)).items.map(({ taskId }) => taskId),
  view: async (client, query) => (await client.listViews(query)).items.map(({ name, viewId }) => plainName(name, viewId)),
  nodeType: async (client, query) => (await client.searchNodes(query)).items.map(({ type }) => type),
  package: async (client, query) => (await client.listPackages(query)).items.map(({ name }) => name),
  packageKey: async (client) => (await client.listPackageKeys()).items.map(({ name, keyId }) => plainName(name, keyId)),
};

/** Current names on the scheduler. */
export const fetchNames = (kind: CompletionKind, client: Client): Promise<readonly string[]> =>
  nameLists[kind](client, { limit: candidatesMax });

/** The keys of a query line, as in queryKeys. */
type FilterKeys = Readonly<
  Record<string, { readonly values?: readonly string[]; readonly isMany?: true; readonly isInstant?: true }>
>;

export interface CompletionHints {
  /** Values that a shell offers for flags, without dashes, and arguments, by name; others are accepted too. */
  readonly suggestions?: Readonly<Record<string, readonly string[]>>;
  /** The keys of --filter. */
  readonly filter?: FilterKeys;
  /** For a --filter of its own: its keys, by the arguments before it. */
  readonly completesFilter?: (before: readonly string[]) => FilterKeys;
}

const hintsByCommand = new WeakMap<Command, CompletionHints>();

export const setCompletionHints = (command: Command, hints: CompletionHints): void => void hintsByCommand.set(command, hints);

/** Event types and their beginnings. */
const eventTopics: readonly string[] = [
  ...new Set(
    Object.keys(eventDataSchemas).flatMap((type) => type.split(".").map((_, at, all) => all.slice(0, at + 1).join("."))),
  ),
];

/** The query line with its last term completed: a key, or the value of a key. */
async function completeFilter(
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
function completeCommaList(value: string, args: readonly string[]): readonly string[] {
  const before = value.slice(0, value.lastIndexOf(",") + 1);
  const taken = before.split(",");
  return args.filter((candidate) => !taken.includes(candidate)).map((candidate) => `${before}${candidate}`);
}
