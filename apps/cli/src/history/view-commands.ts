// `astra views list|show|save|rm`: filters that are saved on the scheduler under a name, private or shared.

import { allItems } from "@astraflow/client";
import { Fault, parseQuery, type QueryableList } from "@astraflow/protocol";
import { type CommandContext, printItem, printList, printMoreHint } from "../api/command-context.ts";
import { findView, viewQueryLine } from "../lookup/list-filters.ts";
import { type CliExitCode, CliFailure, exitCodes } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export interface ViewListFlags {
  readonly page?: QueryableList;
  readonly limit: number;
}

export async function listViews(flags: ViewListFlags, context: CommandContext): Promise<CliExitCode> {
  const page = await context.client.listViews({ limit: flags.limit, page: flags.page });
  printList(
    {
      items: page.items,
      jsonBody: page,
      id: ({ viewId }) => viewId,
      columns: [
        { header: "NAME", value: ({ name }) => name },
        { header: "PAGE", value: (view) => view.page },
        { header: "FILTER", value: viewQueryLine, kind: "text" },
        { header: "SHARED", value: ({ shared }) => (shared ? "yes" : "no") },
        { header: "OWNER", value: ({ ownerId }) => ownerId },
        { header: "CHANGED", value: ({ updatedAt }) => formatInstant(updatedAt), isWide: true },
        { header: "VIEW", value: ({ viewId }) => viewId, isWide: true },
      ],
      emptyMessage: 'No saved views. Save one: astra views save "late ones" --filter status:failed',
    },
    context,
  );
  printMoreHint(page, flags.limit, context);
  return exitCodes.ok;
}

export async function showView(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const { viewId } = await findView(nameOrId, undefined, context.client);
  const view = await context.client.getView({ viewId });
  const rows = [
    ["view", view.viewId],
    ["name", stripControlCharacters(view.name)],
    ["page", view.page],
    ["filter", stripControlCharacters(viewQueryLine(view)) || "-"],
    ["columns", view.columns?.map(stripControlCharacters).join(", ") ?? "-"],
    ["shared", view.shared ? "yes" : "no"],
    ["owner", stripControlCharacters(view.ownerId)],
    ["changed", `${formatInstant(view.updatedAt)}, revision ${view.revision}`],
  ];
  return printItem(view, formatTable(rows), context);
}

export interface SaveViewFlags {
  readonly filter: string;
  readonly page: QueryableList;
  readonly shared?: boolean;
}

/** Replaces the caller's view with this name and page, if there is one; what the flags do not set stays. */
export async function saveView(name: string, flags: SaveViewFlags, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  const read = parseQuery(flags.filter, flags.page);
  if (read instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: read.code, message: read.message, details: read.details });
  const body = { name, page: flags.page, query: flags.filter, ...(flags.shared !== undefined && { shared: flags.shared }) };
  const old = await findOwnView(name, flags.page, context);
  const view =
    old === null
      ? await client.createView({ body })
      : await client.replaceView(
          {
            viewId: old.viewId,
            body: { shared: old.shared, ...(old.columns !== undefined && { columns: old.columns }), ...body },
          },
          { headers: { "if-match": `"r${old.revision}"` } },
        );
  printItem(view, [`${view.viewId} revision ${view.revision}`], context);
  if (!context.json && view.page === "runs") terminal.info(`next: astra runs list --view "${stripControlCharacters(name)}"`);
  return exitCodes.ok;
}

async function findOwnView(name: string, page: QueryableList, { client }: CommandContext) {
  const { userId } = await client.getOwnUser();
  for await (const view of allItems((cursor) => client.listViews({ limit: 200, cursor, page })))
    if (view.name === name && view.ownerId === userId) return view;
  return null;
}

export async function removeView(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const view = await findView(nameOrId, undefined, context.client);
  await context.confirm(
    `remove the view "${stripControlCharacters(view.name)}" of ${view.page}${view.shared ? ", which others see too" : ""}`,
  );
  await context.client.deleteView({ viewId: view.viewId });
  return printItem({ viewId: view.viewId, removed: true }, [`${view.viewId} removed`], context);
}
