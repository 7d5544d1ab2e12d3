// For tests of commands: a place whose client answers what the test says and notes what it was asked.

import type { Run } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import type { Place } from "./place.ts";
import { createTerminal } from "./terminal.ts";

/** A run as a list shows one that is under way. */
export const sampleRun = (runId: string, more: Partial<Run> = {}): Run => ({
  runId,
  status: "running",
  definitionHash: "h",
  clientId: "c",
  ...more,
});

type Answers = Readonly<Record<string, unknown>>;

export interface Stage {
  readonly place: Place & { readonly signal: AbortSignal };
  /** Operation and input of every call, in order. */
  readonly calls: readonly (readonly [string, unknown])[];
  out(): string;
  err(): string;
}

/** An answer that is a function is asked with the call's input; an operation without an answer must not be called. */
export function openStage(answers: Answers, more: Partial<Pick<Place, "json" | "output" | "agree" | "now">> = {}): Stage {
  const calls: [string, unknown][] = [];
  const said = { out: "", err: "" };
  const answer = (name: string, input: unknown): unknown => {
    if (!(name in answers)) throw new Error(`${name} was not expected`);
    const given = answers[name];
    return typeof given === "function" ? (given as (input: unknown) => unknown)(input) : given;
  };
  const client = new Proxy({} as Client, {
    get: (_, name: string) => {
      if (name === "url") return "http://s";
      if (name === "events") return (input: unknown) => (calls.push([name, input]), answer(name, input));
      return async (input: unknown) => (calls.push([name, input]), answer(name, input));
    },
  });
  const terminal = createTerminal({
    stdout: { write: (text) => (said.out += text) },
    stderr: { write: (text) => (said.err += text) },
    env: {},
    isQuiet: false,
    wantsColor: false,
  });
  return {
    place: {
      client,
      terminal,
      json: false,
      agree: async () => undefined,
      now: () => 0,
      ...more,
      signal: new AbortController().signal,
    },
    calls,
    out: () => said.out,
    err: () => said.err,
  };
}
