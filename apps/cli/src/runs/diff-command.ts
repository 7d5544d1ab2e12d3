// `astra runs diff`: compares two runs: their workflows, and the status, result, attempts and duration of each node.

import { diffWorkflows } from "@astraflow/graph";
import type { Run, RunNodeStatus } from "@astraflow/protocol";
import type { CommandContext } from "../api/command-context.ts";
import { findRunId } from "../lookup/name-lookup.ts";
import { type CliExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatRunDuration, formatTimeSpan } from "../output/format.ts";
import { fitTableToWidth, formatTable, truncate } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

const changesShownMax = 20;
const valueWidthMax = 60;

export async function diffRuns(first: string, second: string, { client, terminal, json }: CommandContext): Promise<CliExitCode> {
  const ids = [await findRunId(first, client), await findRunId(second, client)] as const;
  const [a, b] = await Promise.all([client.getRun({ runId: ids[0] }), client.getRun({ runId: ids[1] })]);
  const [from, to] = await Promise.all([client.getRunDefinition({ runId: ids[0] }), client.getRunDefinition({ runId: ids[1] })]);
  // The API adds states and a log position to definitions; they are not part of the workflow.
  const definition =
    a.definitionHash === b.definitionHash ? [] : diffWorkflows(withoutRunState(from), withoutRunState(to)).summary;
  const nodes = compareNodes(a.nodes ?? [], b.nodes ?? []);
  if (json)
    terminal.print(
      JSON.stringify({ runs: ids, status: [a.status, b.status], tookMs: [durationMs(a), durationMs(b)], definition, nodes }),
    );
  else {
    terminal.print(`${a.runId} ${a.status} ${formatRunDuration(a)}`.trimEnd());
    terminal.print(`${b.runId} ${b.status} ${formatRunDuration(b)}`.trimEnd());
    for (const { text } of definition.slice(0, changesShownMax)) terminal.print(`workflow: ${stripControlCharacters(text)}`);
    if (definition.length > changesShownMax)
      terminal.print(`workflow: and ${definition.length - changesShownMax} more changes; --json shows all`);
    const rows = nodes.map(({ label, what, first: one, second: two }) => [
      stripControlCharacters(label),
      what,
      stripControlCharacters(one),
      stripControlCharacters(two),
    ]);
    const table = [["NODE", "WHAT", "FIRST", "SECOND"], ...rows];
    if (rows.length > 0)
      for (const line of formatTable(fitTableToWidth(table, [{}, {}, {}, {}], terminal.stdoutColumns))) terminal.print(line);
    if (rows.length + definition.length === 0) terminal.info("No differences: same workflow, and the same result of every node.");
  }
  return exitCodes.ok;
}

function withoutRunState(workflow: Parameters<typeof diffWorkflows>[0]): Parameters<typeof diffWorkflows>[0] {
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
    const differs = (what: NodeDifference["what"], one: string, two: string): NodeDifference[] =>
      one === two
        ? []
        : [
            {
              nodeId: node.nodeId,
              label: node.label ?? node.nodeId,
              what,
              first: truncate(one, valueWidthMax),
              second: truncate(two, valueWidthMax),
            },
          ];
    return [
      ...comparedFields.flatMap(([what, view]) => differs(what, view(node), view(other))),
      ...(isDurationDifferent(durationMs(node), durationMs(other))
        ? differs("took", formatNodeDuration(node), formatNodeDuration(other))
        : []),
    ];
  });
}

const comparedFields: readonly (readonly [NodeDifference["what"], (node: RunNodeStatus) => string])[] = [
  ["status", (node) => node.status],
  ["error", (node) => node.error?.code ?? ""],
  ["attempts", (node) => String(node.attempt ?? 0)],
  ["result", (node) => JSON.stringify(node.result ?? null)],
];

/** Durations always differ a little: reported are differences of a fifth and more, above this minimum. */
const durationDifferenceMsMin = 100;
const durationDifferenceShareMin = 0.2;

function isDurationDifferent(one: number | null, two: number | null): boolean {
  if (one === null || two === null) return one !== two;
  return Math.abs(one - two) > Math.max(durationDifferenceMsMin, durationDifferenceShareMin * Math.max(one, two));
}

function durationMs({ startedAt, finishedAt }: Pick<Run, "startedAt" | "finishedAt">): number | null {
  return startedAt === undefined || finishedAt === undefined ? null : Date.parse(finishedAt) - Date.parse(startedAt);
}

function formatNodeDuration(node: RunNodeStatus): string {
  const ms = durationMs(node);
  return ms === null ? "-" : formatTimeSpan(ms);
}
