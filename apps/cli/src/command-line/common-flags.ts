// What the tables of commands share: the world a command runs in, the flags that every command has, and how values of flags are read.

import { resolveInstant } from "@astraflow/protocol";
import { type Command, InvalidArgumentError, Option } from "commander";
import { createCliClient } from "../api/api-client.ts";
import { resolveApiEndpoint } from "../api/api-endpoint.ts";
import { type CommandContext, type OutputForm, outputForms } from "../api/command-context.ts";
import { createConfirmation, createDryRunClient, type PromptUser } from "../api/confirmation.ts";
import { type FilterKeys, setCompletionHints } from "../completion/completion-hints.ts";
import { createTerminal, type ListenForKeys, type OutputStream, type Terminal } from "../output/terminal.ts";
import { setExamples } from "./help.ts";

export interface CliEnvironment {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first and by the second wish to stop. */
  readonly stopSignal: AbortSignal;
  readonly forceStopSignal: AbortSignal;
  /** Puts a question to the person; absent or null where nobody sits there. */
  readonly promptUser?: PromptUser;
  /** Tells every key that the person presses, until the returned function is called; absent where nobody sits there. */
  readonly listenForKeys?: ListenForKeys;
  /** Opens an address in a browser; false where there is none. */
  readonly openBrowser?: (url: string) => Promise<boolean>;
}

export interface CommonFlags {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly verbose?: boolean;
  readonly color: boolean;
  readonly url?: string;
  readonly token?: string;
  readonly ca?: string;
  readonly output?: OutputForm;
  readonly yes?: boolean;
}

export type DefineCommands = (program: Command, environment: CliEnvironment, setExitCode: (code: number) => void) => void;

/** Flags about what is printed, and the examples: every command has them. */
export function addOutputFlags(command: Command, examples: readonly string[]): Command {
  return setExamples(command, examples)
    .option("--json", "data instead of words")
    .option("--quiet", "only data and errors")
    .option("--no-color", "no colours (also NO_COLOR)");
}

/** Flags of every command that talks to a scheduler, and its examples. */
export function addConnectionFlags(command: Command, examples: readonly string[]): Command {
  return addOutputFlags(
    command
      .option("--url <url>", "the scheduler (ASTRA_URL; default http://127.0.0.1:8080)")
      .option("--token <@file>", "file with the token, - for stdin (ASTRA_TOKEN; on loopback dev-token)")
      .option("--ca <file>", "authority (PEM) of an https scheduler, if this machine does not know it (ASTRA_CA)")
      .option("-v, --verbose", "every request and how long it took, on stderr"),
    examples,
  );
}

/** Flags of commands that change something. */
export function addDryRunFlag(command: Command, examples: readonly string[]): Command {
  return addConnectionFlags(command, examples).option("--dry-run", "show what would be sent, send nothing");
}

/** Flags of commands that change something which cannot be taken back. */
export function addConfirmationFlags(command: Command, examples: readonly string[]): Command {
  return addDryRunFlag(command, examples).option("-y, --yes", "do it without asking; needed where nobody can be asked");
}

export function parseInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** An instant, or how long ago, as the API wants it. */
export function parseInstantFlag(text: string): string {
  const at = resolveInstant(text, Date.now());
  if (at !== null) return new Date(at).toISOString();
  throw new InvalidArgumentError("It must be how long ago (90s, 30m, 1h, 2d) or when (2026-01-31, 2026-01-31T12:00:00Z).");
}

export function createCommandTerminal(flags: CommonFlags, environment: CliEnvironment): Terminal {
  return createTerminal({ ...environment, isQuiet: flags.quiet ?? false, wantsColor: flags.color });
}

export type ApiCommandContext = CommandContext & { signal: AbortSignal; env: NodeJS.ProcessEnv };

export function createCommandContext(flags: CommonFlags, environment: CliEnvironment): ApiCommandContext {
  const connection = resolveApiEndpoint({ url: flags.url, token: flags.token, ca: flags.ca, env: environment.env });
  const terminal = createCommandTerminal(flags, environment);
  const logRequest = flags.verbose === true ? (line: string) => terminal.error(`${line}\n`) : undefined;
  return {
    client: createCliClient(connection, { logRequest }),
    terminal,
    json: flags.json ?? false,
    ...(flags.output !== undefined && { output: flags.output }),
    confirm: createConfirmation({ isAgreed: flags.yes ?? false, ask: environment.promptUser ?? null }),
    now: Date.now,
    signal: environment.stopSignal,
    env: environment.env,
  };
}

/** The place of a command whose --dry-run only shows the request. */
export function createChangeContext(
  flags: CommonFlags & { readonly dryRun?: boolean },
  environment: CliEnvironment,
): ApiCommandContext {
  const context = createCommandContext(flags, environment);
  if (flags.dryRun !== true) return context;
  return { ...context, client: createDryRunClient(context.client), confirm: async () => undefined };
}

/** A flag that may be given more than once. */
export const collectValues = (text: string, before: readonly string[]): string[] => [...before, text];

/** Flags of lists. */
export function addListFlags(command: Command, examples: readonly string[], { limit = 50, max = 200 } = {}): Command {
  return addConnectionFlags(command, examples)
    .addOption(new Option("--output <form>", "how a list is printed").choices(outputForms).default("table"))
    .option("--limit <n>", "how many", parseInteger(1, max), limit);
}

/** The query line, as the console has it. */
export function addFilterFlags(command: Command, keys: FilterKeys): Command {
  return setCompletionHints(command, { filter: () => keys })
    .option("--filter <line>", `key:value words; keys: ${Object.keys(keys).join(", ")}`)
    .option("--view <view>", "a saved view of this list, by name; see astra views");
}
