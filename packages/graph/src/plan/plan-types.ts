// A workflow as the engine runs it, as data. Made by plan-compiler.ts.

import type { NodePolicy, SchemaMode } from "@astraflow/protocol";
import type { BindingPath } from "../values/binding-path.ts";

/** One value carried into a node: from a finished node's parameters or results into this node's parameters. */
export interface EdgeInput {
  /** Ordinal in the same plan; a middleware's own where the edge leaves one of its ports. */
  readonly source: number;
  readonly from: BindingPath;
  readonly to: readonly string[];
}

export interface PlanNode {
  /** Place in its plan. Authored nodes first, in their order; then the middlewares of each, outermost first. */
  readonly ordinal: number;
  readonly id: string;
  readonly type: string;
  readonly label: string;
  readonly packageName: string;
  readonly packageVersion: string;
  /** Any installed version from this one on will do; null: exactly `packageVersion`. */
  readonly minVersion: string | null;
  /** As authored, with the defaults of its schema where nothing was authored. */
  readonly params: Readonly<Record<string, unknown>>;
  /** Authored results: used for keys that the node does not return. Usually absent. */
  readonly results?: Readonly<Record<string, unknown>>;
  readonly policy: NodePolicy;
  /** JSON Schemas; `true` where there is none. */
  readonly schema: { readonly parameters: unknown; readonly results: unknown };
  /** Digest of the manifest that the schemas are from; absent: its author wrote them, or there are none. */
  readonly manifest?: string;
  /** What its adapter declares, where that is not `per_request`; absent: an attempt that may have begun may be repeated. */
  readonly idempotency?: string;
  /** What becomes of a value that does not match; absent: what is set for the tenant. */
  readonly schemaMode?: SchemaMode;
  /** Distinct nodes of the same plan that must end first, and those that wait for this one; ordinals, ascending. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly inputs: readonly EdgeInput[];
  /** Middlewares around this node, outermost first: ordinals. Empty for most. */
  readonly chain: readonly number[];
  /** Of a middleware: its host's ordinal and its place in the chain. Null for all others. */
  readonly host: number | null;
  readonly chainIndex: number | null;
  /** Of a middleware: where its output ports read. These values are written into the host's at the same paths. */
  readonly outputs?: readonly BindingPath[];
  /** Null for a node that a worker runs. */
  readonly container: ContainerPlan | null;
}

export interface Plan {
  readonly nodes: readonly PlanNode[];
  /** Nodes without predecessors, except middlewares. */
  readonly starts: readonly number[];
}

export interface ContainerPlan {
  readonly subgraph: string;
  readonly body: Plan;
  readonly loop: ContainerLoop | null;
  readonly retry: ContainerRetry | null;
  readonly timeoutMs: number | null;
  readonly inputs: readonly IterationInput[];
  readonly outputs: readonly IterationOutput[];
}

export interface ContainerRetry {
  readonly maxAttempts: number;
  readonly backoffMs: number;
  readonly factor: number;
  readonly backoffMsMax: number;
}

export interface ContainerLoop {
  readonly mode: "forEach" | "map" | "while";
  /** What forEach and map go over: a list in the container's parameters, or one that was authored. Null for while. */
  readonly items: { readonly path: readonly string[] } | { readonly values: readonly unknown[] } | null;
  readonly maxIterations: number;
  /** Iterations open at once; 1 for forEach and while. */
  readonly parallelism: number;
  /** While: continues as long as it holds for the outputs of the last iteration. */
  readonly condition: LoopCondition | null;
}

export interface LoopCondition {
  readonly path: readonly string[];
  readonly op: "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "truthy" | "falsy" | "exists" | "missing";
  readonly value?: unknown;
  /** Authored as `until`: continues as long as the condition does not hold. */
  readonly isNegated?: boolean;
}

/** A value that enters an iteration. */
export interface IterationInput {
  readonly from: { readonly root: "parameters" | "item" | "index" | "last"; readonly steps: readonly string[] };
  /** Ordinal in the body. */
  readonly node: number;
  readonly to: readonly string[];
}

/** A value that leaves an iteration, into its outputs. */
export interface IterationOutput {
  readonly node: number;
  readonly from: BindingPath;
  readonly to: readonly string[];
}

/** What a finished node offers to its edges. */
export interface NodeOutcome {
  readonly params: unknown;
  readonly results: unknown;
}

/** By ordinal; null for a node that has no outcome. */
export type OutcomeOf = (ordinal: number) => NodeOutcome | null;

/** What an iteration offers to the nodes inside. */
export interface IterationScope {
  readonly parameters: unknown;
  readonly item: unknown;
  readonly index: number;
  /** Outputs of the previous iteration; an empty object at first. */
  readonly last: unknown;
}
