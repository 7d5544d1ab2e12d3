// For tests of commands: a place whose client gives the answers of the test and records the requests it received.

import type { Run } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import type { CommandContext } from "../api/command-context.ts";
import { Terminal } from "../output/terminal.ts";

/** A run as a list shows one that is under way. */
export const sampleRun = (runId: string, more: Partial<Run> = {}): Run => ({
  runId,
  status: "running",
  definitionHash: "h",
  clientId: "c",
  ...more,
});

type CannedAnswers = Readonly<Record<string, unknown>>;

export interface CommandFixture {
  readonly context: CommandContext & { readonly signal: AbortSignal };
  /** Operation and input of every call, in order. */
  readonly calls: readonly (readonly [string, unknown])[];
  stdout(): string;
  stderr(): string;
}

/** An answer that is a function is asked with the call's input; an operation without an answer must not be called. */
export function createCommandFixture(
  answers: CannedAnswers,
  more: Partial<Pick<CommandContext, "json" | "output" | "confirm" | "now">> = {},
): CommandFixture {
  const calls: [string, unknown][] = [];
  const output = { out: "", err: "" };
  const answer = (name: string, input: unknown): unknown => {
    if (!(name in answers)) throw new Error(`${name} was not expected`);
    const answerBody = answers[name];
    return typeof answerBody === "function" ? (answerBody as (input: unknown) => unknown)(input) : answerBody;
  };
  const client = new Proxy({} as Client, {
    get: (_, name: string) => {
      if (name === "url") return "http://s";
      if (name === "events") return (input: unknown) => (calls.push([name, input]), answer(name, input));
      return async (input: unknown) => (calls.push([name, input]), answer(name, input));
    },
  });
  const terminal = new Terminal({
    stdout: { write: (text) => (output.out += text) },
    stderr: { write: (text) => (output.err += text) },
    env: {},
    isQuiet: false,
    wantsColor: false,
  });
  return {
    context: {
      client,
      terminal,
      json: false,
      confirm: async () => undefined,
      now: () => 0,
      ...more,
      signal: new AbortController().signal,
    },
    calls,
    stdout: () => output.out,
    stderr: () => output.err,
  };
}
