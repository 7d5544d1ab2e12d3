// Finds what the user named: by id, by its unique beginning or end, or by name; suggests the closest name where nothing matches.

import { compilePlan, type Plan } from "@astraflow/graph";
import { closestMatch, type Workflow } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { notFoundFailure, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { readPages } from "./pages.ts";

/** A whole id: `8-4-4-4-12` hex digits. */
const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** How many of the latest items are searched for a shortened id. */
export const searchedItemsMax = 1_000;
const matchesShownMax = 5;

interface NamedItem {
  readonly id: string;
  readonly name: string;
}

/** The item with this id or name, else the only one whose id begins or ends, or whose name begins, with it. */
export function findByNameOrId<T extends NamedItem>(
  nameOrId: string,
  items: readonly T[],
  what: string,
  next: string,
  plural: string = `${what}s`,
): T {
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
      `"${stripControlCharacters(nameOrId)}" matches ${fitting.length} ${plural}: ${shown.join(", ")}${more}. Use a longer prefix.`,
      next,
    );
  }
  const names = items.map(({ id, name }) => name || id);
  throw notFoundFailure(what, nameOrId, closestMatch(nameOrId, names), next);
}

/** Both ends of an id are accepted: its beginning is the time, its end tells ids of one moment apart. */
const matchesPartially = (lowerCase: string, { id, name }: NamedItem): boolean =>
  lowerCase !== "" && (id.startsWith(lowerCase) || id.endsWith(lowerCase) || name.toLowerCase().startsWith(lowerCase));

/** A run by its id, or by the beginning or end of the id among the latest runs. */
export async function findRunId(nameOrId: string, client: Client): Promise<string> {
  if (uuidPattern.test(nameOrId)) return nameOrId;
  const { items } = await readPages((cursor) => client.listRuns({ limit: 200, cursor }), searchedItemsMax);
  const named = items.map(({ runId }) => ({ id: runId, name: "" }));
  return findByNameOrId(nameOrId, named, "run", "astra runs list").id;
}

export const findRunIdIfGiven = async (nameOrId: string | undefined, client: Client): Promise<string | undefined> =>
  nameOrId === undefined ? undefined : findRunId(nameOrId, client);

/** A stored workflow by id, shortened id or name. */
export async function findWorkflow(nameOrId: string, client: Client): Promise<NamedItem> {
  if (uuidPattern.test(nameOrId)) return { id: nameOrId, name: "" };
  const { items } = await readPages((cursor) => client.listWorkflows({ limit: 200, cursor }), searchedItemsMax);
  const named = items.map(({ id, metadata }) => ({ id, name: metadata.name }));
  return findByNameOrId(nameOrId, named, "workflow", "astra workflows list");
}

/** The draft of a stored workflow, or one of its versions; the latest is the draft while there is none. */
export async function loadDefinition(
  workflowId: string,
  version: number | "draft" | "latest",
  client: Client,
): Promise<Workflow> {
  if (typeof version === "number") return (await client.getVersion({ workflowId, version })).workflow;
  const { workflow, latestVersion } = await client.getDraft({ workflowId });
  return version === "latest" && typeof latestVersion === "number" ? loadDefinition(workflowId, latestVersion, client) : workflow;
}

/** A node by id, shortened id or label; a slot such as `4*2/7` names one task of a node and is returned as it is. */
export function findNodeId(nameOrId: string, workflow: Workflow): string {
  if (/^\d+([~*/]\d+)+$/.test(nameOrId)) return nameOrId;
  return findByNameOrId(nameOrId, listPlanNodes(compilePlan(workflow)), "node", "astra runs show RUN").id;
}

/** Every node of a workflow, with middlewares and the bodies of containers. */
function listPlanNodes(plan: Plan): NamedItem[] {
  return plan.nodes.flatMap((node) => [
    { id: node.id, name: node.label },
    ...(node.container === null ? [] : listPlanNodes(node.container.body)),
  ]);
}

/**
 * What the API takes as the node of a run: the id of a top-level node, which has one task, or the task id of a node inside a container or a
 * chain: the task in progress, else the last one.
 */
export async function findNodeOrTaskId(nameOrId: string, runId: string, client: Client): Promise<string> {
  const workflow = await client.getRunDefinition({ runId });
  const node = findNodeId(nameOrId, workflow);
  if (!uuidPattern.test(node) || workflow.nodes.some(({ id }) => id === node)) return node;
  const { nodes = [] } = await client.getRun({ runId });
  const own = nodes.filter(({ nodeId }) => nodeId === node);
  return (own.findLast(({ status }) => status === "running" || status === "queued") ?? own.at(-1))?.taskId ?? node;
}
