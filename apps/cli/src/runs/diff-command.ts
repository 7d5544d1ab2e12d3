// `astra runs diff`: compares two runs: their workflows, and the status, result, attempts and duration of each node.

import { diffWorkflows } from "@astraflow/graph";
import type { Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { findRunId } from "../lookup/name-lookup.ts";
import type { ExitCode } from "../output/cli-failure.ts";
import { formatRunDuration } from "../output/format.ts";
import { fitTableToWidth, formatTable, truncate } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

const changesShownMax = 20;
const valueWidthMax = 60;

export async function diffRuns(context: CommandContext, { first, second }: TextInput<"first" | "second">): Promise<ExitCode> {
  const { client, terminal } = context;
  const ids = [await findRunId(first, client), await findRunId(second, client)] as const;
  const [a, b] = await Promise.all([client.getRun({ runId: ids[0] }), client.getRun({ runId: ids[1] })]);
  const [from, to] = await Promise.all([client.getRunDefinition({ runId: ids[0] }), client.getRunDefinition({ runId: ids[1] })]);
  // The API adds states and a log position to definitions; they are not part of the workflow.
  const definition =
    a.definitionHash === b.definitionHash ? [] : diffWorkflows(withoutRunState(from), withoutRunState(to)).summary;
  const nodes = compareNodes(a.nodes ?? [], b.nodes ?? []);
  const hiddenCount = definition.length - changesShownMax;
  const rows = nodes.map((node) => [node.label, node.what, node.first, node.second].map(stripControlCharacters));
  const table = fitTableToWidth([["NODE", "WHAT", "FIRST", "SECOND"], ...rows], [{}, {}, {}, {}], terminal.stdoutColumns);
  const lines = [
    ...[a, b].map((run) => `${run.runId} ${run.status} ${formatRunDuration(run)}`.trimEnd()),
    ...definition.slice(0, changesShownMax).map(({ text }) => `workflow: ${text}`),
    ...(hiddenCount > 0 ? [`workflow: and ${hiddenCount} more changes; --json shows all`] : []),
    ...(rows.length > 0 ? formatTable(table) : []),
  ];
  const isSame = rows.length + definition.length === 0;
  return printItem(
    context,
    { runs: ids, status: [a.status, b.status], tookMs: [durationMs(a), durationMs(b)], definition, nodes },
    lines,
    isSame && "No differences: same workflow, and the same result of every node.",
  );
}

function withoutRunState(workflow: Workflow): Workflow {
  const { asOf: _asOf, ...authored } = workflow as Workflow & { asOf?: number };
  const nodes = workflow.nodes.map((node) => ({
    ...withoutState(node),
    ...(node.middlewares !== undefined && { middlewares: node.middlewares.map(withoutState) }),
  }));
  return { ...authored, nodes };
}

function withoutState<Node extends object>(node: Node): Node {
  const { state: _state, ...rest } = node as Node & { state?: unknown };
  return rest as Node;
}

interface NodeDifference {
  readonly nodeId: string;
  readonly label: string;
  readonly what: "status" | "result" | "error" | "attempts" | "took";
  readonly first: string;
  readonly second: string;
}

/** Pairs nodes by their slot in the run (`0`, `4*2/7`). */
export function compareNodes(first: readonly RunNodeStatus[], second: readonly RunNodeStatus[]): NodeDifference[] {
  const slot = ({ taskId }: RunNodeStatus): string => taskId.slice(taskId.indexOf(".") + 1);
  const others = new Map(second.map((node) => [slot(node), node]));
  return first.flatMap((node) => {
    const other = others.get(slot(node));
    // In another workflow the same slot may be another node.
    if (other === undefined || other.nodeId !== node.nodeId) return [];
    const base = { nodeId: node.nodeId, label: node.label ?? node.nodeId };
    return comparedFields.flatMap(([what, view, isDifferent]) => {
      const [one, two] = [view(node), view(other)];
      if (one === two || isDifferent?.(node, other) === false) return [];
      return [{ ...base, what, first: truncate(one, valueWidthMax), second: truncate(two, valueWidthMax) }];
    });
  });
}

type ComparedField = readonly [
  what: NodeDifference["what"],
  view: (node: RunNodeStatus) => string,
  isDifferent?: (one: RunNodeStatus, other: RunNodeStatus) => boolean,
];

const comparedFields: readonly ComparedField[] = [
  ["status", (node) => node.status],
  ["error", (node) => node.error?.code ?? ""],
  ["attempts", (node) => String(node.attempt ?? 0)],
  ["result", (node) => JSON.stringify(node.result ?? null)],
  ["took", (node) => formatRunDuration(node) || "-", isDurationDifferent],
];

/** Durations always differ a little: reported are differences of a fifth and more, above this minimum. */
const durationDifferenceMsMin = 100;
const durationDifferenceShareMin = 0.2;

function isDurationDifferent(first: RunNodeStatus, second: RunNodeStatus): boolean {
  const [one, two] = [durationMs(first), durationMs(second)];
  if (one === null || two === null) return one !== two;
  return Math.abs(one - two) > Math.max(durationDifferenceMsMin, durationDifferenceShareMin * Math.max(one, two));
}

function durationMs({ startedAt, finishedAt }: Pick<Run, "startedAt" | "finishedAt">): number | null {
  return startedAt === undefined || finishedAt === undefined ? null : Date.parse(finishedAt) - Date.parse(startedAt);
}
