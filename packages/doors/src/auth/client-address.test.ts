import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { createClientAddressReader } from "./client-address.ts";

const requestFrom = (remoteAddress: string, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
  }) as unknown as IncomingMessage;

describe("the address of a client", () => {
  it("[A542] X-Forwarded-For of a caller that is no trusted proxy is ignored", () => {
    expect(createClientAddressReader()(requestFrom("10.0.0.1", "1.2.3.4"))).toBe("10.0.0.1");
    expect(createClientAddressReader(["10.0.0.2"])(requestFrom("10.0.0.1", "1.2.3.4"))).toBe("10.0.0.1");
  });

  it.each([
    ["one proxy", "10.0.0.1", "1.2.3.4", "1.2.3.4"],
    ["two proxies", "10.0.0.1", "1.2.3.4, 10.0.7.7", "1.2.3.4"],
    ["a caller that invents others", "10.0.0.1", "9.9.9.9, 10.0.0.9, 1.2.3.4", "1.2.3.4"],
    ["a caller that sends no address", "10.0.0.1", "localhost", "10.0.0.1"],
    ["a proxy that reports no address", "10.0.0.1", "1.2.3.4, unknown", "10.0.0.1"],
    ["a proxy that reports nobody", "10.0.0.1", undefined, "10.0.0.1"],
    ["a proxy that is called itself", "10.0.0.1", "10.0.0.5", "10.0.0.5"],
    ["a mapped IPv4 proxy", "::ffff:10.0.0.1", "2001:db8::7", "2001:db8::7"],
    ["an IPv6 proxy", "fd00::1", "2001:db8::7", "2001:db8::7"],
  ])("[A542] behind %s the last address that is no trusted proxy counts", (_, remote, forwarded, expected) => {
    const readAddress = createClientAddressReader(["10.0.0.0/16", "fd00::1"]);

    expect(readAddress(requestFrom(remote, forwarded))).toBe(expected);
  });
});
