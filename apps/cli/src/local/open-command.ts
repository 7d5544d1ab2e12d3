// `astra open [ID]`: the page of a run, a worker or a workflow in the browser. The address is always printed; a browser is a kindness.

import { allItems } from "@astraflow/client";
import { type CommandContext, printItem } from "../api/command-context.ts";
import { type CliExitCode, CliFailure, exitCodes } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

const pageKinds = ["run", "worker", "workflow"] as const;
type PageKind = (typeof pageKinds)[number];
const searchedRunsMax = 1_000;

export interface OpenPageContext extends CommandContext {
  readonly openBrowser: (url: string) => Promise<boolean>;
  /** Whether the scheduler has a page there. */
  readonly hasPage: (url: string) => Promise<boolean>;
}

export async function openPage(nameOrId: string | undefined, context: OpenPageContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  const root = `${client.url}/`;
  const path = nameOrId === undefined ? "" : await findPagePath(nameOrId, context);
  const wanted = root + path;
  const isThere = path === "" || (await context.hasPage(wanted));
  const url = isThere ? wanted : root;
  const opened = await context.openBrowser(url);
  printItem({ url, opened }, [url], context);
  if (!isThere) terminal.info(`This scheduler has no page at ${wanted}; its start page is opened instead.`);
  if (!opened && !context.json) terminal.info("No browser was found (BROWSER, xdg-open); open the URL yourself.");
  return exitCodes.ok;
}

async function findPagePath(nameOrId: string, context: CommandContext): Promise<string> {
  const lowerCase = nameOrId.toLowerCase();
  const fits = (id: string, name: string): boolean =>
    id.startsWith(lowerCase) || id.endsWith(lowerCase) || (name !== "" && name.toLowerCase().startsWith(lowerCase));
  const found: { kind: PageKind; id: string }[] = [];
  for await (const { kind, id, name } of listPageTargets(context)) if (fits(id, name)) found.push({ kind, id });
  const [match] = found;
  if (match === undefined) {
    const message = `No run, worker or workflow "${stripControlCharacters(nameOrId)}" found.`;
    throw new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message }, "astra runs list");
  }
  if (found.length > 1) {
    const shown = found.slice(0, 5).map(({ kind, id }) => `${kind} ${stripControlCharacters(id)}`);
    const message = `"${stripControlCharacters(nameOrId)}" matches ${found.length} items: ${shown.join(", ")}. Use a longer prefix.`;
    throw new CliFailure(exitCodes.usage, { error: "E.REQUEST.INVALID", message });
  }
  return `${match.kind}s/${encodeURIComponent(match.id)}`;
}

async function* listPageTargets({ client }: CommandContext): AsyncGenerator<{ kind: PageKind; id: string; name: string }> {
  let count = 0;
  for await (const { runId } of allItems((cursor) => client.listRuns({ limit: 200, cursor }))) {
    yield { kind: "run", id: runId, name: "" };
    if (++count >= searchedRunsMax) break;
  }
  for await (const { id, instanceId } of allItems((cursor) => client.listWorkers({ limit: 200, cursor })))
    yield { kind: "worker", id: instanceId ?? id, name: id };
  for await (const { id, metadata } of allItems((cursor) => client.listWorkflows({ limit: 200, cursor })))
    yield { kind: "workflow", id, name: metadata.name };
}
