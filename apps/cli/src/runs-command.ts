// `astra runs list|show|watch|logs|export|diff`: looking at runs, following one, taking its whole history away. Changing them is
// steer-command.ts.

import { allItems } from "@astraflow/client";
import { diffWorkflows } from "@astraflow/graph";
import type { Run, RunNodeStatus } from "@astraflow/protocol";
import { type ExitCode, exitCodes } from "./failure.ts";
import { findNodeOfRun, findRun, findWorkflow } from "./finding.ts";
import { type Place, printList, span, when } from "./place.ts";
import { watchToEnd } from "./run-command.ts";
import { readFacts } from "./run-following.ts";
import { drawRun, isEnded } from "./run-picture.ts";
import { layTable, tame } from "./terminal.ts";

export interface ListWords {
  readonly status?: string;
  readonly client?: string;
  readonly workflow?: string;
  readonly since?: string;
  readonly search?: string;
  readonly limit: number;
}

export async function listRuns(words: ListWords, place: Place): Promise<ExitCode> {
  const { client, terminal, json } = place;
  const page = await client.listRuns({
    limit: words.limit,
    status: words.status,
    clientId: words.client,
    since: words.since,
    q: words.search,
    ...(words.workflow !== undefined && { workflowId: (await findWorkflow(words.workflow, client)).id }),
  });
  printList(
    {
      items: page.items,
      body: page,
      id: (run) => run.runId,
      columns: [
        { head: "RUN", of: (run) => run.runId },
        { head: "STATUS", of: (run) => run.status },
        { head: "WORKFLOW", of: (run) => run.name ?? "" },
        { head: "CREATED", of: (run) => when(run.createdAt ?? run.startedAt) },
        { head: "TOOK", of: tookOf },
        { head: "VERSION", of: (run) => String(run.version ?? ""), isWide: true },
        { head: "BY", of: (run) => run.startedBy ?? "", isWide: true },
        { head: "CLIENT", of: (run) => run.clientId },
        { head: "OPEN", of: (run) => String(run.openTasks ?? ""), isWide: true },
        { head: "ERROR", of: (run) => run.error?.code ?? "", isWide: true },
      ],
      none: "There is no such run. Start one: astra run examples/workflows/welcome.json",
    },
    place,
  );
  if (page.nextCursor !== null && !json) terminal.say(`more: --limit ${Math.min(200, words.limit * 2)}`);
  return exitCodes.ok;
}

const tookOf = ({ startedAt, finishedAt }: Pick<Run, "startedAt" | "finishedAt">): string =>
  startedAt && finishedAt ? span(Date.parse(finishedAt) - Date.parse(startedAt)) : "";

export async function showRun(id: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const run = await client.getRun({ runId });
  if (json) terminal.print(JSON.stringify(run));
  else {
    const workflow = await client.getRunDefinition({ runId });
    const columns = terminal.isLive ? terminal.columns : Number.POSITIVE_INFINITY;
    for (const line of drawRun(run, workflow, { paint: terminal.paint, columns, now: Date.now(), url: client.url }))
      terminal.print(line);
    if (run.error) terminal.print(`${run.error.code}: ${tame(run.error.message)}`);
    for (const { resourceId, workerName, type } of run.artifacts ?? [])
      terminal.print(`artifact ${tame(resourceId)} (${tame(type)}) at ${tame(workerName)}`);
  }
  return exitCodes.ok;
}

export async function watchRun(id: string, place: Place & { signal: AbortSignal }): Promise<ExitCode> {
  return watchToEnd(await findRun(id, place.client), { json: place.json, watch: true }, place);
}

/**
 * One line of definition, the facts in order, one line of final state. The run is read before its facts: once it has ended it does
 * not change any more, so the facts read afterwards are all there are.
 */
export async function exportRun(id: string, { client, terminal }: Place): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const run = await client.getRun({ runId });
  terminal.print(JSON.stringify({ kind: "definition", runId, definition: await client.getRunDefinition({ runId }) }));
  for (const fact of await readFacts(client, runId, null))
    terminal.print(JSON.stringify({ kind: "fact", cursor: String(fact.position), ...fact }));
  terminal.print(JSON.stringify({ kind: "run", isEnded: isEnded(run), run }));
  return exitCodes.ok;
}

export interface LogWords {
  readonly channel?: string;
  readonly search?: string;
  readonly follow?: boolean;
}

/** What nodes printed, line by line; followed, what they print from then on too. */
export async function showLogs(
  id: string,
  node: string | undefined,
  words: LogWords,
  { client, terminal, json, signal }: Place & { signal: AbortSignal },
): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const only = node === undefined ? undefined : await findNodeOfRun(node, runId, client);
  const labels = await labelsOf(client, runId);
  const query = { runId, node: only, channel: words.channel, q: words.search, limit: 1_000 };
  let asOf = 0;
  const pages = allItems(async (cursor) => {
    const page = await client.getRunLogs({ ...query, cursor });
    asOf = page.asOf;
    return page;
  });
  const prefix = (nodeId: string): string => (only === undefined ? `${tame(labels.get(nodeId) ?? nodeId)}: ` : "");
  for await (const line of pages)
    terminal.print(
      json ? JSON.stringify(line) : prefix(line.nodeId) + (line.mimeType === undefined ? tame(line.text) : `(${line.mimeType})`),
    );
  if (words.follow !== true || isEnded(await client.getRun({ runId }))) return exitCodes.ok;
  for await (const { id: cursor, type, data } of client.events({
    runId,
    after: String(asOf),
    topics: "run.status,node.result",
    signal,
  })) {
    if (data.kind === "run.status" && isEnded(data)) break;
    if (data.kind !== "node.result.delta" || data.operation !== "append") continue;
    const text = data.payload?.["text"];
    if (typeof text !== "string" || (only !== undefined && data.nodeId !== only && data.taskId !== only)) continue;
    if (json) terminal.print(JSON.stringify({ cursor, type, ...data }));
    else for (const line of text.replace(/\n$/, "").split("\n")) terminal.print(prefix(data.nodeId) + tame(line));
  }
  return exitCodes.ok;
}

async function labelsOf(client: Place["client"], runId: string): Promise<Map<string, string>> {
  const { nodes = [] } = await client.getRun({ runId });
  return new Map(nodes.map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
}

const changesShownMax = 20;

/** What differs between two runs: the workflow they ran, and how each node ended in them. */
export async function diffRuns(first: string, second: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const ids = [await findRun(first, client), await findRun(second, client)] as const;
  const [a, b] = await Promise.all(ids.map((runId) => client.getRun({ runId })));
  const [from, to] = await Promise.all(ids.map((runId) => client.getRunDefinition({ runId })));
  if (a === undefined || b === undefined || from === undefined || to === undefined) return exitCodes.notFound;
  // States, and the position they are true at, are filled into definitions; they are no part of what was authored.
  const definition = a.definitionHash === b.definitionHash ? [] : diffWorkflows(stateless(from), stateless(to)).summary;
  const nodes = differences(a.nodes ?? [], b.nodes ?? []);
  if (json) terminal.print(JSON.stringify({ runs: ids, status: [a.status, b.status], definition, nodes }));
  else {
    terminal.print(`${a.runId} ${a.status} ${tookOf(a)}`.trimEnd());
    terminal.print(`${b.runId} ${b.status} ${tookOf(b)}`.trimEnd());
    for (const { text } of definition.slice(0, changesShownMax)) terminal.print(`workflow: ${tame(text)}`);
    if (definition.length > changesShownMax)
      terminal.print(`workflow: and ${definition.length - changesShownMax} more changes; --json shows all`);
    const rows = nodes.map(({ label, what, first: one, second: two }) => [tame(label), what, tame(one), tame(two)]);
    if (rows.length > 0) for (const line of layTable([["NODE", "WHAT", "FIRST", "SECOND"], ...rows])) terminal.print(line);
    if (rows.length + definition.length === 0) terminal.say("They ran the same workflow, and every node gave the same.");
  }
  return exitCodes.ok;
}

function stateless(workflow: Parameters<typeof diffWorkflows>[0]): Parameters<typeof diffWorkflows>[0] {
  const bare = <N extends object>(node: N): N => {
    const { state: _state, ...rest } = node as N & { state?: unknown };
    return rest as N;
  };
  const { asOf: _asOf, ...authored } = workflow as typeof workflow & { asOf?: number };
  return {
    ...authored,
    nodes: workflow.nodes.map((node) => ({
      ...bare(node),
      ...(node.middlewares !== undefined && { middlewares: node.middlewares.map(bare) }),
    })),
  };
}

interface Difference {
  readonly nodeId: string;
  readonly label: string;
  readonly what: "status" | "result" | "error" | "attempts";
  readonly first: string;
  readonly second: string;
}

/** By the place in the run (`0`, `4*2/7`), which both have alike. */
function differences(first: readonly RunNodeStatus[], second: readonly RunNodeStatus[]): Difference[] {
  const slot = ({ taskId }: RunNodeStatus): string => taskId.slice(taskId.indexOf(".") + 1);
  const others = new Map(second.map((node) => [slot(node), node]));
  return first.flatMap((node) => {
    const other = others.get(slot(node));
    // Of another workflow the same place is another node, and there is nothing to compare.
    if (other === undefined || other.nodeId !== node.nodeId) return [];
    return views.flatMap(([what, view]): Difference[] => {
      const [one, two] = [view(node), view(other)];
      return one === two
        ? []
        : [{ nodeId: node.nodeId, label: node.label ?? node.nodeId, what, first: brief(one), second: brief(two) }];
    });
  });
}

const views: readonly (readonly [Difference["what"], (node: RunNodeStatus) => string])[] = [
  ["status", (node) => node.status],
  ["error", (node) => node.error?.code ?? ""],
  ["attempts", (node) => String(node.attempt ?? 0)],
  ["result", (node) => JSON.stringify(node.result ?? null)],
];

const brief = (text: string): string => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
