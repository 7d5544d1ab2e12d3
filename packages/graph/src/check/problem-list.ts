// What is wrong with a workflow, as a list that is added to while it is looked at.

import type { WorkflowProblem } from "@astraflow/protocol";
import { definitionPathOf, type IndexedGraph, type NodeEntry } from "../plan/workflow-index.ts";
import { type JsonPath, toJsonPointer } from "../values/binding-path.ts";

/** A warning is reported but does not make the workflow invalid. */
export type GraphProblem = WorkflowProblem;

/** Enough to work on; a definition made to be wrong everywhere must not make an answer without end. */
const problemsMax = 1_000;

export class ProblemList {
  readonly list: GraphProblem[] = [];

  /** `at` is a place in the graph's own definition. */
  error(graph: IndexedGraph, at: JsonPath, message: string, node: string | null = null): void {
    this.#add(graph, at, message, node, "error");
  }

  /** `at` is a place in the node. */
  nodeError(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.error(graph, [...definitionPathOf(entry), ...at], message, entry.node.id);
  }

  nodeWarning(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.#add(graph, [...definitionPathOf(entry), ...at], message, entry.node.id, "warning");
  }

  #add(graph: IndexedGraph, at: JsonPath, message: string, node: string | null, severity: GraphProblem["severity"]): void {
    if (this.list.length >= problemsMax) return;
    const path = toJsonPointer([...graph.definitionPath, ...at]);
    this.list.push({ path, code: "E.WORKFLOW.INVALID", message, ...(node !== null && { node }), severity });
  }
}
