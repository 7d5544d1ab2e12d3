// What the callers asked for: the graphs of the runs, read from the bodies of the starts by hand. A run is found by its client's id,
// which its first fact names, so that runs whose answers were lost are known as well. Where a task stands in its graph is read from its id.

import type { CallSeen } from "../observation.ts";

export interface NodePlan {
  readonly ordinal: number;
  readonly id: string;
  readonly type: string;
  readonly packageName: string;
  readonly packageVersion: string;
  readonly before: readonly number[];
  readonly pool: string | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly key: string | null;
  readonly keyLimit: number;
  readonly timeoutMs: number | null;
  readonly queueTimeoutMs: number | null;
  readonly maxDeliveries: number | null;
  readonly maxAttempts: number | null;
  /** The pause before the first retry; null where the callers left it to the schedulers. */
  readonly backoffMs: number | null;
  /** Gets a reference to something that lies with one worker. */
  readonly isPinned: boolean;
  readonly affinity: { readonly key: string; readonly mode: "sticky" | "preferred" } | null;
  /** Middlewares around it, outermost first; of a middleware its host and its place. */
  readonly chain: readonly number[];
  readonly host: number | null;
  readonly chainIndex: number | null;
  /** Of a container. */
  readonly box: BoxPlan | null;
}

export interface BoxPlan {
  readonly nodes: readonly NodePlan[];
  readonly mode: "plain" | "forEach" | "map" | "while";
  /** Iterations, where the callers wrote the list down; null where they left it to the run. */
  readonly count: number | null;
  readonly parallelism: number;
  readonly maxAttempts: number;
  readonly timeoutMs: number | null;
}

export interface RunPlan {
  readonly nodes: readonly NodePlan[];
  readonly timeoutMs: number | null;
  /** As it was asked for. */
  readonly asked: Asked;
}

export interface AskedNode {
  readonly id: string;
  readonly type: string;
  readonly package: { readonly name: string; readonly version: string };
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly middlewares?: readonly AskedNode[];
  readonly ui?: {
    readonly inputPorts?: readonly { readonly key: string; readonly binding: { readonly path: string } }[];
    readonly outputPorts?: readonly { readonly key: string; readonly binding: { readonly path: string } }[];
  };
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

export interface AskedEnd {
  readonly node: string;
  readonly port: string;
}

export interface AskedGraph {
  readonly nodes: readonly AskedNode[];
  readonly edges: readonly { readonly source: AskedEnd; readonly target: AskedEnd }[];
  readonly subgraphs?: readonly { readonly id: string; readonly definition: AskedGraph }[];
}

export interface Asked {
  readonly workflow: AskedGraph;
  readonly clientId: string;
  readonly timeoutMs?: number;
  readonly pins?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** What `parameters.__container` says. */
export interface AskedBox {
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

export const boxOf = ({ parameters }: AskedNode): AskedBox | null => (parameters?.["__container"] ?? null) as AskedBox | null;

export class Plans {
  /** By tenant and client; null where one client asked for different things. */
  readonly #plans = new Map<string, { readonly body: string; readonly plan: RunPlan } | null>();
  readonly #asks = new Map<string, Set<string>>();

  hear(call: CallSeen): void {
    if (call.route !== "startRun" || call.body === null) return;
    const asked = JSON.parse(call.body) as Asked;
    const name = `${call.tenant}/${asked.clientId}`;
    const asks = this.#asks.get(name) ?? new Set();
    this.#asks.set(name, asks.add(call.idempotencyKey === null ? `call ${call.call}` : `key ${call.idempotencyKey}`));
    const known = this.#plans.get(name);
    if (known === undefined) this.#plans.set(name, { body: call.body, plan: planOf(asked) });
    else if (known?.body !== call.body) this.#plans.set(name, null);
  }

  of(tenant: string, client: string): RunPlan | null {
    return this.#plans.get(`${tenant}/${client}`)?.plan ?? null;
  }

  /** How many runs this client can have started at most: one for each key, one for each call without. */
  asksOf(tenant: string, client: string): number {
    return this.#asks.get(`${tenant}/${client}`)?.size ?? 0;
  }
}

const planOf = (asked: Asked): RunPlan => ({
  timeoutMs: asked.timeoutMs ?? null,
  nodes: nodesOf(asked.workflow, asked.workflow.subgraphs ?? []),
  asked,
});

/** The authored nodes first, then the middlewares of each, outermost first. */
function nodesOf({ nodes, edges }: AskedGraph, subgraphs: NonNullable<AskedGraph["subgraphs"]>): NodePlan[] {
  const ordinals = new Map(nodes.map((node, ordinal) => [node.id, ordinal]));
  const before = nodes.map(() => new Set<number>());
  const pinned = new Set<string>();
  for (const { source, target } of edges) {
    const from = ordinals.get(source.node);
    if (from !== undefined) before[ordinals.get(target.node) ?? -1]?.add(from);
    if (target.port === "kept") pinned.add(target.node);
  }
  const wrapped: NodePlan[] = [];
  const authored = nodes.map((node, ordinal) => {
    const chain = (node.middlewares ?? []).map((middleware, chainIndex) => {
      const place = { ordinal: nodes.length + wrapped.length, before: [], chain: [], host: ordinal, chainIndex, isPinned: false };
      wrapped.push(nodeOf(middleware, subgraphs, place));
      return place.ordinal;
    });
    const isPinned = pinned.has(node.id);
    return nodeOf(node, subgraphs, {
      ordinal,
      before: [...(before[ordinal] ?? [])],
      chain,
      host: null,
      chainIndex: null,
      isPinned,
    });
  });
  return [...authored, ...wrapped];
}

type Place = Pick<NodePlan, "ordinal" | "before" | "chain" | "host" | "chainIndex" | "isPinned">;

function nodeOf(node: AskedNode, subgraphs: NonNullable<AskedGraph["subgraphs"]>, place: Place): NodePlan {
  const { policy = {} } = node;
  return {
    ...place,
    id: node.id,
    type: node.type,
    packageName: node.package.name,
    packageVersion: node.package.version,
    pool: policy.pool ?? null,
    tags: policy.tags ?? {},
    key: policy.concurrency?.key ?? null,
    keyLimit: policy.concurrency?.limit ?? 1,
    timeoutMs: policy.timeoutMs ?? null,
    queueTimeoutMs: policy.queueTimeoutMs ?? null,
    maxDeliveries: policy.maxDeliveries ?? null,
    maxAttempts: policy.retry?.maxAttempts ?? null,
    backoffMs: policy.retry?.backoffMs ?? null,
    affinity: policy.affinity === undefined ? null : { key: policy.affinity.key, mode: policy.affinity.mode ?? "sticky" },
    box: boxPlanOf(node, subgraphs),
  };
}

function boxPlanOf(node: AskedNode, subgraphs: NonNullable<AskedGraph["subgraphs"]>): BoxPlan | null {
  const box = boxOf(node);
  const body = subgraphs.find(({ id }) => id === box?.subgraphId)?.definition;
  if (box === null || body === undefined) return null;
  const { loop } = box;
  const count = loop === undefined ? 1 : Array.isArray(loop.items) ? loop.items.length : null;
  return {
    nodes: nodesOf(body, subgraphs),
    mode: loop?.mode ?? "plain",
    count,
    parallelism: loop?.mode === "map" ? (loop.parallelism ?? 100) : 1,
    maxAttempts: box.retry?.maxAttempts ?? 1,
    timeoutMs: box.timeoutSeconds === undefined ? null : box.timeoutSeconds * 1_000,
  };
}

/** A task's place in its run, read from its id: `<run>.<step>/<step>…`, each step `<ordinal>[~<call>][*<frame>]`. */
export interface TaskPlace {
  /** The slot of the frame it stands in; empty at the top level. */
  readonly scope: string;
  readonly ordinal: number;
  readonly call: number | null;
  readonly frame: number | null;
}

export function placeOf(task: string): TaskPlace {
  const slot = task.slice(task.lastIndexOf(".") + 1);
  const slash = slot.lastIndexOf("/");
  const [, ordinal, call, frame] = /^(\d+)(?:~(\d+))?(?:\*(\d+))?$/.exec(slot.slice(slash + 1)) ?? [];
  return {
    scope: slash < 0 ? "" : slot.slice(0, slash),
    ordinal: Number(ordinal),
    call: call === undefined ? null : Number(call),
    frame: frame === undefined ? null : Number(frame),
  };
}

/** The task of a node in a scope. */
export const taskIn = (run: string, scope: string, ordinal: number): string =>
  `${run}.${scope === "" ? "" : `${scope}/`}${ordinal}`;

/** The nodes of a scope, or null where there is none such. */
export function nodesIn(plan: { readonly nodes: readonly NodePlan[] }, scope: string): readonly NodePlan[] | null {
  let { nodes }: { readonly nodes: readonly NodePlan[] } = plan;
  for (const step of scope === "" ? [] : scope.split("/")) {
    const box = nodes[Number.parseInt(step, 10)]?.box ?? null;
    if (box === null) return null;
    nodes = box.nodes;
  }
  return nodes;
}

/** The node that a task is about; of a frame its container. */
export function nodeOfTask(plan: { readonly nodes: readonly NodePlan[] } | null, task: string): NodePlan | null {
  if (plan === null) return null;
  const { scope, ordinal } = placeOf(task);
  return nodesIn(plan, scope)?.[ordinal] ?? null;
}

/** Whether a task is carried out by other tasks: a frame, a container, a host behind its chain, an inner middleware as a whole. */
export function isCarried(node: NodePlan | null, task: string): boolean {
  const { call, frame } = placeOf(task);
  if (frame !== null) return true;
  if (node === null) return false;
  if (call !== null) return node.box !== null;
  return node.box !== null || node.chain.length > 0 || (node.chainIndex ?? 0) > 0;
}
