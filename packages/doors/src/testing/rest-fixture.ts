// REST calls without HTTP on documents in memory, with cheap password hashing.

import type { RouteName } from "@astraflow/protocol";
import { UserAccounts } from "@astraflow/services";
import {
  createFakeDocumentStore,
  createFakeEnvironment,
  type FakeDocumentStore,
  type FakeDocumentStoreOptions,
  type FakeEnvironment,
  sampleDigest,
} from "@astraflow/services/testing";
import { createMetricsRegistry } from "../environment/metrics-registry.ts";
import { RestApi, type RestApiOptions, type RestResponse } from "../rest/rest-api.ts";
import { sampleTokens } from "./doors-fixture.ts";

export interface RestCallInput {
  readonly token?: string | null;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object becomes JSON; a text is sent as it is. */
  readonly body?: unknown;
  readonly stream?: AsyncIterable<Buffer>;
  readonly address?: string;
}

interface RestCallResult {
  readonly status: number;
  readonly headers: RestResponse["headers"];
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface RestCallFixture {
  readonly docs: FakeDocumentStore;
  readonly environment: FakeEnvironment;
  readonly people: UserAccounts;
  /** `body` is any, so that tests can read what they expect. */
  callRoute(name: RouteName, input?: RestCallInput): Promise<RestCallResult>;
  /** The response as it is, bytes included. */
  callRouteRaw(name: RouteName, input?: RestCallInput): Promise<RestResponse>;
  /** A user, and a token for it. */
  signIn(username: string, roles: readonly string[], tenant?: string): Promise<{ token: string; id: string }>;
}

/** Wrong passwords, one after the other. */
export async function failToSignIn(fixture: RestCallFixture, username: string, count: number, address?: string): Promise<void> {
  const wrong = { token: null, body: { username, password: "wrong" }, ...(address !== undefined && { address }) };
  for (let n = 0; n < count; n += 1) await fixture.callRoute("login", wrong);
}

export const samplePassword = "a long enough password";
export const cheapPasswordCost = { n: 16, r: 1, p: 1 } as const;

export function openRestCallFixture(
  options: FakeDocumentStoreOptions & { calls?: Partial<RestApiOptions>; shared?: FakeDocumentStore } = {},
): RestCallFixture {
  const environment = createFakeEnvironment();
  const docs = options.shared ?? createFakeDocumentStore({ now: () => environment.clock.now(), ...options });
  const { engineClient, reader } = docs;
  const people = new UserAccounts({ engineClient, reader, environment, passwordCost: cheapPasswordCost });
  const calls = new RestApi({
    engineClient,
    reader,
    people,
    environment,
    authenticate: sampleTokens,
    metrics: createMetricsRegistry(),
    digest: sampleDigest,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
    ...options.calls,
  });
  const raw: RestCallFixture["callRouteRaw"] = (
    name,
    { token = "secret-a", params = {}, query = {}, headers = {}, body, stream, address } = {},
  ) =>
    calls.handle(name, {
      token,
      params,
      query,
      headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      body: body === undefined ? null : Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
      ...(stream !== undefined && { stream }),
      ...(address !== undefined && { address }),
    });
  const ask: RestCallFixture["callRoute"] = async (name, input) => {
    const { status, headers, body } = await raw(name, input);
    return { status, headers, body: body === "" ? null : JSON.parse(body) };
  };
  return {
    docs,
    environment,
    people,
    callRoute: ask,
    callRouteRaw: raw,
    async signIn(username, roles, tenant = "default") {
      const token = tenant === "default" ? "secret-a" : "secret-b";
      const { body: made } = await ask("createUser", { token, body: { username, password: samplePassword, roles } });
      const { body } = await ask("login", { token: null, body: { username, password: samplePassword, tenant } });
      return { token: String(body["accessToken"]), id: String(made["userId"]) };
    },
  };
}
