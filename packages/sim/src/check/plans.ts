// What the callers asked for: the graphs of the runs, read from the bodies of the starts by hand. A run is found by its client's id,
// which its first fact names, so that runs whose answers were lost are known as well.

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
}

export interface RunPlan {
  readonly nodes: readonly NodePlan[];
  readonly timeoutMs: number | null;
}

interface Asked {
  readonly workflow: {
    readonly nodes: readonly {
      readonly id: string;
      readonly type: string;
      readonly package: { readonly name: string; readonly version: string };
      readonly policy?: {
        readonly retry?: { readonly maxAttempts?: number; readonly backoffMs?: number };
        readonly timeoutMs?: number;
        readonly queueTimeoutMs?: number;
        readonly concurrency?: { readonly key: string; readonly limit?: number };
        readonly pool?: string;
        readonly tags?: Readonly<Record<string, string>>;
        readonly maxDeliveries?: number;
      };
    }[];
    readonly edges: readonly { readonly source: { readonly node: string }; readonly target: { readonly node: string } }[];
  };
  readonly clientId: string;
  readonly timeoutMs?: number;
}

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

function planOf({ workflow, timeoutMs }: Asked): RunPlan {
  const ordinals = new Map(workflow.nodes.map((node, ordinal) => [node.id, ordinal]));
  const before = workflow.nodes.map(() => new Set<number>());
  for (const { source, target } of workflow.edges) {
    const from = ordinals.get(source.node);
    if (from !== undefined) before[ordinals.get(target.node) ?? -1]?.add(from);
  }
  return {
    timeoutMs: timeoutMs ?? null,
    nodes: workflow.nodes.map((node, ordinal) => {
      const { policy = {} } = node;
      return {
        ordinal,
        id: node.id,
        type: node.type,
        packageName: node.package.name,
        packageVersion: node.package.version,
        before: [...(before[ordinal] ?? [])],
        pool: policy.pool ?? null,
        tags: policy.tags ?? {},
        key: policy.concurrency?.key ?? null,
        keyLimit: policy.concurrency?.limit ?? 1,
        timeoutMs: policy.timeoutMs ?? null,
        queueTimeoutMs: policy.queueTimeoutMs ?? null,
        maxDeliveries: policy.maxDeliveries ?? null,
        maxAttempts: policy.retry?.maxAttempts ?? null,
        backoffMs: policy.retry?.backoffMs ?? null,
      };
    }),
  };
}
