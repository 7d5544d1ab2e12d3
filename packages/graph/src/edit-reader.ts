// Edits from strangers: the right fields of the right kinds, and not too many. Whether what they make is a workflow is for its own reader,
// whether they can be made for applyEdits.

import type { Edit } from "./edits.ts";
import { isObject } from "./path.ts";

export const editLimits = { editsMax: 5_000, pathCharsMax: 1_024, idCharsMax: 1_024, orderIdsMax: 50_000 } as const;

type Field = (value: unknown) => string | null;

const id: Field = (value) =>
  typeof value === "string" && value !== "" && value.length <= editLimits.idCharsMax ? null : "must be an id";
const place: Field = (value) => (Number.isInteger(value) && (value as number) >= 0 ? null : "must be a whole number from 0");
const thing: Field = (value) => (isObject(value) ? (id(value["id"]) === null ? null : "must have an id") : "must be an object");
const path: Field = (value) => {
  if (typeof value !== "string" || !value.startsWith("/") || value.length > editLimits.pathCharsMax)
    return "must be a JSON pointer";
  return value.split("/").includes("__proto__") ? "names the reserved step __proto__" : null;
};
const ids: Field = (value) =>
  Array.isArray(value) && value.length <= editLimits.orderIdsMax && value.every((one) => id(one) === null)
    ? null
    : "must be a list of ids";
const ends: Field = (value) => {
  const isEnd = (end: unknown) => isObject(end) && id(end["node"]) === null && id(end["port"]) === null;
  if (thing(value) !== null) return thing(value);
  const edge = value as Record<string, unknown>;
  return isEnd(edge["source"]) && isEnd(edge["target"]) ? null : "must have a source and a target, each with node and port";
};
const graphShape: Field = (value) =>
  isObject(value) &&
  [value["nodes"], value["edges"]].every((list) => Array.isArray(list) && list.every((one) => thing(one) === null))
    ? null
    : "must be a workflow with nodes and edges";
const entry: Field = (value) => thing(value) ?? graphShape((value as Record<string, unknown>)["definition"]);
const flag: Field = (value) => (typeof value === "boolean" ? null : "must be true or false");
const anything: Field = () => null;

interface Form {
  readonly needs: Readonly<Record<string, Field>>;
  readonly may: Readonly<Record<string, Field>>;
}

/** One row per edit. A field that stands nowhere makes the edit wrong: it would be lost in silence. */
const forms: Readonly<Record<Edit["op"], Form>> = {
  addNode: { needs: { node: thing }, may: { graph: id, at: place } },
  removeNode: { needs: { id }, may: { graph: id } },
  setNode: { needs: { id, path }, may: { graph: id, value: anything } },
  addMiddleware: { needs: { host: id, middleware: thing }, may: { graph: id, at: place } },
  removeMiddleware: { needs: { host: id, id }, may: { graph: id } },
  setMiddleware: { needs: { host: id, id, path }, may: { graph: id, value: anything } },
  addEdge: { needs: { edge: ends }, may: { graph: id, at: place } },
  removeEdge: { needs: { id }, may: { graph: id } },
  order: { needs: { list: anything, ids }, may: { graph: id, host: id } },
  emptyList: { needs: { list: anything, isWritten: flag }, may: { graph: id, host: id } },
  setMeta: { needs: { path }, may: { graph: id, value: anything } },
  addSubgraph: { needs: { subgraph: entry }, may: { at: place } },
  removeSubgraph: { needs: { id }, may: {} },
  setSubgraph: { needs: { id, path }, may: { value: anything } },
  setGraph: { needs: { value: graphShape }, may: { graph: id } },
};

/** The edits, or a sentence that names the first wrong one and its field. */
export function readEdits(value: unknown): readonly Edit[] | string {
  if (!Array.isArray(value)) return "edits must be a list";
  if (value.length > editLimits.editsMax) return `edits must be at most ${editLimits.editsMax}; send them in several requests`;
  for (const [index, edit] of value.entries()) {
    const wrong = wrongIn(edit);
    if (wrong !== null) return `edits.${index}${wrong}`;
  }
  return value as Edit[];
}

function wrongIn(edit: unknown): string | null {
  if (!isObject(edit)) return " must be an object";
  const op = edit["op"];
  if (typeof op !== "string" || !Object.hasOwn(forms, op)) return `.op must be one of ${Object.keys(forms).join(", ")}`;
  const { needs, may } = forms[op as Edit["op"]];
  for (const [field, isRight] of Object.entries(needs)) {
    const wrong = edit[field] === undefined ? "is missing" : isRight(edit[field]);
    if (wrong !== null) return `.${field} ${wrong}`;
  }
  for (const [field, value] of Object.entries(edit)) {
    if (field === "op" || Object.hasOwn(needs, field)) continue;
    const wrong = Object.hasOwn(may, field) ? may[field]?.(value) : "is not a field of this edit";
    if (typeof wrong === "string") return `.${field} ${wrong}`;
  }
  return op === "order" || op === "emptyList" ? wrongList(edit, op) : null;
}

function wrongList(edit: Record<string, unknown>, op: "order" | "emptyList"): string | null {
  const list = edit["list"];
  const lists = op === "order" ? ["nodes", "edges", "middlewares", "subgraphs"] : ["middlewares", "subgraphs"];
  if (typeof list !== "string" || !lists.includes(list)) return `.list must be one of ${lists.join(", ")}`;
  if ((list === "middlewares") !== (edit["host"] !== undefined))
    return ".host must be given for middlewares and for nothing else";
  return list === "subgraphs" && edit["graph"] !== undefined
    ? ".graph cannot be given; subgraphs belong to the workflow itself"
    : null;
}
