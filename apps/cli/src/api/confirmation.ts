// Before a change: asks for confirmation, or with --dry-run shows the request without sending it.

import { type Route, routes } from "@astraflow/protocol";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";
import type { Client } from "./api-client.ts";

/** Asks a question at the terminal; null where there is none. */
export type PromptUser = ((question: string) => Promise<string>) | null;

/** Throws unless the user confirms. The action completes the sentence "This will …": `cancel run 7c1e`. */
export type ConfirmAction = (action: string) => Promise<void>;

export function createConfirmation({ isConfirmed, promptUser }: { isConfirmed: boolean; promptUser: PromptUser }): ConfirmAction {
  return async (action) => {
    if (isConfirmed) return;
    if (promptUser === null)
      throw usageFailure(`This would ${action}. Repeat with --yes to do it, or with --dry-run to preview it.`);
    const answer = await promptUser(`This will ${action}. Continue? [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim()))
      throw new CliFailure(exitCodes.failed, { error: "E.DECLINED", message: "Cancelled; nothing was changed." });
  };
}

/** Thrown instead of sending the first request that would change something. */
export class DryRunIntercepted extends Error {
  readonly request: { readonly method: string; readonly path: string; readonly body?: unknown };

  constructor(request: DryRunIntercepted["request"]) {
    super(`${request.method} ${request.path}`);
    this.request = request;
  }
}

/** The same client, but every call of a route that is no GET throws the request. */
export function createDryRunClient(client: Client): Client {
  const rows = Object.entries(routes as Record<string, Route>).filter(([, { method }]) => method !== "GET");
  const shown = rows.map(([name, route]) => [
    name,
    async (input: Readonly<Record<string, unknown>> = {}) => {
      const path = route.path.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(input[key])));
      const { body } = input;
      throw new DryRunIntercepted({ method: route.method, path, ...(body !== undefined && { body: describeBody(body) }) });
    },
  ]);
  return { ...client, ...(Object.fromEntries(shown) as Partial<Client>) };
}

/** Of a file in a form only its name and size. */
const describeBody = (body: unknown): unknown =>
  body instanceof FormData
    ? Object.fromEntries([...body].map(([key, value]) => [key, typeof value === "string" ? value : describeFile(value)]))
    : body;

const describeFile = ({ name, size: bytes }: File) => ({ name, bytes });

export function printDryRun({ request }: DryRunIntercepted, json: boolean, terminal: Terminal): ExitCode {
  const { method, path, body } = request;
  if (json) terminal.print(JSON.stringify({ dryRun: true, ...request }));
  else terminal.print(`${method} ${path}${body === undefined ? "" : ` ${JSON.stringify(body)}`}`);
  terminal.info("Dry run: nothing was sent.");
  return exitCodes.ok;
}
