// `astra runs results RUN [NODE]`, and the results that `astra run` and `astra runs show` end with: those of the last nodes, cut to a line.

import { compilePlan } from "@astraflow/graph";
import type { JsonValue, Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import type { ExitCode } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

/** Characters of one result that are shown beside a run, and how many of its last nodes. */
const shownLimits = { chars: 160, nodes: 8 } as const;

/** Nodes that no other waits for, with what they gave; middlewares and nodes inside containers are not among them. */
function lastResults(run: Run, workflow: Workflow): RunNodeStatus[] {
  const { nodes } = compilePlan(workflow);
  const last = new Set(nodes.filter(({ host, after }) => host === null && after.length === 0).map(({ ordinal }) => ordinal));
  return (run.nodes ?? []).filter(
    ({ taskId, result }) => result !== undefined && last.has(Number(taskId.slice(run.runId.length + 1))),
  );
}

/** One line for each of the last nodes that gave something, and the command that prints all of it where it was cut. */
export function describeResults(run: Run, workflow: Workflow): string[] {
  const results = lastResults(run, workflow);
  const lines = results.slice(0, shownLimits.nodes).map((node) => {
    const label = stripControlCharacters(node.label ?? node.nodeId);
    const text = JSON.stringify(node.result);
    if (text.length <= shownLimits.chars) return `result of ${label}: ${text}`;
    const cut = text.slice(0, shownLimits.chars).replace(/[\ud800-\udbff]$/, "");
    return `result of ${label}: ${cut}… (${text.length} characters; all of it: astra runs results ${run.runId} ${node.nodeId})`;
  });
  const left = results.length - lines.length;
  return left > 0 ? [...lines, `${left} more results: astra runs results ${run.runId}`] : lines;
}

/** Without a node the results of the last ones, by label; with one its own result, whole. */
export async function showResults(
  context: CommandContext,
  { run: id, node: nameOrId }: TextInput<"run", "node">,
): Promise<ExitCode> {
  const { client } = context;
  const runId = await findRunId(id, client);
  if (nameOrId !== undefined) {
    const nodeId = await findNodeOrTaskId(nameOrId, runId, client);
    const { node } = await client.getRunNode({ runId, nodeId });
    const hint = node.result === undefined && `Node ${node.label ?? nodeId} is ${node.status} and has no result.`;
    return printItem(context, node.result ?? null, node.result === undefined ? [] : formatResult(node.result), hint);
  }
  const run = await client.getRun({ runId });
  const results = lastResults(run, await client.getRunDefinition({ runId }));
  const items = results.map(({ nodeId, taskId, label, status, result }) => ({ nodeId, taskId, label, status, result }));
  const lines = results.flatMap(({ nodeId, label, result }) => [`${label ?? nodeId}:`, ...formatResult(result ?? null)]);
  const hint =
    results.length === 0 &&
    `No last node of this run has a result; it is ${run.status}. Others: astra runs results ${runId} NODE`;
  return printItem(context, { runId, status: run.status, items }, lines, hint);
}

const formatResult = (result: JsonValue): string[] => JSON.stringify(result, null, 2).split("\n");
