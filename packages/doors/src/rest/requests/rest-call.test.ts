import { type Route, routes } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { RestCall } from "./rest-call.ts";

interface Changes {
  readonly user?: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

const callWith = ({ user = "ann", params = { runId: "r1" }, headers = { "idempotency-key": "key-1" } }: Changes): RestCall => {
  const identity = { tenant: "default", user, grants: [] };
  const request = { requestId: "q", identity, params, query: {}, body: null, header: (name: string) => headers[name] };
  return new RestCall(request as unknown as ConstructorParameters<typeof RestCall>[0], routes.cancelRun as Route, () => true);
};
const digest = (text: string): string => text;

describe("the idempotency key of a request", () => {
  it("[A220] a key stands for one user, one action, one target and one body: any other has another digest", () => {
    const requests = [
      callWith({}).idempotencyKeyFor("run.cancel", null, digest),
      callWith({ user: "bob" }).idempotencyKeyFor("run.cancel", null, digest),
      callWith({}).idempotencyKeyFor("run.skip", null, digest),
      callWith({ params: { runId: "r2" } }).idempotencyKeyFor("run.cancel", null, digest),
      callWith({}).idempotencyKeyFor("run.cancel", { reason: "x" }, digest),
    ];

    expect(new Set(requests.map((one) => one?.digest)).size).toBe(requests.length);
    expect(callWith({}).idempotencyKeyFor("run.cancel", null, digest)).toEqual(requests[0]);
    expect(callWith({ headers: {} }).idempotencyKeyFor("run.cancel", null, digest)).toBeNull();
  });

  it("[A219] a key has 1 to 64 printable characters without blanks", () => {
    const keyOf = (key: string) => callWith({ headers: { "idempotency-key": key } }).readIdempotencyKey();

    expect(keyOf("k".repeat(64))).toBe("k".repeat(64));
    for (const key of ["!", "~"]) expect(keyOf(key)).toBe(key);
    for (const key of ["", " ", "k".repeat(65), "a b", "k\u00fc", "k\u007f", "k\t"])
      expect(() => keyOf(key)).toThrow("1 to 64 printable");
  });
});
