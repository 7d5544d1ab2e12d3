// What a row of a command table is, and how it becomes a command of commander: its flags, its help (one line, examples, then arguments, flags and
// commands), and the context it runs in.

import { resolveInstant } from "@astraflow/protocol";
import { Argument, type Command, type Help, InvalidArgumentError, Option } from "commander";
import { createCliClient } from "../api/api-client.ts";
import { endpointSettings, resolveApiEndpoint } from "../api/api-endpoint.ts";
import { type CommandContext, type OutputForm, outputForms, type Switches, type TextInput } from "../api/command-context.ts";
import { createConfirmation, createDryRunClient, type PromptUser } from "../api/confirmation.ts";
import { type CompletionHints, setCompletionHints } from "../completion/completion.ts";
import { exitCodes } from "../output/cli-failure.ts";
import { type ListenForKeys, type OutputStream, Terminal } from "../output/terminal.ts";

export interface CliEnvironment {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first signal to stop, and by the second. */
  readonly stopSignal: AbortSignal;
  readonly forceStopSignal: AbortSignal;
  /** Absent or null without a terminal. */
  readonly promptUser?: PromptUser;
  readonly listenForKeys?: ListenForKeys;
  /** Opens an address in a browser; false where there is none. */
  readonly openBrowser?: (url: string) => Promise<boolean>;
}

export interface CommonFlags
  extends TextInput<never, "url" | "token" | "ca">,
    Switches<"json" | "quiet" | "verbose" | "yes" | "dryRun"> {
  readonly color: boolean;
  readonly output?: OutputForm;
}

/** Help of a flag or argument, with how its value is read. */
type ValueRow =
  | string
  | {
      readonly help: string;
      readonly parse?: (text: string, before: never) => unknown;
      readonly default?: unknown;
      /** What the help says instead of the default. */
      readonly defaultHelp?: string;
      readonly choices?: readonly string[];
      readonly isRequired?: true;
    };

type ApiCommandContext = CommandContext & { readonly environment: CliEnvironment };
export type LocalCommandContext = CliEnvironment & Pick<CommandContext, "terminal" | "json"> & { readonly program: Command };

interface CommandRow extends CompletionHints {
  readonly help: string;
  /** What follows the command; an example with `astra` in it is shown as it is. */
  readonly examples: readonly string[];
  readonly alias?: string;
  readonly arguments?: Readonly<Record<string, ValueRow>>;
  readonly options?: Readonly<Record<string, ValueRow>>;
  /** A change has --dry-run, which shows the request; a deletion also asks for confirmation. Absent: a read. */
  readonly kind?: "change" | "delete";
  /** How long an answer of the scheduler may take; absent: as long as for every other command. */
  readonly waitMs?: number;
  /** Of --limit. */
  readonly limits?: { readonly default: number; readonly max: number };
  /** A list under another name than `list`: it has --output and --limit. */
  readonly isList?: true;
  /** A list that is read page by page: it has --cursor and --all. */
  readonly isPaged?: true;
  readonly isDefault?: true;
  readonly isHidden?: true;
  readonly allowsUnknownFlags?: true;
  /** Talks to a scheduler. The input is its arguments and flags, by their names. */
  run?(context: ApiCommandContext, input: never): Promise<number>;
  /** Works on this machine. A row without either function is a group of commands. */
  runLocally?(context: LocalCommandContext, input: never): Promise<number>;
  /** Without the flags about a scheduler. */
  readonly isOffline?: true;
}

/**
 * Rows by the path of the command, such as `runs list`; a group comes before its commands. A command called `list` is also called `ls` and
 * has --output and --limit.
 */
export type CommandTable = Readonly<Record<string, CommandRow>>;

export function addCommands(
  program: Command,
  table: CommandTable,
  environment: CliEnvironment,
  setExitCode: (code: number) => void,
): void {
  for (const [path, row] of Object.entries(table)) {
    const names = path.split(" ");
    const name = names.pop() ?? "";
    const parent = names.reduce((above, one) => above.commands.find((command) => command.name() === one) ?? above, program);
    const command = addCommand(parent, name, row);
    // A folder called astra is no command.
    const examples = row.examples.map((one) => (/(^|[^\w./-])astra /.test(one) ? one : `astra ${path} ${one}`));
    setExamples(command, examples);
    if (row.run === undefined && row.runLocally === undefined) continue;
    command.action(async (...all: unknown[]) => {
      const flags = all.at(-2) as CommonFlags;
      const args = command.registeredArguments.map((argument, at) => [argument.name(), all[at]]);
      const input = { ...flags, ...Object.fromEntries(args) } as never;
      const code =
        (await row.run?.(createCommandContext(flags, environment, row), input)) ??
        (await row.runLocally?.(createLocalContext(program, flags, environment), input));
      setExitCode(code ?? exitCodes.ok);
    });
  }
}

function addCommand(parent: Command, name: string, row: CommandRow): Command {
  const command = parent
    .command(name, { isDefault: row.isDefault ?? false, hidden: row.isHidden ?? false })
    .description(row.help);
  const alias = name === "list" ? "ls" : row.alias;
  if (alias !== undefined) command.alias(alias);
  if (row.allowsUnknownFlags) command.allowUnknownOption();
  for (const [term, value] of Object.entries(row.arguments ?? {})) command.addArgument(applyValue(new Argument(term), value));
  for (const [flags, value] of Object.entries({ ...row.options, ...commonOptions(row, row.isList ?? name === "list") }))
    command.addOption(applyValue(new Option(flags), value));
  setCompletionHints(command, row);
  return command;
}

function applyValue<T extends Argument | Option>(target: T, value: ValueRow): T {
  const row = typeof value === "string" ? { help: value } : value;
  target.description = row.help;
  if (row.choices !== undefined) target.choices(row.choices);
  if (row.parse !== undefined) target.argParser(row.parse as (text: string, before: unknown) => unknown);
  if (row.default !== undefined) target.default(row.default, row.defaultHelp);
  if (row.isRequired && target instanceof Option) target.makeOptionMandatory();
  return target;
}

const endpointOptions = Object.fromEntries(
  Object.entries(endpointSettings).map(([key, { valueName, help }]) => [`--${key} <${valueName}>`, help]),
);

export const confirmationHelp = "do not ask for confirmation (required without a terminal)";

function commonOptions(row: CommandRow, isList: boolean): Readonly<Record<string, ValueRow>> {
  const { run, runLocally, isOffline, isPaged, kind, limits = { default: 50, max: 200 }, filter } = row;
  if (run === undefined && runLocally === undefined) return {};
  return {
    ...(filter !== undefined && {
      "--filter <query>": `filter by key:value terms; keys: ${Object.keys(filter).join(", ")}`,
      "--view <view>": "use a saved view of this list, by name; see astra views",
    }),
    ...(kind !== undefined && { "--dry-run": "show the request without sending it" }),
    ...(kind === "delete" && { "-y, --yes": confirmationHelp }),
    ...(isList && {
      "--output <form>": { help: "output form", choices: outputForms, default: "table" },
      "--limit <n>": { help: "maximum number of items", parse: parseInteger(1, limits.max), default: limits.default },
    }),
    ...(isPaged && {
      "--cursor <cursor>": "continue behind an earlier page: its nextCursor, which is printed with it",
      "--all": "print all items, however many requests that takes",
    }),
    ...(!isOffline && { ...endpointOptions, "-v, --verbose": "print every request and its duration on stderr" }),
    "--json": "print JSON",
    "--quiet": "print only data and errors",
    "--no-color": "no colours (also NO_COLOR)",
  };
}

export function createCommandTerminal(flags: CommonFlags, environment: CliEnvironment): Terminal {
  return new Terminal({ ...environment, isQuiet: flags.quiet ?? false, wantsColor: flags.color });
}

const createLocalContext = (program: Command, flags: CommonFlags, environment: CliEnvironment): LocalCommandContext => ({
  ...environment,
  program,
  terminal: createCommandTerminal(flags, environment),
  json: flags.json ?? false,
});

function createCommandContext(flags: CommonFlags, environment: CliEnvironment, row: CommandRow): ApiCommandContext {
  const { kind, waitMs } = row;
  const terminal = createCommandTerminal(flags, environment);
  const endpoint = resolveApiEndpoint(flags, environment.env, (line) => terminal.info(line));
  const logRequest = flags.verbose === true ? (line: string) => terminal.error(`${line}\n`) : undefined;
  const client = createCliClient(endpoint, { logRequest, ...(waitMs !== undefined && { waitMs }) });
  // A read with a --dry-run of its own has the scheduler check the request instead.
  const isDryRun = kind !== undefined && flags.dryRun === true;
  return {
    client: isDryRun ? createDryRunClient(client) : client,
    terminal,
    json: flags.json ?? false,
    ...(flags.output !== undefined && { output: flags.output }),
    confirm: createConfirmation({ isConfirmed: isDryRun || flags.yes === true, promptUser: environment.promptUser ?? null }),
    now: Date.now,
    signal: environment.stopSignal,
    environment,
  };
}

export function parseInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** A flag with an instant, or how long ago, which becomes an instant as the API takes it. */
export const instantOption = (help: string): ValueRow => ({
  help,
  parse(text) {
    const at = resolveInstant(text, Date.now());
    if (at !== null) return new Date(at).toISOString();
    throw new InvalidArgumentError("It must be how long ago (90s, 30m, 1h, 2d) or when (2026-01-31, 2026-01-31T12:00:00Z).");
  },
});

export const repeatedOption = (help: string): ValueRow => ({
  help: `${help}; may be repeated`,
  parse: (text: string, before: readonly string[]) => [...before, text],
  default: [],
  defaultHelp: "none",
});

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
