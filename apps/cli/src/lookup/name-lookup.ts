// From what a person wrote to the thing that is meant: ids shortened while unique, names of workflows, labels of nodes; and the nearest word
// where nothing fits.

import { allItems } from "@astraflow/client";
import { compilePlan, type Plan } from "@astraflow/graph";
import { closestMatch, type Workflow } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

/** A whole id: `8-4-4-4-12` hex digits. */
const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** How many of the latest are looked through for a shortened id. */
const searchedItemsMax = 1_000;
const matchesShownMax = 5;

interface NamedItem {
  readonly id: string;
  readonly name: string;
}

/** The one thing that a word means: its id or name, else the only one whose id begins or ends with it, or whose name begins with it. */
export function findByNameOrId(nameOrId: string, items: readonly NamedItem[], what: string, next: string): NamedItem {
  const lowerCase = nameOrId.toLowerCase();
  const exact = items.filter(({ id, name }) => id === nameOrId || name.toLowerCase() === lowerCase);
  const fitting = exact.length > 0 ? exact : items.filter((item) => matchesPartially(lowerCase, item));
  const [match] = fitting;
  if (match !== undefined && fitting.every(({ id }) => id === match.id)) return match;
  if (match !== undefined) {
    const shown = fitting
      .slice(0, matchesShownMax)
      .map(({ id, name }) => (name === "" ? id : `${id} (${stripControlCharacters(name)})`));
    const more = fitting.length > shown.length ? ", …" : "";
    throw usageFailure(
      `"${stripControlCharacters(nameOrId)}" fits ${fitting.length} ${what}s: ${shown.join(", ")}${more}. Write more of it.`,
      next,
    );
  }
  const suggestion = closestMatch(
    nameOrId,
    items.flatMap(({ id, name }) => (name === "" ? [id] : [name])),
  );
  const hint = suggestion === null ? "" : ` Did you mean "${stripControlCharacters(suggestion)}"?`;
  throw new CliFailure(
    exitCodes.notFound,
    { error: "E.NOT_FOUND", message: `There is no ${what} "${stripControlCharacters(nameOrId)}".${hint}` },
    next,
  );
}

/** The end of an id tells things of one moment apart, its beginning is the time; both are accepted. */
const matchesPartially = (lowerCase: string, { id, name }: NamedItem): boolean =>
  lowerCase !== "" && (id.startsWith(lowerCase) || id.endsWith(lowerCase) || name.toLowerCase().startsWith(lowerCase));

/** A run by its id, or by the beginning or end of it among the latest. */
export async function findRunId(nameOrId: string, client: Client): Promise<string> {
  if (uuidPattern.test(nameOrId)) return nameOrId;
  const found: NamedItem[] = [];
  for await (const { runId } of allItems((cursor) => client.listRuns({ limit: 200, cursor }))) {
    found.push({ id: runId, name: "" });
    if (found.length >= searchedItemsMax) break;
  }
  return findByNameOrId(nameOrId, found, "run", "astra runs list").id;
}

/** A kept workflow by id, shortened id or name. */
export async function findWorkflow(nameOrId: string, client: Client): Promise<NamedItem> {
  if (uuidPattern.test(nameOrId)) return { id: nameOrId, name: "" };
  const found: NamedItem[] = [];
  for await (const { id, metadata } of allItems((cursor) => client.listWorkflows({ limit: 200, cursor }))) {
    found.push({ id, name: metadata.name });
    if (found.length >= searchedItemsMax) break;
  }
  return findByNameOrId(nameOrId, found, "workflow", "astra workflows list");
}

/** A node by id, shortened id or label; a slot such as `4*2/7` names one of several and is handed on as it is. */
export function findNodeId(nameOrId: string, workflow: Workflow): string {
  if (/^\d+([~*/]\d+)+$/.test(nameOrId)) return nameOrId;
  return findByNameOrId(nameOrId, listPlanNodes(compilePlan(workflow)), "node", "astra runs show RUN").id;
}

/** Every node that a workflow names: middlewares and the bodies of containers too. */
function listPlanNodes(plan: Plan): NamedItem[] {
  return plan.nodes.flatMap((node) => [
    { id: node.id, name: node.label },
    ...(node.container === null ? [] : listPlanNodes(node.container.body)),
  ]);
}

/**
 * How the API is asked about a node of a run. Nodes of the top level have one task; of one inside a container or a chain the task is named:
 * the one that is under way, else the last.
 */
export async function findNodeOrTaskId(nameOrId: string, runId: string, client: Client): Promise<string> {
  const workflow = await client.getRunDefinition({ runId });
  const node = findNodeId(nameOrId, workflow);
  if (!uuidPattern.test(node) || workflow.nodes.some(({ id }) => id === node)) return node;
  const { nodes = [] } = await client.getRun({ runId });
  const own = nodes.filter(({ nodeId }) => nodeId === node);
  return (own.findLast(({ status }) => status === "running" || status === "queued") ?? own.at(-1))?.taskId ?? node;
}
