// What the tables of commands share: the world a command runs in, the flags that every command has, and how values of flags are read.

import { type Command, InvalidArgumentError, Option } from "commander";
import { createClient } from "./client.ts";
import { readConnection } from "./connection.ts";
import { type OutputForm, outputs, type Place } from "./place.ts";
import { createTerminal, type Output, type Terminal } from "./terminal.ts";

export interface CliWorld {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first and by the second wish to stop. */
  readonly stopping: AbortSignal;
  readonly hurrying: AbortSignal;
}

export interface CommonWords {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly color: boolean;
  readonly url?: string;
  readonly token?: string;
  readonly ca?: string;
  readonly output?: OutputForm;
}

export type Add = (program: Command, world: CliWorld, finish: (code: number) => void) => void;

/** Flags of every command that talks to a scheduler, and its examples. */
export function withCommon(command: Command, examples: readonly string[]): Command {
  return command
    .option("--url <url>", "the scheduler (ASTRA_URL; default http://127.0.0.1:8080)")
    .option("--token <@file>", "file with the token, - for stdin (ASTRA_TOKEN; on loopback dev-token)")
    .option("--ca <file>", "authority (PEM) of an https scheduler, if this machine does not know it (ASTRA_CA)")
    .option("--json", "data instead of words")
    .option("--quiet", "only data and errors")
    .option("--no-color", "no colours (also NO_COLOR)")
    .addHelpText("before", `${examples.map((example) => `  ${example}`).join("\n")}\n`);
}

export function readWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

export function openTerminal(words: CommonWords, world: CliWorld): Terminal {
  return createTerminal({ ...world, isQuiet: words.quiet ?? false, wantsColor: words.color });
}

export function openPlace(words: CommonWords, world: CliWorld): Place & { signal: AbortSignal; env: NodeJS.ProcessEnv } {
  const connection = readConnection({ url: words.url, token: words.token, ca: words.ca, env: world.env });
  return {
    client: createClient(connection),
    terminal: openTerminal(words, world),
    json: words.json ?? false,
    ...(words.output !== undefined && { output: words.output }),
    signal: world.stopping,
    env: world.env,
  };
}

/** A flag that may be given more than once. */
export const collect = (text: string, before: readonly string[]): string[] => [...before, text];

/** Flags of lists. */
export function withList(command: Command, examples: readonly string[], limit = 50): Command {
  return withCommon(command, examples)
    .addOption(new Option("--output <form>", "how a list is printed").choices(outputs).default("table"))
    .option("--limit <n>", "how many", readWhole(1, 200), limit);
}
