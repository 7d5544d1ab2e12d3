// `astra why RUN [NODE]`: what waits, for what, and which worker would take it if only.

import type { Placement } from "@astraflow/protocol";
import { type ExitCode, exitCodes } from "./failure.ts";
import { findNodeOfRun, findRun } from "./finding.ts";
import type { Place } from "./place.ts";
import { isEnded } from "./run-picture.ts";
import { layTable, tame } from "./terminal.ts";
import { factWords, type WhyPlace } from "./why-words.ts";

/** Without a node, of every node that waits: more than these are not explained one by one. */
const explainedMax = 10;

export async function whyRun(id: string, node: string | undefined, { client, terminal, json, now }: Place): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const run = await client.getRun({ runId });
  const open = (run.nodes ?? []).filter(({ status, pendingAck }) => status === "queued" || pendingAck === true);
  // Those that were not reached wait for these; only where there is none is there something to tell about them.
  const reached = open.filter(({ state }) => state !== undefined && state.stage !== "waiting");
  const waiting = reached.length > 0 ? reached : open;
  const asked = node === undefined ? waiting.map(({ taskId }) => taskId) : [await findNodeOfRun(node, runId, client)];
  if (node === undefined && isEnded(run)) {
    const failed = (run.nodes ?? []).filter(({ error }) => error !== undefined);
    if (json) terminal.print(JSON.stringify({ runId, status: run.status, error: run.error, nodes: failed }));
    else {
      terminal.print(`run ${runId} ${run.status}${run.error ? `: ${run.error.code}: ${tame(run.error.message)}` : ""}`);
      for (const { label, nodeId, error } of failed)
        terminal.print(`  ${tame(label ?? nodeId)}: ${error?.code}: ${tame(error?.message ?? "")}`);
      if (run.status === "failed") terminal.say(`next: astra runs retry ${runId}`);
    }
    return exitCodes.ok;
  }
  const labels = new Map((run.nodes ?? []).map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
  const began = new Map((run.nodes ?? []).flatMap(({ nodeId, startedAt }) => (startedAt ? [[nodeId, startedAt] as const] : [])));
  const found: Placement[] = [];
  for (const nodeId of asked.slice(0, explainedMax)) found.push(await client.getPlacement({ runId, nodeId }));
  if (json) terminal.print(JSON.stringify(node === undefined ? { runId, items: found } : found[0]));
  else {
    for (const placement of found)
      for (const line of drawPlacement(placement, { labels, began, now: now() })) terminal.print(line);
    if (found.length === 0) terminal.say("Nothing waits: what is open has a worker.");
    else if (node === undefined && open.length > waiting.length) terminal.say(moreWait(open.length - waiting.length));
    if (asked.length > found.length) terminal.say(`${asked.length - found.length} more wait; name one: astra why ${runId} NODE`);
  }
  return exitCodes.ok;
}

const moreWait = (count: number): string =>
  count === 1 ? "1 more node waits for these." : `${count} more nodes wait for these.`;

function drawPlacement(placement: Placement, place: WhyPlace): string[] {
  const { labels } = place;
  const label = labels.get(placement.nodeId) ?? placement.nodeId;
  const named = (text: string): string => tame(text.replace(anyId, (id) => labels.get(id) ?? id));
  const reasons = placement.reasons.map(({ code, facts }) => [`  ${code}`, factWords(code, facts, place)]);
  const workers = placement.workers.map(({ workerName, code, facts }) => [
    `  ${tame(workerName)}`,
    code,
    factWords(code, facts, place),
  ]);
  return [
    `${tame(label)} (${placement.status}): ${named(placement.summary)}`,
    ...layTable(reasons),
    ...(workers.length > 0 ? layTable([["  WORKER", "RULE", "WHY"], ...workers]) : []),
    ...placement.fixes.map((fix) => `  try: ${commandFor(fix, placement)}`),
  ];
}

const anyId = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** The command for what would help, where there is one. */
function commandFor(fix: string, { runId, nodeId, workers, reasons }: Placement): string {
  const blocked = (...codes: string[]): string => tame(workers.find(({ code }) => codes.includes(code))?.workerName ?? "WORKER");
  const [holder] = reasons.flatMap(({ facts }) => (Array.isArray(facts["holders"]) ? facts["holders"] : [])) as {
    run?: string;
  }[];
  const commands: Readonly<Record<string, string>> = {
    "undrain-worker": `astra workers undrain ${blocked("draining")}`,
    "look-at-worker": `astra workers diagnose ${blocked("unhealthy")}`,
    "reconnect-worker": `astra workers diagnose ${blocked("away")}`,
    "start-worker": "astra worker",
    ...(holder?.run !== undefined && { "wait-for-key": `astra runs watch ${tame(holder.run)}` }),
    "retry-now": `astra runs retry ${runId} ${nodeId}`,
    skip: `astra runs skip ${runId} ${nodeId}`,
  };
  return commands[fix] ?? fix.replaceAll("-", " ");
}
