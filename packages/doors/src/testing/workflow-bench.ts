// The routes about workflows and packages on documents in memory, for three people and a stranger. Every answer that is no refusal is held
// against the route's own schema.

import { sampleGauge } from "@astraflow/engine/testing";
import { type Route, type RouteName, routes, type Workflow } from "@astraflow/protocol";
import Schema from "typebox/schema";
import { createTokens } from "../identity.ts";
import { createMetrics } from "../metrics.ts";
import { createRestCalls, type RestCallsOptions } from "../rest/calls.ts";
import { createFakeDocs, type FakeDocs } from "./docs.ts";
import { createFakeOutside, type FakeOutside } from "./fake-outside.ts";
import { chain } from "./rows.ts";

/** Ann and bob write workflows, eve looks after all of them, vic reads, wes sees runs only, mallory is of another tenant. */
const tokens = createTokens([
  { token: "ann", tenant: "default", user: "ann", grants: ["read", "edit"] },
  { token: "bob", tenant: "default", user: "bob", grants: ["read", "edit"] },
  { token: "eve", tenant: "default", user: "eve", grants: ["read", "edit", "admin"] },
  { token: "vic", tenant: "default", user: "vic", grants: ["read"] },
  { token: "wes", tenant: "default", user: "wes", grants: ["view"] },
  { token: "mallory", tenant: "other", user: "ann", grants: ["read", "edit", "admin"] },
]);

export interface Asked {
  readonly as?: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes leave as they are. */
  readonly body?: unknown;
}

export interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** What a test looks at is up to the test. */
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface WorkflowBench {
  readonly docs: FakeDocs;
  readonly outside: FakeOutside;
  ask(name: RouteName, asked?: Asked): Promise<Told>;
  /** Saves the chain under this id. */
  save(workflow?: Partial<Workflow>, as?: string): Promise<Told>;
}

export function openWorkflowBench(more: Partial<RestCallsOptions> = {}): WorkflowBench {
  const outside = createFakeOutside();
  const docs = createFakeDocs({ now: () => outside.clock.now() });
  const calls = createRestCalls({
    link: docs.link,
    reader: docs.reader,
    authenticate: tokens,
    outside,
    metrics: createMetrics(),
    digest: (text) => `digest-of-${text.length}-${sumOf(text)}`,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => sampleGauge({ now: outside.clock.now() }),
    ...more,
  });
  const ask = async (name: RouteName, asked: Asked = {}): Promise<Told> => {
    const { as = "ann", params = {}, query = {}, headers = {}, body } = asked;
    const answer = await calls.call(name, {
      token: as,
      params,
      query,
      headers: { "content-type": "application/json", ...headers },
      body: bytesOf(body),
    });
    const told = { ...answer, body: answer.body === "" ? null : JSON.parse(answer.body) };
    if (told.status < 300) hold(name, told);
    return told;
  };
  return {
    docs,
    outside,
    ask,
    save: (workflow = {}, as = "ann") => ask("saveWorkflow", { as, body: { ...chain, ...workflow } }),
  };
}

function bytesOf(body: unknown): Buffer | null {
  if (body === undefined) return null;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

/** Throws where an answer is not what its route promises. */
function hold(name: RouteName, { status, body }: Told): void {
  const route: Route = routes[name];
  const response = status === route.status ? (route.response ?? null) : route.also?.[status];
  if (response === undefined) throw new Error(`${name} answered ${status}, and its row says ${route.status}`);
  if (response === null) return;
  const [isFine, problems] = Schema.Errors(response as never, body);
  if (!isFine) throw new Error(`${name} answered what its schema refuses: ${JSON.stringify(problems.slice(0, 3))}`);
}

/** Other texts have other sums, as far as tests go. */
function sumOf(text: string): number {
  let sum = 7;
  for (let at = 0; at < text.length; at += 1) sum = (sum * 31 + text.charCodeAt(at)) % 1_000_000_007;
  return sum;
}
