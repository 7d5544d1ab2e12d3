// `astra views list|show|save|rm`: filters that are kept on the scheduler under a name, one's own and those that are shared.

import { allItems } from "@astraflow/client";
import { Fault, parseQuery, type QueryableList } from "@astraflow/protocol";
import { CliFailure, type ExitCode, exitCodes } from "./failure.ts";
import { findView, lineOf } from "./filtering.ts";
import { type Place, printList, printOne, sayMore, when } from "./place.ts";
import { layTable, tame } from "./terminal.ts";

export interface ViewWords {
  readonly page?: QueryableList;
  readonly limit: number;
}

export async function listViews(words: ViewWords, place: Place): Promise<ExitCode> {
  const page = await place.client.listViews({ limit: words.limit, page: words.page });
  printList(
    {
      items: page.items,
      body: page,
      id: ({ viewId }) => viewId,
      columns: [
        { head: "NAME", of: ({ name }) => name },
        { head: "PAGE", of: (view) => view.page },
        { head: "FILTER", of: lineOf, kind: "text" },
        { head: "SHARED", of: ({ shared }) => (shared ? "yes" : "no") },
        { head: "OWNER", of: ({ ownerId }) => ownerId },
        { head: "CHANGED", of: ({ updatedAt }) => when(updatedAt), isWide: true },
        { head: "VIEW", of: ({ viewId }) => viewId, isWide: true },
      ],
      none: 'No view is kept here. Keep one: astra views save "late ones" --filter status:failed',
    },
    place,
  );
  sayMore(page, words.limit, place);
  return exitCodes.ok;
}

export async function showView(word: string, place: Place): Promise<ExitCode> {
  const { viewId } = await findView(word, undefined, place.client);
  const view = await place.client.getView({ viewId });
  const rows = [
    ["view", view.viewId],
    ["name", tame(view.name)],
    ["page", view.page],
    ["filter", tame(lineOf(view)) || "-"],
    ["columns", view.columns?.map(tame).join(", ") ?? "-"],
    ["shared", view.shared ? "yes" : "no"],
    ["owner", tame(view.ownerId)],
    ["changed", `${when(view.updatedAt)}, revision ${view.revision}`],
  ];
  return printOne(view, layTable(rows), place);
}

export interface SaveWords {
  readonly filter: string;
  readonly page: QueryableList;
  readonly shared?: boolean;
}

/** Under a name that the caller has already on that page, the view is replaced, and keeps what is not said here. */
export async function saveView(name: string, words: SaveWords, place: Place): Promise<ExitCode> {
  const { client, terminal } = place;
  const read = parseQuery(words.filter, words.page);
  if (read instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: read.code, message: read.message, details: read.details });
  const body = { name, page: words.page, query: words.filter, ...(words.shared !== undefined && { shared: words.shared }) };
  const old = await ownView(name, words.page, place);
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
  printOne(view, [`${view.viewId} revision ${view.revision}`], place);
  if (!place.json && view.page === "runs") terminal.say(`next: astra runs list --view "${tame(name)}"`);
  return exitCodes.ok;
}

async function ownView(name: string, page: QueryableList, { client }: Place) {
  const { userId } = await client.getOwnUser();
  for await (const view of allItems((cursor) => client.listViews({ limit: 200, cursor, page })))
    if (view.name === name && view.ownerId === userId) return view;
  return null;
}

export async function removeView(word: string, place: Place): Promise<ExitCode> {
  const view = await findView(word, undefined, place.client);
  await place.agree(`remove the view "${tame(view.name)}" of ${view.page}${view.shared ? ", which others see too" : ""}`);
  await place.client.deleteView({ viewId: view.viewId });
  return printOne({ viewId: view.viewId, removed: true }, [`${view.viewId} removed`], place);
}
