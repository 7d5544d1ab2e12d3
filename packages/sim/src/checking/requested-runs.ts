// What the callers requested: the graphs of the runs, read from the bodies of the start requests. A run is found by its client id, which its first
// fact contains, so that runs whose answers were lost are known as well. The place of a task in the graph is read from its id.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { ApiCallObservation } from "../observation/observation.ts";

export interface RequestedNode extends Pick<StartRunNode, "id" | "type" | "package">, Required<Pick<StartRunNode, "policy">> {
  readonly ordinal: number;
  readonly before: readonly number[];
  /** Gets a reference to something that lies with one worker. */
  readonly isPinned: boolean;
  /** Middlewares around it, outermost first; of a middleware its host and its place. */
  readonly chain: readonly number[];
  readonly host: number | null;
  readonly chainIndex: number | null;
  /** Of a container. */
  readonly container: RequestedContainer | null;
}

export interface RequestedContainer {
  readonly nodes: readonly RequestedNode[];
  readonly mode: "plain" | "forEach" | "map" | "while";
  /** Iterations, where the callers wrote the list down; null where they left it to the run. */
  readonly count: number | null;
  readonly parallelism: number;
  readonly maxAttempts: number;
}

export interface RequestedRun {
  readonly nodes: readonly RequestedNode[];
  /** As it was asked for. */
  readonly body: StartRunBody;
}

export interface StartRunNode {
  readonly id: string;
  readonly type: string;
  readonly package: { readonly name: string; readonly version: string; readonly idempotency?: string };
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly middlewares?: readonly StartRunNode[];
  readonly ui?: { readonly outputPorts?: readonly { readonly key: string; readonly binding: { readonly path: string } }[] };
  readonly policy?: {
    readonly retry?: { readonly maxAttempts?: number; readonly backoffMs?: number };
    readonly timeoutMs?: number;
    readonly queueTimeoutMs?: number;
    readonly concurrency?: { readonly key: string; readonly limit?: number };
    readonly pool?: string;
    readonly tags?: Readonly<Record<string, string>>;
    readonly maxDeliveries?: number;
    readonly affinity?: { readonly key: string; readonly mode?: "sticky" | "preferred" };
  };
}

export interface StartRunGraph {
  readonly nodes: readonly StartRunNode[];
  readonly edges: readonly Readonly<Record<"source" | "target", { readonly node: string; readonly port: string }>>[];
  readonly subgraphs?: readonly { readonly id: string; readonly definition: StartRunGraph }[];
}

export interface StartRunBody {
  readonly workflow: StartRunGraph;
  readonly clientId: string;
  readonly timeoutMs?: number;
  readonly pins?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** What `parameters.__container` says. */
export interface StartRunContainer {
  readonly subgraphId: string;
  readonly loop?: {
    readonly mode: "forEach" | "map" | "while";
    readonly items?: string | readonly unknown[];
    readonly parallelism?: number;
    readonly maxIterations?: number;
    readonly condition?: { readonly path: string; readonly op: string; readonly value: unknown };
  };
  readonly retry?: { readonly maxAttempts?: number };
  readonly timeoutSeconds?: number;
  readonly inputs?: readonly { readonly from: string; readonly node: string; readonly to: string }[];
  readonly outputs?: readonly { readonly node: string; readonly from: string; readonly to: string }[];
}

export const containerParameterOf = ({ parameters }: StartRunNode): StartRunContainer | null =>
  (parameters?.["__container"] ?? null) as StartRunContainer | null;

export class RequestedRuns {
  /** By tenant and client; null where one client asked for different things. */
  readonly #runs = new Map<string, { readonly text: string; readonly run: RequestedRun } | null>();
  readonly #startAttempts = new Map<string, Set<string>>();

  recordCall(call: ApiCallObservation): void {
    if (call.route !== "startRun" || call.body === null) return;
    const body = JSON.parse(call.body) as StartRunBody;
    const name = `${call.tenant}/${body.clientId}`;
    getOrCreate(this.#startAttempts, name, () => new Set()).add(
      call.idempotencyKey === null ? `call ${call.call}` : `key ${call.idempotencyKey}`,
    );
    const known = this.#runs.get(name);
    if (known === undefined)
      this.#runs.set(name, { text: call.body, run: { nodes: toRequestedNodes(body.workflow, body.workflow.subgraphs), body } });
    else if (known?.text !== call.body) this.#runs.set(name, null);
  }

  find(tenant: string, client: string): RequestedRun | null {
    return this.#runs.get(`${tenant}/${client}`)?.run ?? null;
  }

  /** How many runs this client can have started at most: one for each key, one for each call without. */
  countRunsMax(tenant: string, client: string): number {
    return this.#startAttempts.get(`${tenant}/${client}`)?.size ?? 0;
  }
}

/** The authored nodes first, then the middlewares of each, outermost first. */
function toRequestedNodes({ nodes, edges }: StartRunGraph, subgraphs: StartRunGraph["subgraphs"]): RequestedNode[] {
  const ordinals = new Map(nodes.map((node, ordinal) => [node.id, ordinal]));
  const before = nodes.map(() => new Set<number>());
  const pinned = new Set<string>();
  for (const { source, target } of edges) {
    const from = ordinals.get(source.node);
    if (from !== undefined) before[ordinals.get(target.node) ?? -1]?.add(from);
    if (target.port === "kept") pinned.add(target.node);
  }
  const pick = ({ id, type, package: needed, policy = {} }: StartRunNode) => ({ id, type, package: needed, policy });
  const wrapped: RequestedNode[] = [];
  const authored = nodes.map((node, ordinal): RequestedNode => {
    const chain = (node.middlewares ?? []).map((middleware, chainIndex) => {
      const place = { ordinal: nodes.length + wrapped.length, before: [], chain: [], host: ordinal, chainIndex, isPinned: false };
      wrapped.push({ ...pick(middleware), ...place, container: toRequestedContainer(middleware, subgraphs) });
      return place.ordinal;
    });
    return {
      ...pick(node),
      ordinal,
      before: [...(before[ordinal] ?? [])],
      chain,
      host: null,
      chainIndex: null,
      isPinned: pinned.has(node.id),
      container: toRequestedContainer(node, subgraphs),
    };
  });
  return [...authored, ...wrapped];
}

function toRequestedContainer(node: StartRunNode, subgraphs: StartRunGraph["subgraphs"] = []): RequestedContainer | null {
  const parameter = containerParameterOf(node);
  const body = subgraphs.find(({ id }) => id === parameter?.subgraphId)?.definition;
  if (parameter === null || body === undefined) return null;
  const { loop, retry } = parameter;
  const count = loop === undefined ? 1 : Array.isArray(loop.items) ? loop.items.length : null;
  return {
    nodes: toRequestedNodes(body, subgraphs),
    mode: loop?.mode ?? "plain",
    count,
    parallelism: loop?.mode === "map" ? (loop.parallelism ?? 100) : 1,
    maxAttempts: retry?.maxAttempts ?? 1,
  };
}

/** A task's place in its run, read from its id: `<run>.<step>/<step>…`, each step `<ordinal>[~<call>][*<frame>]`. */
export interface TaskIdParts {
  /** The slot of the frame it stands in; empty at the top level. */
  readonly scope: string;
  readonly ordinal: number;
  readonly call: number | null;
  readonly iteration: number | null;
}

export function parseTaskId(task: string): TaskIdParts {
  const slot = task.slice(task.lastIndexOf(".") + 1);
  const slash = slot.lastIndexOf("/");
  const [, ordinal, call, frame] = /^(\d+)(?:~(\d+))?(?:\*(\d+))?$/.exec(slot.slice(slash + 1)) ?? [];
  return {
    scope: slash < 0 ? "" : slot.slice(0, slash),
    ordinal: Number(ordinal),
    call: call === undefined ? null : Number(call),
    iteration: frame === undefined ? null : Number(frame),
  };
}

/** The task of a node in a scope. */
export const taskIdOf = (run: string, scope: string, ordinal: number): string =>
  `${run}.${scope === "" ? "" : `${scope}/`}${ordinal}`;

/** The nodes of a scope, or null where there is none such. */
export function nodesOfScope(plan: { readonly nodes: readonly RequestedNode[] }, scope: string): readonly RequestedNode[] | null {
  let { nodes }: { readonly nodes: readonly RequestedNode[] } = plan;
  for (const step of scope === "" ? [] : scope.split("/")) {
    const container = nodes[Number.parseInt(step, 10)]?.container ?? null;
    if (container === null) return null;
    nodes = container.nodes;
  }
  return nodes;
}

/** The node that a task is about; of a frame its container. */
export function nodeOfTask(plan: { readonly nodes: readonly RequestedNode[] } | null, task: string): RequestedNode | null {
  if (plan === null) return null;
  const { scope, ordinal } = parseTaskId(task);
  return nodesOfScope(plan, scope)?.[ordinal] ?? null;
}

/** Whether a task is carried out by other tasks: a frame, a container, a host behind its chain, an inner middleware as a whole. */
export function isRunByOtherTasks(node: RequestedNode | null, task: string): boolean {
  const { call, iteration: frame } = parseTaskId(task);
  if (frame !== null) return true;
  if (node === null) return false;
  if (call !== null) return node.container !== null;
  return node.container !== null || node.chain.length > 0 || (node.chainIndex ?? 0) > 0;
}
