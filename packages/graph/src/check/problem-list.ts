// What is wrong with a workflow, as a list that is added to while it is looked at.

import type { FaultCode, WorkflowProblem } from "@astraflow/protocol";
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

  /** Further warnings are only counted: a message that is long to build need not be built. */
  get isFullOfWarnings(): boolean {
    return this.#warnings >= warningsMax || this.list.length >= problemsMax;
  }

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

  /** The check of a node takes more than it may: that is refused under a code of its own. */
  tooCostly(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.#add(graph, [...definitionPathOf(entry), ...at], message, entry.node.id, "error", "E.WORKFLOW.TOO_COSTLY");
  }

  /** The same where no single node is the reason. */
  tooCostlyAsWhole(graph: IndexedGraph, stepsMax: number): void {
    const message = `the schemas of the workflow take more than ${stepsMax} steps to look through; make them simpler`;
    this.#add(graph, ["nodes"], message, null, "error", "E.WORKFLOW.TOO_COSTLY");
  }

  nodeWarning(graph: IndexedGraph, entry: NodeEntry, at: JsonPath, message: string): void {
    this.warning(graph, [...definitionPathOf(entry), ...at], message, entry.node.id);
  }

  #add(
    graph: IndexedGraph,
    at: JsonPath,
    message: string,
    node: string | null,
    severity: GraphProblem["severity"],
    code: FaultCode = "E.WORKFLOW.INVALID",
  ): void {
    if (severity === "warning") this.#warnings += 1;
    if (this.list.length >= problemsMax || (severity === "warning" && this.#warnings > warningsMax)) return;
    const path = toJsonPointer([...graph.definitionPath, ...at]);
    this.list.push({ path, code, message, ...(node !== null && { node }), severity });
  }
}
