// From what a person wrote to the thing that is meant: ids shortened while unique, names of workflows, labels of nodes; and the nearest word
// where nothing fits.

import { allItems } from "@astraflow/client";
import { compilePlan, type Plan } from "@astraflow/graph";
import { closestMatch, type Workflow } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, exitCodes, usageFailure } from "./failure.ts";
import { tame } from "./terminal.ts";

/** A whole id: `8-4-4-4-12` hex digits. */
const wholeId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** How many of the latest are looked through for a shortened id. */
const lookedThroughMax = 1_000;
const namesShownMax = 5;

interface Named {
  readonly id: string;
  readonly name: string;
}

/** The one thing that a word means: its id or name, else the only one whose id begins or ends with it, or whose name begins with it. */
export function pick(word: string, things: readonly Named[], what: string, next: string): Named {
  const low = word.toLowerCase();
  const exact = things.filter(({ id, name }) => id === word || name.toLowerCase() === low);
  const fitting = exact.length > 0 ? exact : things.filter((thing) => isShort(low, thing));
  const [only] = fitting;
  if (only !== undefined && fitting.every(({ id }) => id === only.id)) return only;
  if (only !== undefined) {
    const shown = fitting.slice(0, namesShownMax).map(({ id, name }) => (name === "" ? id : `${id} (${tame(name)})`));
    const more = fitting.length > shown.length ? ", …" : "";
    throw usageFailure(`"${tame(word)}" fits ${fitting.length} ${what}s: ${shown.join(", ")}${more}. Write more of it.`, next);
  }
  const near = closestMatch(
    word,
    things.flatMap(({ id, name }) => (name === "" ? [id] : [name])),
  );
  const hint = near === null ? "" : ` Did you mean "${tame(near)}"?`;
  throw new CliFailure(
    exitCodes.notFound,
    { error: "E.NOT_FOUND", message: `There is no ${what} "${tame(word)}".${hint}` },
    next,
  );
}

/** The end of an id tells things of one moment apart, its beginning is the time; both are accepted. */
const isShort = (low: string, { id, name }: Named): boolean =>
  low !== "" && (id.startsWith(low) || id.endsWith(low) || name.toLowerCase().startsWith(low));

/** A run by its id, or by the beginning or end of it among the latest. */
export async function findRun(word: string, client: Client): Promise<string> {
  if (wholeId.test(word)) return word;
  const found: Named[] = [];
  for await (const { runId } of allItems((cursor) => client.listRuns({ limit: 200, cursor }))) {
    found.push({ id: runId, name: "" });
    if (found.length >= lookedThroughMax) break;
  }
  return pick(word, found, "run", "astra runs list").id;
}

/** A kept workflow by id, shortened id or name. */
export async function findWorkflow(word: string, client: Client): Promise<Named> {
  if (wholeId.test(word)) return { id: word, name: "" };
  const found: Named[] = [];
  for await (const { id, metadata } of allItems((cursor) => client.listWorkflows({ limit: 200, cursor }))) {
    found.push({ id, name: metadata.name });
    if (found.length >= lookedThroughMax) break;
  }
  return pick(word, found, "workflow", "astra workflows list");
}

/** A node by id, shortened id or label; a slot such as `4*2/7` names one of several and is handed on as it is. */
export function findNode(word: string, workflow: Workflow): string {
  if (/^\d+([~*/]\d+)+$/.test(word)) return word;
  return pick(word, nodesIn(compilePlan(workflow)), "node", "astra runs show RUN").id;
}

/** Every node that a workflow names: middlewares and the bodies of containers too. */
function nodesIn(plan: Plan): Named[] {
  return plan.nodes.flatMap((node) => [
    { id: node.id, name: node.label },
    ...(node.container === null ? [] : nodesIn(node.container.body)),
  ]);
}

/**
 * How the API is asked about a node of a run. Nodes of the top level have one task; of one inside a container or a chain the task is named:
 * the one that is under way, else the last.
 */
export async function findNodeOfRun(word: string, runId: string, client: Client): Promise<string> {
  const workflow = await client.getRunDefinition({ runId });
  const node = findNode(word, workflow);
  if (!wholeId.test(node) || workflow.nodes.some(({ id }) => id === node)) return node;
  const { nodes = [] } = await client.getRun({ runId });
  const own = nodes.filter(({ nodeId }) => nodeId === node);
  return (own.findLast(({ status }) => status === "running" || status === "queued") ?? own.at(-1))?.taskId ?? node;
}
