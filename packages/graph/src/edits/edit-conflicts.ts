// Edits of two people on the same base: which of mine touch what theirs touch. Only the same field of the same thing is a conflict, or a
// thing that one removes and the other needs. The same edit made by both is none.

import { parseJsonPointer } from "../values/binding-path.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import type { WorkflowEdit } from "./apply-edits.ts";

export interface EditConflict {
  /** Places in the two lists. */
  readonly mine: number;
  readonly theirs: number;
  /** What both touch: a JSON pointer with the ids of nodes, edges and subgraphs. */
  readonly field: string;
}

interface EditFootprint {
  readonly writes: readonly string[];
  readonly isRemoval: boolean;
  /** Things that must still be there. */
  readonly needs: readonly (readonly string[])[];
}

/** At most one conflict for each of mine: the first that is found. */
export function findEditConflicts(mine: readonly WorkflowEdit[], theirs: readonly WorkflowEdit[]): EditConflict[] {
  const theirFootprints = new FootprintIndex();
  for (const [index, edit] of theirs.entries()) theirFootprints.add(index, footprintOf(edit));
  const conflicts: EditConflict[] = [];
  for (const [index, edit] of mine.entries()) {
    const footprint = footprintOf(edit);
    const text = canonicalJson(edit);
    const clash = theirFootprints.findClashes(footprint).find((other) => canonicalJson(theirs[other]) !== text);
    if (clash !== undefined) conflicts.push({ mine: index, theirs: clash, field: `/${footprint.writes.slice(1).join("/")}` });
  }
  return conflicts;
}

/** How many edits are remembered under one name: enough to find one that differs. */
const perNameMax = 50;

class FootprintIndex {
  /** Edits that write exactly this, or something under it; those that remove it; those that need it or something under it. */
  readonly #exact = new Map<string, number[]>();
  readonly #under = new Map<string, number[]>();
  readonly #removed = new Map<string, number[]>();
  readonly #needed = new Map<string, number[]>();

  add(index: number, footprint: EditFootprint): void {
    addToIndex(this.#exact, pathKey(footprint.writes), index);
    for (const prefix of prefixesOf(footprint.writes)) addToIndex(this.#under, prefix, index);
    if (footprint.isRemoval) addToIndex(this.#removed, pathKey(footprint.writes), index);
    for (const need of footprint.needs) for (const prefix of prefixesOf(need)) addToIndex(this.#needed, prefix, index);
  }

  findClashes(footprint: EditFootprint): number[] {
    const found = [...(this.#under.get(pathKey(footprint.writes)) ?? [])];
    for (const prefix of prefixesOf(footprint.writes)) found.push(...(this.#exact.get(prefix) ?? []));
    for (const need of footprint.needs) for (const prefix of prefixesOf(need)) found.push(...(this.#removed.get(prefix) ?? []));
    if (footprint.isRemoval) found.push(...(this.#needed.get(pathKey(footprint.writes)) ?? []));
    return found;
  }
}

function addToIndex(table: Map<string, number[]>, key: string, index: number): void {
  const known = table.get(key);
  if (known === undefined) table.set(key, [index]);
  else if (known.length < perNameMax) known.push(index);
}

const pathKey = (steps: readonly string[]): string => JSON.stringify(steps);

/** Every beginning of the steps, themselves included. */
const prefixesOf = (steps: readonly string[]): string[] => steps.map((_, index) => pathKey(steps.slice(0, index + 1)));

function footprintOf(edit: WorkflowEdit): EditFootprint {
  const graph = "graph" in edit && edit.graph !== undefined ? ["", "subgraphs", edit.graph] : [""];
  const write = (steps: readonly string[], needs: readonly (readonly string[])[] = []): EditFootprint => ({
    writes: steps,
    isRemoval: false,
    needs,
  });
  const removal = (steps: readonly string[]): EditFootprint => ({ writes: steps, isRemoval: true, needs: [] });
  switch (edit.op) {
    case "addNode":
      return write([...graph, "nodes", edit.node.id]);
    case "removeNode":
      return removal([...graph, "nodes", edit.id]);
    case "setNode":
      return write([...graph, "nodes", edit.id, ...parseJsonPointer(edit.path)]);
    case "addMiddleware":
      return write([...graph, "nodes", edit.host, "middlewares", edit.middleware.id]);
    case "removeMiddleware":
      return removal([...graph, "nodes", edit.host, "middlewares", edit.id]);
    case "setMiddleware":
      return write([...graph, "nodes", edit.host, "middlewares", edit.id, ...parseJsonPointer(edit.path)]);
    case "addEdge": {
      const ends = [edit.edge.source.node, edit.edge.target.node].map((id) => [...graph, "nodes", id]);
      return write([...graph, "edges", edit.edge.id], ends);
    }
    case "removeEdge":
      return removal([...graph, "edges", edit.id]);
    case "order":
      return write([...graph, ...(edit.list === "middlewares" ? ["nodes", edit.host] : []), "order", edit.list]);
    case "emptyList":
      return write([...graph, ...(edit.list === "middlewares" ? ["nodes", edit.host] : []), "empty", edit.list]);
    case "setMeta":
      return write([...graph, "meta", ...parseJsonPointer(edit.path)]);
    case "addSubgraph":
      return write([...graph, "subgraphs", edit.subgraph.id]);
    case "removeSubgraph":
      return removal([...graph, "subgraphs", edit.id]);
    case "setSubgraph":
      return write([...graph, "subgraphs", edit.id, "entry", ...parseJsonPointer(edit.path)]);
    case "setGraph":
      return write(graph);
  }
}
