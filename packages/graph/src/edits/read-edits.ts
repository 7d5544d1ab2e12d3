// Reads edits from clients: the right fields of the right types, and not too many. Whether they can be made is for applyEdits.

import { describeMisspelling, didYouMean } from "@astraflow/protocol";
import { isObject } from "../values/binding-path.ts";
import type { WorkflowEdit } from "./apply-edits.ts";

export const editLimits = { editsMax: 5_000, pathCharsMax: 1_024, idCharsMax: 1_024, orderIdsMax: 50_000 } as const;

type FieldCheck = (value: unknown) => string | null;

const checkId: FieldCheck = (value) =>
  typeof value === "string" && value !== "" && value.length <= editLimits.idCharsMax ? null : "must be an id";
const checkIndex: FieldCheck = (value) =>
  Number.isInteger(value) && (value as number) >= 0 ? null : "must be a whole number from 0";
const checkItem: FieldCheck = (value) =>
  isObject(value) ? (checkId(value["id"]) === null ? null : "must have an id") : "must be an object";
const checkPointer: FieldCheck = (value) => {
  if (typeof value !== "string" || !value.startsWith("/") || value.length > editLimits.pathCharsMax)
    return "must be a JSON pointer";
  return value.split("/").includes("__proto__") ? "names the reserved step __proto__" : null;
};
const checkIds: FieldCheck = (value) =>
  Array.isArray(value) && value.length <= editLimits.orderIdsMax && value.every((item) => checkId(item) === null)
    ? null
    : "must be a list of ids";
const edgeFields = ["id", "source", "target"];
const edgeEndFields = ["node", "port"];
const checkEdge: FieldCheck = (value) => {
  if (checkItem(value) !== null) return checkItem(value);
  const edge = value as Record<string, unknown>;
  const wanted = "must have a source and a target, each with node and port";
  for (const end of ["source", "target"]) {
    const found = edge[end];
    if (!isObject(found)) return `${wanted}${describeMisspelling([end], edge, (field) => edgeFields.includes(field))}`;
    const wrong = edgeEndFields.filter((field) => checkId(found[field]) !== null);
    if (wrong.length > 0) return `${wanted}${describeMisspelling(wrong, found, (field) => edgeEndFields.includes(field))}`;
  }
  return null;
};
const checkGraph: FieldCheck = (value) =>
  isObject(value) &&
  [value["nodes"], value["edges"]].every((list) => Array.isArray(list) && list.every((item) => checkItem(item) === null))
    ? null
    : "must be a workflow with nodes and edges";
const checkSubgraph: FieldCheck = (value) => checkItem(value) ?? checkGraph((value as Record<string, unknown>)["definition"]);
const checkBoolean: FieldCheck = (value) => (typeof value === "boolean" ? null : "must be true or false");
const acceptAny: FieldCheck = () => null;

interface EditFields {
  readonly required: Readonly<Record<string, FieldCheck>>;
  readonly optional: Readonly<Record<string, FieldCheck>>;
}

/** One row per edit. An unknown field makes the edit invalid: it would be lost silently. */
const editFields: Readonly<Record<WorkflowEdit["op"], EditFields>> = {
  addNode: { required: { node: checkItem }, optional: { graph: checkId, at: checkIndex } },
  removeNode: { required: { id: checkId }, optional: { graph: checkId } },
  setNode: { required: { id: checkId, path: checkPointer }, optional: { graph: checkId, value: acceptAny } },
  addMiddleware: { required: { host: checkId, middleware: checkItem }, optional: { graph: checkId, at: checkIndex } },
  removeMiddleware: { required: { host: checkId, id: checkId }, optional: { graph: checkId } },
  setMiddleware: { required: { host: checkId, id: checkId, path: checkPointer }, optional: { graph: checkId, value: acceptAny } },
  addEdge: { required: { edge: checkEdge }, optional: { graph: checkId, at: checkIndex } },
  removeEdge: { required: { id: checkId }, optional: { graph: checkId } },
  order: { required: { list: acceptAny, ids: checkIds }, optional: { graph: checkId, host: checkId } },
  emptyList: { required: { list: acceptAny, isWritten: checkBoolean }, optional: { graph: checkId, host: checkId } },
  setMeta: { required: { path: checkPointer }, optional: { graph: checkId, value: acceptAny } },
  addSubgraph: { required: { subgraph: checkSubgraph }, optional: { at: checkIndex } },
  removeSubgraph: { required: { id: checkId }, optional: {} },
  setSubgraph: { required: { id: checkId, path: checkPointer }, optional: { value: acceptAny } },
  setGraph: { required: { value: checkGraph }, optional: { graph: checkId } },
};

/** The edits, or a sentence that names the first wrong one and its field. */
export function readEdits(value: unknown): readonly WorkflowEdit[] | string {
  if (!Array.isArray(value)) return "edits must be a list";
  if (value.length > editLimits.editsMax) return `edits must be at most ${editLimits.editsMax}; send them in several requests`;
  for (const [index, edit] of value.entries()) {
    const problem = findEditProblem(edit);
    if (problem !== null) return `edits.${index}${problem}`;
  }
  return value as WorkflowEdit[];
}

function findEditProblem(edit: unknown): string | null {
  if (!isObject(edit)) return " must be an object";
  const op = edit["op"];
  if (typeof op !== "string" || !Object.hasOwn(editFields, op)) return `.op must be one of ${Object.keys(editFields).join(", ")}`;
  const { required, optional } = editFields[op as WorkflowEdit["op"]];
  const known = ["op", ...Object.keys(required), ...Object.keys(optional)];
  for (const [field, check] of Object.entries(required)) {
    if (edit[field] === undefined)
      return `.${field} is missing${describeMisspelling([field], edit, (name) => known.includes(name))}`;
    const problem = check(edit[field]);
    if (problem !== null) return `.${field} ${problem}`;
  }
  for (const [field, value] of Object.entries(edit)) {
    if (field === "op" || Object.hasOwn(required, field)) continue;
    const isOptional = Object.hasOwn(optional, field);
    const problem = isOptional
      ? optional[field]?.(value)
      : `is not a field of this edit${didYouMean(field.slice(0, 100), known)}`;
    if (typeof problem === "string") return `.${field} ${problem}`;
  }
  return op === "order" || op === "emptyList" ? findListProblem(edit, op) : null;
}

function findListProblem(edit: Record<string, unknown>, op: "order" | "emptyList"): string | null {
  const list = edit["list"];
  const lists = op === "order" ? ["nodes", "edges", "middlewares", "subgraphs"] : ["middlewares", "subgraphs"];
  if (typeof list !== "string" || !lists.includes(list)) return `.list must be one of ${lists.join(", ")}`;
  if ((list === "middlewares") !== (edit["host"] !== undefined))
    return ".host is required for middlewares and not allowed otherwise";
  return list === "subgraphs" && edit["graph"] !== undefined
    ? ".graph is not allowed; subgraphs belong to the workflow itself"
    : null;
}
