// Before something is changed: asking the person, or showing what would be sent and sending nothing. Which commands do so is in the
// program-*.ts tables.

import { type Route, routes } from "@astraflow/protocol";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";
import type { Client } from "./api-client.ts";

/** Puts a question to the person at the terminal; null where there is none. */
export type PromptUser = ((question: string) => Promise<string>) | null;

/** Returns where the deed may be done. `deed` goes on after "This would": `stop run 7c1e`. */
export type ConfirmAction = (action: string) => Promise<void>;

export function createConfirmation({
  isAgreed: isConfirmed,
  ask: promptUser,
}: {
  isAgreed: boolean;
  ask: PromptUser;
}): ConfirmAction {
  return async (action) => {
    if (isConfirmed) return;
    if (promptUser === null) throw usageFailure(`This would ${action}; say --yes to do it, or --dry-run to see only.`);
    const answer = await promptUser(`This would ${action}. Go on? [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim()))
      throw new CliFailure(exitCodes.failed, { error: "E.DECLINED", message: "Nothing was done." });
  };
}

/** Thrown in place of the first request that would change something. */
export class DryRunIntercepted extends Error {
  readonly request: { readonly method: string; readonly path: string; readonly body?: unknown };

  constructor(request: DryRunIntercepted["request"]) {
    super(`${request.method} ${request.path}`);
    this.request = request;
  }
}

/** The same client, whose changing calls are only shown. The table of routes says which those are. */
export function createDryRunClient(client: Client): Client {
  const rows = Object.entries(routes as Record<string, Route>).filter(([, { method }]) => method !== "GET");
  const shown = rows.map(([name, route]) => [
    name,
    async (input: Readonly<Record<string, unknown>> = {}) => {
      const path = route.path.replace(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(input[key])));
      throw new DryRunIntercepted({ method: route.method, path, ...(input["body"] !== undefined && { body: input["body"] }) });
    },
  ]);
  return { ...client, ...(Object.fromEntries(shown) as Partial<Client>) };
}

export function printDryRun({ request }: DryRunIntercepted, json: boolean, terminal: Terminal): CliExitCode {
  const { method, path, body } = request;
  if (json) terminal.print(JSON.stringify({ dryRun: true, ...request }));
  else terminal.print(`${method} ${path}${body === undefined ? "" : ` ${JSON.stringify(body)}`}`);
  terminal.info("Nothing was sent. Without --dry-run it would be.");
  return exitCodes.ok;
}
