// From which address a request comes. Behind a proxy that the configuration names it is the one that the proxy reports in X-Forwarded-For;
// of everybody else that header is ignored, because it may say anything.

import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

export type ReadClientAddress = (request: Pick<IncomingMessage, "headers" | "socket">) => string;

/** `trusted` holds addresses and networks such as 10.0.0.0/8. */
export function createClientAddressReader(trusted: readonly string[] = []): ReadClientAddress {
  const proxies = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    const family = familyOf(address);
    proxies.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  return ({ headers, socket }) => {
    let address = socket.remoteAddress ?? "";
    if (trusted.length === 0) return address;
    const reported = String(headers["x-forwarded-for"] ?? "").split(",");
    // Each proxy adds whom it was called by at the end: what stands before the first one that is not ours was written by a stranger.
    while (reported.length > 0 && isIP(address) !== 0 && proxies.check(address, familyOf(address))) {
      const before = reported.pop()?.trim() ?? "";
      if (isIP(before) === 0) return address;
      address = before;
    }
    return address;
  };
}

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4");
