// I49: what comes out is what was drawn. Where nothing was lost and nobody interfered a run ends as the drawing says; and whatever happens, a run
// in which nothing can go another way returns, once it has succeeded, exactly what its drawing says: lists complete and in order.

import type { MoodSheet } from "../mood.ts";
import type { Bench, Checker } from "./checker.ts";
import { type Expected, expect } from "./model.ts";
import type { Asked, AskedGraph, AskedNode, Plans } from "./plans.ts";

interface Face {
  readonly runId: string;
  readonly status: string;
  readonly clientId: string;
  readonly repeatOf?: string;
  readonly nodes: readonly {
    readonly nodeId: string;
    readonly taskId: string;
    readonly status: string;
    readonly result?: Json;
  }[];
}
type Json = Readonly<Record<string, unknown>>;

const isOver = (status: string): boolean => status === "succeeded" || status === "failed" || status === "cancelled";

export function outcome({ fail, lives, scene }: Bench, plans: Plans): Checker {
  let faults = 0;
  let saw = 0;

  /** What it returns depends on nothing but its parameters: nodes neither fail nor are left out nor give up waiting. */
  const isSure = (asked: Asked): boolean => nodesOf(asked).every(isSteady);
  /** Nothing in it depends on how long something takes. */
  const isTimeless = (asked: Asked): boolean => asked.timeoutMs === undefined && nodesOf(asked).every((node) => !isTimed(node));

  const judge = (tenant: string, run: Face): void => {
    const plan = plans.of(tenant, run.clientId);
    const life = lives.run(run.runId);
    if (plan === null || life === undefined || scene.setUp?.profile !== "workflow" || !isOver(run.status)) return;
    // What an operator did, or what was taken over from another run, is not in the drawing.
    if (run.repeatOf !== undefined || life.facts.some(({ type }) => type.startsWith("audit."))) return;
    // Workers of older dialects know neither chains nor things that are kept: what they run of those ends as if it had withheld the rest.
    if (life.facts.some(({ type, data }) => type === "task.granted" && scene.isOlder(String(data["worker"])))) return;
    const isCalm = faults === 0 && isTimeless(plan.asked);
    if (!isCalm && !(run.status === "succeeded" && isSure(plan.asked))) return;
    const expected = expect(plan.asked);
    const status = [...expected.values()].some((end) => end === null || end.status === "failed") ? "failed" : "succeeded";
    saw++;
    if (run.status !== status) return fail(`run ${run.runId} is ${run.status} and should be ${status}`, [run.runId]);
    if (status === "failed") return;
    for (const [node, end] of expected) {
      const shown = run.nodes.find(({ nodeId, taskId }) => nodeId === node && /\.\d+$/.test(taskId));
      const problem = shown === undefined || end === null ? "is not shown" : difference(end, shown);
      if (problem !== null) return fail(`node ${node} of run ${run.runId} ${problem}`, [run.runId]);
    }
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "fault") faults++;
    },
    exchange({ call, answer }) {
      if (call.route === "getRun" && call.caller === "auditor" && answer.status === 200) judge(call.tenant, answer.body as Face);
    },
  };
}

function difference(end: Expected, shown: Face["nodes"][number]): string | null {
  if (shown.status !== end.status) return `is ${shown.status} and should be ${end.status}`;
  const { by: _, kept: _kept, ...result } = shown.result ?? {};
  const [is, should] = [canonical(result), canonical(end.results)];
  return is === should ? null : `returned ${is} and should ${should}`;
}

/** Equal for values that differ only in the order of their keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

const graphsOf = ({ workflow }: Asked): AskedGraph[] => [
  workflow,
  ...(workflow.subgraphs ?? []).map(({ definition }) => definition),
];
const nodesOf = (asked: Asked): AskedNode[] =>
  graphsOf(asked).flatMap(({ nodes }) => nodes.flatMap((node) => [node, ...(node.middlewares ?? [])]));

const sheetIn = ({ parameters }: AskedNode): MoodSheet | undefined => parameters?.["sim"] as MoodSheet | undefined;

function isSteady(node: AskedNode): boolean {
  const sheet = sheetIn(node);
  const isGood = sheet === undefined || sheet.moods.every(({ kind }) => kind === "quick" || kind === "slow" || kind === "chatty");
  return isGood && sheet?.wrap?.isForgiving !== true;
}

function isTimed(node: AskedNode): boolean {
  const { policy = {}, parameters = {} } = node;
  const box = parameters["__container"] as { timeoutSeconds?: number } | undefined;
  const isLimited = policy.timeoutMs !== undefined || policy.queueTimeoutMs !== undefined || box?.timeoutSeconds !== undefined;
  return (
    isLimited ||
    (sheetIn(node)?.wrap?.timeoutMs ?? null) !== null ||
    sheetIn(node)?.moods.some(({ kind }) => kind === "killing") === true
  );
}
