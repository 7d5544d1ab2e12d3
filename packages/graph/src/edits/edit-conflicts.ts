// Edits of two people on the same base: which of mine touch what theirs touch. Only the same field of the same thing is a conflict, or a
// thing that one removes and the other needs. The same edit made by both is none.

import { parseJsonPointer } from "../values/binding-path.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { editTargetOf, type WorkflowEdit } from "./apply-edits.ts";

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

const newIndex = () => new Map<string, number[]>();

/** By what they do to a path: write exactly it, write it or something under it, remove it, need it or something under it. */
class FootprintIndex {
  readonly #edits = { exact: newIndex(), under: newIndex(), removed: newIndex(), needed: newIndex() };

  add(index: number, { writes, isRemoval, needs }: EditFootprint): void {
    const { exact, under, removed, needed } = this.#edits;
    addToIndex(exact, pathKey(writes), index);
    for (const prefix of prefixesOf(writes)) addToIndex(under, prefix, index);
    if (isRemoval) addToIndex(removed, pathKey(writes), index);
    for (const prefix of needs.flatMap(prefixesOf)) addToIndex(needed, prefix, index);
  }

  findClashes({ writes, isRemoval, needs }: EditFootprint): number[] {
    const { exact, under, removed, needed } = this.#edits;
    const own = pathKey(writes);
    return [
      ...(under.get(own) ?? []),
      ...prefixesOf(writes).flatMap((prefix) => exact.get(prefix) ?? []),
      ...needs.flatMap(prefixesOf).flatMap((prefix) => removed.get(prefix) ?? []),
      ...(isRemoval ? (needed.get(own) ?? []) : []),
    ];
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
  const { graph, what, change, id } = editTargetOf(edit);
  const root = graph === null ? [""] : ["", "subgraphs", graph];
  const owner = "host" in edit ? [...root, "nodes", edit.host] : root;
  const path = "path" in edit ? parseJsonPointer(edit.path) : [];
  const ends = edit.op === "addEdge" ? [edit.edge.source.node, edit.edge.target.node] : [];
  const needs = ends.map((node) => [...root, "nodes", node]);
  const write = (...steps: string[]): EditFootprint => ({ writes: [...owner, ...steps], isRemoval: change === "removed", needs });
  if (edit.op === "order") return write("order", edit.list);
  if (edit.op === "emptyList") return write("empty", edit.list);
  if (edit.op === "setMeta") return write("meta", ...path);
  if (id === null) return write();
  return write(`${what}s`, id, ...(edit.op === "setSubgraph" ? ["entry"] : []), ...path);
}
