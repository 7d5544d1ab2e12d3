// `astra open [ID]`: opens the page of a run, a worker or a workflow in the browser. The URL is always printed, with or without a browser.

import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { searchedItemsMax } from "../lookup/name-lookup.ts";
import { readPages } from "../lookup/pages.ts";
import { type CliExitCode, exitCodes, notFoundFailure, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

type PageKind = "run" | "worker" | "workflow";

export interface OpenPageContext extends CommandContext {
  readonly openBrowser: (url: string) => Promise<boolean>;
  /** Whether the scheduler has a page there. */
  readonly hasPage: (url: string) => Promise<boolean>;
}

export async function openPage(context: OpenPageContext, { id: nameOrId }: TextInput<never, "id">): Promise<CliExitCode> {
  const { client, terminal } = context;
  const root = `${client.url}/`;
  const path = nameOrId === undefined ? "" : await findPagePath(nameOrId, context);
  const wanted = root + path;
  const isThere = path === "" || (await context.hasPage(wanted));
  const url = isThere ? wanted : root;
  const opened = await context.openBrowser(url);
  printItem(context, { url, opened }, url);
  if (!isThere) terminal.info(`This scheduler has no page at ${wanted}; its start page is opened instead.`);
  if (!opened && !context.json) terminal.info("No browser was found (BROWSER, xdg-open); open the URL yourself.");
  return exitCodes.ok;
}

async function findPagePath(nameOrId: string, context: CommandContext): Promise<string> {
  const lowerCase = nameOrId.toLowerCase();
  const fits = (id: string, name: string): boolean =>
    id.startsWith(lowerCase) || id.endsWith(lowerCase) || (name !== "" && name.toLowerCase().startsWith(lowerCase));
  const found = (await listPageTargets(context)).filter(({ id, name }) => fits(id, name));
  const [match] = found;
  if (match === undefined) throw notFoundFailure("run, worker or workflow", nameOrId, null, "astra runs list");
  if (found.length > 1) {
    const shown = found.slice(0, 5).map(({ kind, id }) => `${kind} ${stripControlCharacters(id)}`);
    throw usageFailure(
      `"${stripControlCharacters(nameOrId)}" matches ${found.length} items: ${shown.join(", ")}. Use a longer prefix.`,
    );
  }
  return `${match.kind}s/${encodeURIComponent(match.id)}`;
}

async function listPageTargets({ client }: CommandContext): Promise<{ kind: PageKind; id: string; name: string }[]> {
  const runs = await readPages((cursor) => client.listRuns({ limit: 200, cursor }), searchedItemsMax);
  const workers = await readPages((cursor) => client.listWorkers({ limit: 200, cursor }), Number.POSITIVE_INFINITY);
  const workflows = await readPages((cursor) => client.listWorkflows({ limit: 200, cursor }), Number.POSITIVE_INFINITY);
  return [
    ...runs.items.map(({ runId }) => ({ kind: "run" as const, id: runId, name: "" })),
    ...workers.items.map(({ id, instanceId }) => ({ kind: "worker" as const, id: instanceId ?? id, name: id })),
    ...workflows.items.map(({ id, metadata }) => ({ kind: "workflow" as const, id, name: metadata.name })),
  ];
}
