// The routes of workflows and packages on documents in memory, for several users. Every successful response is checked against the schema
// of its route.

import { sampleGauge } from "@astraflow/engine/testing";
import { type Route, type RouteName, routes, type Workflow } from "@astraflow/protocol";
import {
  createFakeDocumentStore,
  createFakeEnvironment,
  type FakeDocumentStore,
  type FakeEnvironment,
  sampleChain,
  sampleDigest,
} from "@astraflow/services/testing";
import Schema from "typebox/schema";
import { createTokenAuthenticator } from "../auth/token-registry.ts";
import { createMetricsRegistry } from "../environment/metrics-registry.ts";
import { RestApi, type RestApiOptions } from "../rest/rest-api.ts";

/** Ann and bob edit workflows, eve is an admin, vic reads, wes sees runs only, mallory belongs to another tenant. */
const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "default", user: "ann", grants: ["read", "edit"] },
  { token: "bob", tenant: "default", user: "bob", grants: ["read", "edit"] },
  { token: "eve", tenant: "default", user: "eve", grants: ["read", "edit", "admin"] },
  { token: "vic", tenant: "default", user: "vic", grants: ["read"] },
  { token: "wes", tenant: "default", user: "wes", grants: ["view"] },
  { token: "mallory", tenant: "other", user: "ann", grants: ["read", "edit", "admin"] },
]);

export interface WorkflowCallInput {
  readonly as?: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes are sent as they are. */
  readonly body?: unknown;
}

export interface WorkflowCallResult {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** `body` is any, so that tests can read what they expect. */
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface WorkflowFixture {
  readonly docs: FakeDocumentStore;
  readonly environment: FakeEnvironment;
  callRoute(name: RouteName, input?: WorkflowCallInput): Promise<WorkflowCallResult>;
  /** Saves the chain under this id. */
  save(workflow?: Partial<Workflow>, as?: string): Promise<WorkflowCallResult>;
}

export function openWorkflowFixture(more: Partial<RestApiOptions> = {}): WorkflowFixture {
  const environment = createFakeEnvironment();
  const docs = createFakeDocumentStore({ now: () => environment.clock.now() });
  const calls = new RestApi({
    engineClient: docs.engineClient,
    reader: docs.reader,
    authenticate: tokens,
    environment,
    metrics: createMetricsRegistry(),
    digest: sampleDigest,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => sampleGauge({ now: environment.clock.now() }),
    ...more,
  });
  const ask = async (name: RouteName, input: WorkflowCallInput = {}): Promise<WorkflowCallResult> => {
    const { as = "ann", params = {}, query = {}, headers = {}, body } = input;
    const answer = await calls.handle(name, {
      token: as,
      params,
      query,
      headers: { "content-type": "application/json", ...headers },
      body: toBytes(body),
    });
    const result = { ...answer, body: answer.body === "" ? null : JSON.parse(answer.body) };
    if (result.status < 300) checkAgainstSchema(name, result);
    return result;
  };
  return {
    docs,
    environment,
    callRoute: ask,
    save: (workflow = {}, as = "ann") => ask("saveWorkflow", { as, body: { ...sampleChain, ...workflow } }),
  };
}

function toBytes(body: unknown): Buffer | null {
  if (body === undefined) return null;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

/** Throws where a response does not match the schema of its route. */
function checkAgainstSchema(name: RouteName, { status, body }: WorkflowCallResult): void {
  const route: Route = routes[name];
  const response = status === route.status ? (route.response ?? null) : route.also?.[status];
  if (response === undefined) throw new Error(`${name} answered ${status}, and its row says ${route.status}`);
  if (response === null) return;
  const [isFine, problems] = Schema.Errors(response as never, body);
  if (!isFine) throw new Error(`${name} answered what its schema refuses: ${JSON.stringify(problems.slice(0, 3))}`);
}
