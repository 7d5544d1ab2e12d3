// What a workflow must come to by its drawing alone: how each node ends and what it returns, when nothing is lost and nobody interferes. A plain
// walk over the authored graph; it knows no tasks, frames or calls, and shares nothing with the engine but the words of the drawing.

import type { Mood, MoodSheet } from "../mood.ts";
import { valueOf } from "../value.ts";
import { type Asked, type AskedBox, type AskedGraph, type AskedNode, boxOf } from "./plans.ts";

export interface Expected {
  readonly status: "succeeded" | "failed" | "skipped";
  readonly results: Json;
}

type Json = Readonly<Record<string, unknown>>;
const failed: Expected = { status: "failed", results: {} };

/** Each node of the top level by its id; null for one that is never reached because something before it fails. */
export function expect(asked: Asked): Map<string, Expected | null> {
  return walk(asked.workflow, asked.workflow.subgraphs ?? [], () => ({}), asked.pins ?? {});
}

type Subgraphs = NonNullable<AskedGraph["subgraphs"]>;

function walk(
  graph: AskedGraph,
  subgraphs: Subgraphs,
  given: (node: AskedNode) => Json,
  pins: Readonly<Record<string, Json>>,
): Map<string, Expected | null> {
  const ends = new Map<string, Expected | null>();
  // Edges lead forward, so the order of the drawing will do.
  for (const node of graph.nodes) {
    const edges = graph.edges.filter(({ target }) => target.node === node.id);
    const isReached = edges.every(({ source }) => (ends.get(source.node)?.status ?? "failed") !== "failed");
    const params: Record<string, unknown> = { ...node.parameters, ...given(node) };
    for (const { source, target } of edges) {
      const from = graph.nodes.find(({ id }) => id === source.node)?.ui?.outputPorts?.find(({ key }) => key === source.port);
      const value = ends.get(source.node)?.results[(from?.binding.path ?? "").slice("results.".length)];
      if (value !== undefined) params[target.port] = value;
    }
    const pin = pins[node.id];
    ends.set(
      node.id,
      pin !== undefined ? { status: "succeeded", results: pin } : isReached ? run(node, params, subgraphs) : null,
    );
  }
  return ends;
}

/** A node with the chain around it: it ends as the outermost does, with what its own last good run returned, and what the middlewares write over that. */
function run(node: AskedNode, params: Json, subgraphs: Subgraphs): Expected {
  const chain = node.middlewares ?? [];
  if (chain.length === 0) return alone(node, params, subgraphs);
  let host: Json = {};
  let isCalled = false;
  let isSkipped = false;
  const written = new Map<number, unknown>();
  /** One call of the chain from a place on. */
  const call = (at: number, payload: Json): Expected["status"] => {
    const middleware = chain[at];
    if (middleware === undefined) {
      const end = alone(node, { ...params, ...payload }, subgraphs);
      isCalled = true;
      if (end.status === "succeeded") [host, isSkipped] = [end.results, false];
      return end.status;
    }
    const { wrap, name = "" } = sheetOf(middleware);
    const end = attempt(middleware, () => {
      for (let number = 1; number <= (wrap?.calls ?? 0); number++) {
        const status = call(at + 1, wrap?.mark === null || wrap === undefined ? {} : { [wrap.mark]: number });
        if (status !== "succeeded" && wrap?.isForgiving !== true) return false;
      }
      return true;
    });
    if (end === "skipped" && at > 0) isSkipped = true;
    if (end === "succeeded") written.set(at, valueOf(name, { ...middleware.parameters, ...payload }));
    return end;
  };
  const end = call(0, {});
  if (end === "failed") return failed;
  let results = host;
  for (const at of [...chain.keys()].toReversed())
    if (written.has(at) && (chain[at]?.ui?.outputPorts ?? []).length > 0) results = { ...results, out: written.get(at) };
  return { status: end === "skipped" || isSkipped || !isCalled ? "skipped" : "succeeded", results };
}

const sheetOf = ({ parameters }: AskedNode): MoodSheet => parameters?.["sim"] as MoodSheet;

/** Tries as often as the node may be tried. `work`: what a good mood does; false fails the attempt. */
function attempt(node: AskedNode, work: () => boolean): Expected["status"] {
  const { moods } = sheetOf(node);
  for (let number = 1; number <= (node.policy?.retry?.maxAttempts ?? 1); number++) {
    const { kind } = moods[Math.min(number, moods.length) - 1] as Mood;
    if (kind === "skipping") return "skipped";
    if (kind !== "throwing" && kind !== "failing" && work()) return "succeeded";
  }
  return "failed";
}

function alone(node: AskedNode, params: Json, subgraphs: Subgraphs): Expected {
  const box = boxOf(node);
  if (box !== null) return contained(box, params, subgraphs);
  const status = attempt(node, () => true);
  if (status !== "succeeded") return { status, results: {} };
  const index = typeof params["index"] === "number" ? params["index"] : 0;
  return { status, results: { out: valueOf(sheetOf(node).name ?? "", params), n: index + 1 } };
}

/** Of a while loop that names no bound. */
const iterationsMax = 100;

function contained(box: AskedBox, params: Json, subgraphs: Subgraphs): Expected {
  const { loop } = box;
  const items = typeof loop?.items === "string" ? (params["list"] as readonly unknown[]) : (loop?.items ?? []);
  const all: Json[] = [];
  for (
    let index = 0;
    loop === undefined || loop.mode === "while" ? index === 0 || goesOn(box, all) : index < items.length;
    index++
  ) {
    // A condition that stays true ends the container by its bound.
    if (loop?.mode === "while" && index >= (loop.maxIterations ?? iterationsMax)) return failed;
    const outputs = iterate(box, subgraphs, {
      parameters: params,
      item: items[index],
      index,
      last: loop?.mode === "map" ? {} : (all.at(-1) ?? {}),
    });
    if (outputs === null) return failed;
    all.push(outputs);
  }
  if (loop === undefined) return { status: "succeeded", results: all[0] ?? {} };
  const results = loop.mode === "while" ? { ...all.at(-1), iterations: all.length } : { items: all, count: all.length };
  return { status: "succeeded", results };
}

const goesOn = ({ loop }: AskedBox, all: readonly Json[]): boolean => {
  const value = all.at(-1)?.[loop?.condition?.path ?? ""];
  return loop?.mode === "while" && typeof value === "number" && value < Number(loop.condition?.value);
};

/** The outputs of one iteration; null where it fails. A try again comes to the same: nothing that is drawn depends on it. */
function iterate(box: AskedBox, subgraphs: Subgraphs, frame: Json): Json | null {
  const body = subgraphs.find(({ id }) => id === box.subgraphId)?.definition;
  if (body === undefined) return null;
  const given = (node: AskedNode): Json => {
    const values: Record<string, unknown> = {};
    for (const { from, node: id, to } of box.inputs ?? []) {
      const value =
        id === node.id ? from.split(".").reduce<unknown>((at, step) => (at as Json | undefined)?.[step], frame) : undefined;
      if (value !== undefined) values[to.slice("parameters.".length)] = value;
    }
    return values;
  };
  const ends = walk(body, subgraphs, given, {});
  if ([...ends.values()].some((end) => end === null || end.status === "failed")) return null;
  const outputs: Record<string, unknown> = {};
  for (const { node, from, to } of box.outputs ?? []) {
    const value = ends.get(node)?.results[from.slice("results.".length)];
    if (value !== undefined) outputs[to.slice("results.".length)] = value;
  }
  return outputs;
}
