// The REST calls without HTTP, before documents in memory: for tests of people, resources and commands. Passwords cost next to nothing.

import type { RouteName } from "@astraflow/protocol";
import { createMetrics } from "../metrics.ts";
import { createPeople, type People } from "../people/people.ts";
import { createRestCalls, type RestAnswer, type RestCallsOptions } from "../rest/calls.ts";
import { createFakeDocs, type FakeDocs, type FakeDocsOptions } from "./docs.ts";
import { createFakeOutside, type FakeOutside } from "./fake-outside.ts";
import { tokens } from "./house.ts";

export interface Asking {
  readonly token?: string | null;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object becomes JSON; a text is sent as it is. */
  readonly body?: unknown;
  readonly stream?: AsyncIterable<Buffer>;
  readonly address?: string;
}

interface Answered {
  readonly status: number;
  readonly headers: RestAnswer["headers"];
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface RestScene {
  readonly docs: FakeDocs;
  readonly outside: FakeOutside;
  readonly people: People;
  /** The body is whatever it is: tests say what they expect. */
  ask(name: RouteName, asking?: Asking): Promise<Answered>;
  /** The answer as it is, bytes and all. */
  raw(name: RouteName, asking?: Asking): Promise<RestAnswer>;
  /** A user, and a token for it. */
  signIn(username: string, roles: readonly string[], tenant?: string): Promise<{ token: string; id: string }>;
}

export const password = "a long enough password";
export const cheapCost = { n: 16, r: 1, p: 1 } as const;

export function openScene(options: FakeDocsOptions & { calls?: Partial<RestCallsOptions>; shared?: FakeDocs } = {}): RestScene {
  const outside = createFakeOutside();
  const docs = options.shared ?? createFakeDocs({ now: () => outside.clock.now(), ...options });
  const { link, reader } = docs;
  const people = createPeople({ link, reader, outside, passwordCost: cheapCost });
  const calls = createRestCalls({
    link,
    reader,
    people,
    outside,
    authenticate: tokens,
    metrics: createMetrics(),
    digest: (text) => `digest-${Buffer.from(text).toString("base64url").slice(-40)}-${text.length}`,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
    ...options.calls,
  });
  const raw: RestScene["raw"] = (
    name,
    { token = "secret-a", params = {}, query = {}, headers = {}, body, stream, address } = {},
  ) =>
    calls.call(name, {
      token,
      params,
      query,
      headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      body: body === undefined ? null : Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
      ...(stream !== undefined && { stream }),
      ...(address !== undefined && { address }),
    });
  const ask: RestScene["ask"] = async (name, asking) => {
    const { status, headers, body } = await raw(name, asking);
    return { status, headers, body: body === "" ? null : JSON.parse(body) };
  };
  return {
    docs,
    outside,
    people,
    ask,
    raw,
    async signIn(username, roles, tenant = "default") {
      const token = tenant === "default" ? "secret-a" : "secret-b";
      const { body: made } = await ask("createUser", { token, body: { username, password, roles } });
      const { body } = await ask("login", { token: null, body: { username, password, tenant } });
      return { token: String(body["accessToken"]), id: String(made["userId"]) };
    },
  };
}
