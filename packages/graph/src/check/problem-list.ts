// What is wrong with a workflow, as a list that is added to while it is looked at.

import type { WorkflowProblem } from "@astraflow/protocol";
import { definitionPathOf, type IndexedGraph, type NodeEntry } from "../plan/workflow-index.ts";
import { type JsonPath, toJsonPointer } from "../values/binding-path.ts";

/** A warning is reported but does not make the workflow invalid. */
export type GraphProblem = WorkflowProblem;

/** Enough to work on; a definition made to be wrong everywhere must not make an answer without end. */
const problemsMax = 1_000;
/** Warnings end sooner: they must not take the place of an error. */
const warningsMax = 500;

export class ProblemList {
  readonly list: GraphProblem[] = [];
  #warnings = 0;

  /** `at` is a place in the graph's own definition. */
  error(graph: IndexedGraph, at: JsonPath, message: string, node: string | null = null): void {
    this.#add(graph, at, message, node, "error");
  }

  warning(graph: IndexedGraph, at: JsonPath, message: string, node: string | null = null): void {
    this.#add(graph, at, message, node, "warning");
  }

  /** `at` is a place in the node. */
  nodeError(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.error(graph, [...definitionPathOf(entry), ...at], message, entry.node.id);
  }

  nodeWarning(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.warning(graph, [...definitionPathOf(entry), ...at], message, entry.node.id);
  }

  #add(graph: IndexedGraph, at: JsonPath, message: string, node: string | null, severity: GraphProblem["severity"]): void {
    if (severity === "warning") this.#warnings += 1;
    if (this.list.length >= problemsMax || (severity === "warning" && this.#warnings > warningsMax)) return;
    const path = toJsonPointer([...graph.definitionPath, ...at]);
    this.list.push({ path, code: "E.WORKFLOW.INVALID", message, ...(node !== null && { node }), severity });
  }
}
