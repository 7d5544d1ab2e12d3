// What the tables of commands share: the world a command runs in, the flags that every command has, and how values of flags are read.

import { resolveInstant } from "@astraflow/protocol";
import { type Command, InvalidArgumentError, Option } from "commander";
import { createClient } from "./client.ts";
import { readConnection } from "./connection.ts";
import { type Ask, agreeing, rehearse } from "./consent.ts";
import { setExamples } from "./help.ts";
import { type FilterKeys, setOffers } from "./offers.ts";
import { type OutputForm, outputs, type Place } from "./place.ts";
import { createTerminal, type Output, type Terminal } from "./terminal.ts";

export interface CliWorld {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first and by the second wish to stop. */
  readonly stopping: AbortSignal;
  readonly hurrying: AbortSignal;
  /** Puts a question to the person; absent or null where nobody sits there. */
  readonly ask?: Ask;
  /** Tells every key that the person presses, until the returned function is called; absent where nobody sits there. */
  readonly listenKeys?: ListenKeys;
  /** Opens an address in a browser; false where there is none. */
  readonly browse?: (url: string) => Promise<boolean>;
}

export type ListenKeys = (hear: (key: string) => void) => () => void;

export interface CommonWords {
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

export type Add = (program: Command, world: CliWorld, finish: (code: number) => void) => void;

/** Flags about what is printed, and the examples: every command has them. */
export function withForm(command: Command, examples: readonly string[]): Command {
  return setExamples(command, examples)
    .option("--json", "data instead of words")
    .option("--quiet", "only data and errors")
    .option("--no-color", "no colours (also NO_COLOR)");
}

/** Flags of every command that talks to a scheduler, and its examples. */
export function withCommon(command: Command, examples: readonly string[]): Command {
  return withForm(
    command
      .option("--url <url>", "the scheduler (ASTRA_URL; default http://127.0.0.1:8080)")
      .option("--token <@file>", "file with the token, - for stdin (ASTRA_TOKEN; on loopback dev-token)")
      .option("--ca <file>", "authority (PEM) of an https scheduler, if this machine does not know it (ASTRA_CA)")
      .option("-v, --verbose", "every request and how long it took, on stderr"),
    examples,
  );
}

/** Flags of commands that change something. */
export function withChange(command: Command, examples: readonly string[]): Command {
  return withCommon(command, examples).option("--dry-run", "show what would be sent, send nothing");
}

/** Flags of commands that change something which cannot be taken back. */
export function withDeed(command: Command, examples: readonly string[]): Command {
  return withChange(command, examples).option("-y, --yes", "do it without asking; needed where nobody can be asked");
}

export function readWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** An instant, or how long ago, as the API wants it. */
export function readWhen(text: string): string {
  const at = resolveInstant(text, Date.now());
  if (at !== null) return new Date(at).toISOString();
  throw new InvalidArgumentError("It must be how long ago (90s, 30m, 1h, 2d) or when (2026-01-31, 2026-01-31T12:00:00Z).");
}

export function openTerminal(words: CommonWords, world: CliWorld): Terminal {
  return createTerminal({ ...world, isQuiet: words.quiet ?? false, wantsColor: words.color });
}

export type OpenPlace = Place & { signal: AbortSignal; env: NodeJS.ProcessEnv };

export function openPlace(words: CommonWords, world: CliWorld): OpenPlace {
  const connection = readConnection({ url: words.url, token: words.token, ca: words.ca, env: world.env });
  const terminal = openTerminal(words, world);
  const note = words.verbose === true ? (line: string) => terminal.complain(`${line}\n`) : undefined;
  return {
    client: createClient(connection, { note }),
    terminal,
    json: words.json ?? false,
    ...(words.output !== undefined && { output: words.output }),
    agree: agreeing({ isAgreed: words.yes ?? false, ask: world.ask ?? null }),
    now: Date.now,
    signal: world.stopping,
    env: world.env,
  };
}

/** The place of a command whose --dry-run only shows the request. */
export function openChange(words: CommonWords & { readonly dryRun?: boolean }, world: CliWorld): OpenPlace {
  const place = openPlace(words, world);
  if (words.dryRun !== true) return place;
  return { ...place, client: rehearse(place.client), agree: async () => undefined };
}

/** A flag that may be given more than once. */
export const collect = (text: string, before: readonly string[]): string[] => [...before, text];

/** Flags of lists. */
export function withList(command: Command, examples: readonly string[], { limit = 50, max = 200 } = {}): Command {
  return withCommon(command, examples)
    .addOption(new Option("--output <form>", "how a list is printed").choices(outputs).default("table"))
    .option("--limit <n>", "how many", readWhole(1, max), limit);
}

/** The query line, as the console has it. */
export function withFilter(command: Command, keys: FilterKeys): Command {
  return setOffers(command, { filter: () => keys })
    .option("--filter <line>", `key:value words; keys: ${Object.keys(keys).join(", ")}`)
    .option("--view <view>", "a saved view of this list, by name; see astra views");
}
