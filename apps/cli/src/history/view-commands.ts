// `astra views list|show|save|rm`: filters that are saved on the scheduler under a name, private or shared.

import { allItems } from "@astraflow/client";
import { omitUndefined, type QueryableList } from "@astraflow/protocol";
import { type CommandContext, printItem, printPage, type TextInput } from "../api/command-context.ts";
import { findView, parseQueryLine, viewQueryLine } from "../lookup/list-filters.ts";
import { type PageFlags, readListPage } from "../lookup/pages.ts";
import type { ExitCode } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export async function listViews(
  context: CommandContext,
  { page: list, ...flags }: PageFlags & { page?: QueryableList },
): Promise<ExitCode> {
  const found = await readListPage(flags, (paging) => context.client.listViews({ ...paging, page: list }));
  return printPage(context, found, {
    id: ({ viewId }) => viewId,
    columns: [
      { header: "NAME", value: ({ name }) => name, isKept: true },
      { header: "PAGE", value: (view) => view.page, isKept: true },
      { header: "FILTER", value: viewQueryLine, kind: "text" },
      { header: "SHARED", value: ({ shared }) => (shared ? "yes" : "no") },
      { header: "OWNER", value: ({ ownerId }) => ownerId },
      { header: "CHANGED", value: ({ updatedAt }) => formatInstant(updatedAt), isWide: true },
      { header: "VIEW", value: ({ viewId }) => viewId, isWide: true },
    ],
    emptyMessage: 'No saved views. Save one: astra views save "late ones" --filter status:failed',
  });
}

export async function showView(context: CommandContext, { view: nameOrId }: TextInput<"view">): Promise<ExitCode> {
  const { viewId } = await findView(nameOrId, undefined, context.client);
  const view = await context.client.getView({ viewId });
  const rows = [
    ["view", view.viewId],
    ["name", view.name],
    ["page", view.page],
    ["filter", viewQueryLine(view) || "-"],
    ["columns", view.columns?.join(", ") ?? "-"],
    ["shared", view.shared ? "yes" : "no"],
    ["owner", view.ownerId],
    ["changed", `${formatInstant(view.updatedAt)}, revision ${view.revision}`],
  ];
  return printItem(context, view, formatTextTable(rows));
}

/** Replaces the caller's view with this name and page, if there is one; what the flags do not set stays. */
export async function saveView(
  context: CommandContext,
  { name, filter, page, shared }: TextInput<"name" | "filter"> & { page: QueryableList; shared?: boolean },
): Promise<ExitCode> {
  const { client } = context;
  parseQueryLine(filter, page);
  const body = { name, page, query: filter, ...omitUndefined({ shared }) };
  const old = await findOwnView(name, page, context);
  const view =
    old === null
      ? await client.createView({ body })
      : await client.replaceView(
          { viewId: old.viewId, body: { shared: old.shared, ...omitUndefined({ columns: old.columns }), ...body } },
          { headers: { "if-match": `"r${old.revision}"` } },
        );
  const hint = view.page === "runs" && `next: astra runs list --view "${name}"`;
  return printItem(context, view, `${view.viewId} revision ${view.revision}`, hint);
}

async function findOwnView(name: string, page: QueryableList, { client }: CommandContext) {
  const { userId } = await client.getOwnUser();
  for await (const view of allItems((cursor) => client.listViews({ limit: 200, cursor, page })))
    if (view.name === name && view.ownerId === userId) return view;
  return null;
}

export async function removeView(context: CommandContext, { view: nameOrId }: TextInput<"view">): Promise<ExitCode> {
  const { viewId, name, page, shared } = await findView(nameOrId, undefined, context.client);
  const warning = shared ? ", which others see too" : "";
  await context.confirm(`remove the view "${stripControlCharacters(name)}" of ${page}${warning}`);
  await context.client.deleteView({ viewId });
  return printItem(context, { viewId, removed: true }, `${viewId} removed`);
}
