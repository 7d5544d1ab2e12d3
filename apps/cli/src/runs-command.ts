// `astra runs list|show|cancel|export`: looking at runs, stopping one, and taking its whole history away as a file.

import type { Run } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { readFacts } from "./run-following.ts";
import { drawRun } from "./run-picture.ts";
import { layTable, type Terminal, tame } from "./terminal.ts";

interface Place {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly json: boolean;
}

/** A whole id: `8-4-4-4-12` hex digits. */
const wholeId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** How far back a shortened id is looked for. */
const shortIdPagesMax = 5;

const isEnded = (status: Run["status"]): boolean => status !== "queued" && status !== "running";

/** Ids may be shortened while unique among the latest runs. */
async function findRun(id: string, client: Client): Promise<string> {
  if (wholeId.test(id)) return id;
  const matches: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < shortIdPagesMax; page += 1) {
    const list = await client.runs({ limit: 200, ...(cursor !== undefined && { cursor }) });
    // The end of an id tells runs apart, its beginning is the time; both are accepted.
    for (const run of list.items) if (run.runId.startsWith(id) || run.runId.endsWith(id)) matches.push(run.runId);
    if (list.nextCursor === null) break;
    cursor = list.nextCursor;
  }
  const [only] = matches;
  if (matches.length > 1) throw usageFailure(`"${id}" fits ${matches.length} runs; write more of it.`, "astra runs list");
  if (only === undefined)
    throw new CliFailure(
      exitCodes.notFound,
      { error: "E.NOT_FOUND", message: `There is no run "${id}" among the latest.` },
      "astra runs list",
    );
  return only;
}

export async function listRuns(
  words: { status?: string; client?: string; limit: number },
  { client, terminal, json }: Place,
): Promise<ExitCode> {
  const page = await client.runs({
    limit: words.limit,
    ...(words.status !== undefined && { status: words.status }),
    ...(words.client !== undefined && { clientId: words.client }),
  });
  if (json) terminal.print(JSON.stringify(page));
  else if (page.items.length === 0) terminal.say("There is no such run. Start one: astra run examples/workflows/welcome.json");
  else {
    for (const line of layTable([["RUN", "STATUS", "CREATED", "TOOK", "CLIENT"], ...page.items.map(rowOf)])) terminal.print(line);
    if (page.nextCursor !== null) terminal.say(`more: --limit ${Math.min(200, words.limit * 2)}`);
  }
  return exitCodes.ok;
}

function rowOf(run: Run): string[] {
  const took =
    run.startedAt && run.finishedAt ? `${((Date.parse(run.finishedAt) - Date.parse(run.startedAt)) / 1_000).toFixed(1)} s` : "-";
  return [run.runId, run.status, run.createdAt ?? run.startedAt ?? "-", took, tame(run.clientId)];
}

export async function showRun(id: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const whole = await findRun(id, client);
  const run = await client.run(whole);
  if (json) terminal.print(JSON.stringify(run));
  else {
    const workflow = await client.definition(whole);
    const columns = terminal.isLive ? terminal.columns : Number.POSITIVE_INFINITY;
    for (const line of drawRun(run, workflow, { paint: terminal.paint, columns, now: Date.now(), url: client.url }))
      terminal.print(line);
    if (run.error) terminal.print(`${run.error.code}: ${tame(run.error.message)}`);
  }
  return exitCodes.ok;
}

export async function cancelRun(id: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const whole = await findRun(id, client);
  const before = await client.run(whole);
  const ref = await client.cancel(whole);
  // It may also have ended by itself between the two calls; then its state says so.
  const isTooLate = isEnded(before.status) || ref.status === "succeeded" || ref.status === "failed";
  terminal.print(json ? JSON.stringify(ref) : `${ref.runId} ${ref.status}`);
  if (isTooLate) terminal.say("It had ended already; nothing was done.");
  return exitCodes.ok;
}

/**
 * One line of definition, the facts in order, one line of final state. The run is read before its facts: once it has ended it does
 * not change any more, so the facts read afterwards are all there are.
 */
export async function exportRun(id: string, { client, terminal }: Place): Promise<ExitCode> {
  const whole = await findRun(id, client);
  const run = await client.run(whole);
  terminal.print(JSON.stringify({ kind: "definition", runId: whole, definition: await client.definition(whole) }));
  for (const fact of await readFacts(client, whole, null))
    terminal.print(JSON.stringify({ kind: "fact", cursor: String(fact.position), ...fact }));
  terminal.print(JSON.stringify({ kind: "run", isEnded: isEnded(run.status), run }));
  return exitCodes.ok;
}
