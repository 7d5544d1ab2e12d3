// `astra open [ID]`: opens the page of a run, a worker or a workflow in the browser. The URL is always printed, with or without a browser.

import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { findByNameOrId, searchedItemsMax } from "../lookup/name-lookup.ts";
import { readPages } from "../lookup/pages.ts";
import { type ExitCode, exitCodes } from "../output/cli-failure.ts";

export interface OpenPageContext extends CommandContext {
  readonly openBrowser: (url: string) => Promise<boolean>;
  /** Whether the scheduler has a page there. */
  readonly hasPage: (url: string) => Promise<boolean>;
}

export async function openPage(context: OpenPageContext, { id: nameOrId }: TextInput<never, "id">): Promise<ExitCode> {
  const { client, terminal } = context;
  const root = `${client.url}/`;
  const path = nameOrId === undefined ? "" : await findPagePath(nameOrId, context);
  const wanted = root + path;
  // A fragment chooses what the start page shows.
  const isThere = path === "" || path.startsWith("#") || (await context.hasPage(wanted));
  const url = isThere ? wanted : root;
  const opened = await context.openBrowser(url);
  printItem(context, { url, opened }, url);
  if (!isThere) terminal.info(`This scheduler has no page at ${wanted}; its start page is opened instead.`);
  if (!opened && !context.json) terminal.info("No browser was found (BROWSER, xdg-open); open the URL yourself.");
  return exitCodes.ok;
}

async function findPagePath(nameOrId: string, { client }: CommandContext): Promise<string> {
  const all = Number.POSITIVE_INFINITY;
  const runs = await readPages((cursor) => client.listRuns({ limit: 200, cursor }), searchedItemsMax);
  const workers = await readPages((cursor) => client.listWorkers({ limit: 200, cursor }), all);
  const workflows = await readPages((cursor) => client.listWorkflows({ limit: 200, cursor }), all);
  const targets = [
    ...runs.items.map(({ runId }) => ({ id: runId, name: "", folder: "runs" })),
    ...workers.items.map(({ id, instanceId }) => ({ id: instanceId ?? id, name: id, folder: "workers" })),
    ...workflows.items.map(({ id, metadata }) => ({ id, name: metadata.name, folder: "workflows" })),
  ];
  const { folder, id } = findByNameOrId(nameOrId, targets, "run, worker or workflow", "astra runs list", "items");
  return folder === "runs" ? `#${id}` : `${folder}/${encodeURIComponent(id)}`;
}
