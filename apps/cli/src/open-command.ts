// `astra open [ID]`: the page of a run, a worker or a workflow in the browser. The address is always printed; a browser is a kindness.

import { allItems } from "@astraflow/client";
import { CliFailure, type ExitCode, exitCodes } from "./failure.ts";
import { type Place, printOne } from "./place.ts";
import { tame } from "./terminal.ts";

const kinds = ["run", "worker", "workflow"] as const;
type Kind = (typeof kinds)[number];
const namedMax = 1_000;

export interface OpenPlace extends Place {
  readonly browse: (url: string) => Promise<boolean>;
  /** Whether the scheduler has a page there. */
  readonly hasPage: (url: string) => Promise<boolean>;
}

export async function openPage(word: string | undefined, place: OpenPlace): Promise<ExitCode> {
  const { client, terminal } = place;
  const root = `${client.url}/`;
  const path = word === undefined ? "" : await pathOf(word, place);
  const wanted = root + path;
  const isThere = path === "" || (await place.hasPage(wanted));
  const url = isThere ? wanted : root;
  const opened = await place.browse(url);
  printOne({ url, opened }, [url], place);
  if (!isThere) terminal.say(`This scheduler has no page at ${wanted}; its first page is shown instead.`);
  if (!opened && !place.json) terminal.say("No browser was found (BROWSER, xdg-open); open the address yourself.");
  return exitCodes.ok;
}

async function pathOf(word: string, place: Place): Promise<string> {
  const low = word.toLowerCase();
  const fits = (id: string, name: string): boolean =>
    id.startsWith(low) || id.endsWith(low) || (name !== "" && name.toLowerCase().startsWith(low));
  const found: { kind: Kind; id: string }[] = [];
  for await (const { kind, id, name } of things(place)) if (fits(id, name)) found.push({ kind, id });
  const [only] = found;
  if (only === undefined) {
    const message = `There is no run, worker or workflow "${tame(word)}".`;
    throw new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message }, "astra runs list");
  }
  if (found.length > 1) {
    const shown = found.slice(0, 5).map(({ kind, id }) => `${kind} ${tame(id)}`);
    const message = `"${tame(word)}" fits ${found.length} things: ${shown.join(", ")}. Write more of it.`;
    throw new CliFailure(exitCodes.usage, { error: "E.REQUEST.INVALID", message });
  }
  return `${only.kind}s/${encodeURIComponent(only.id)}`;
}

async function* things({ client }: Place): AsyncGenerator<{ kind: Kind; id: string; name: string }> {
  let count = 0;
  for await (const { runId } of allItems((cursor) => client.listRuns({ limit: 200, cursor }))) {
    yield { kind: "run", id: runId, name: "" };
    if (++count >= namedMax) break;
  }
  for await (const { id, instanceId } of allItems((cursor) => client.listWorkers({ limit: 200, cursor })))
    yield { kind: "worker", id: instanceId ?? id, name: id };
  for await (const { id, metadata } of allItems((cursor) => client.listWorkflows({ limit: 200, cursor })))
    yield { kind: "workflow", id, name: metadata.name };
}
