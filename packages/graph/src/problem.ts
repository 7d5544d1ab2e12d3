// What is wrong with a workflow, as a list that is added to while it is looked at.

import type { Graph } from "./graphs.ts";
import { pointerOf } from "./path.ts";

export interface Problem {
  /** JSON pointer into the definition. */
  readonly path: string;
  readonly code: "E.WORKFLOW.INVALID" | "E.WORKFLOW.UNSUPPORTED";
  readonly message: string;
  /** Id of the node it is about, where it is about one. */
  readonly node?: string;
  /** A warning is told and refuses nothing. */
  readonly severity: "error" | "warning";
}

/** Enough to work on; a definition made to be wrong everywhere must not make an answer without end. */
const problemsMax = 1_000;

type Steps = readonly (string | number)[];

export class Problems {
  readonly list: Problem[] = [];

  /** `at` is a place in the graph's own definition. */
  error(graph: Graph, at: Steps, message: string, node: string | null = null): void {
    this.#add(graph, at, message, node, "error");
  }

  warning(graph: Graph, at: Steps, message: string, node: string | null = null): void {
    this.#add(graph, at, message, node, "warning");
  }

  #add(graph: Graph, at: Steps, message: string, node: string | null, severity: Problem["severity"]): void {
    if (this.list.length >= problemsMax) return;
    const path = pointerOf([...graph.under, ...at]);
    this.list.push({ path, code: "E.WORKFLOW.INVALID", message, ...(node !== null && { node }), severity });
  }
}
