// Which addresses requests may connect to: public ones, and the hosts that the worker's operator allows. A name is judged by what it
// resolves to, and the connection goes to the address that was judged: otherwise a second lookup could lead somewhere else.

import { lookup as systemLookup } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { failure } from "./failure.ts";

/** Networks of one machine, one site or one purpose. In 169.254.0.0/16 clouds answer with the credentials of their machines. */
const refusedIpv4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const;

/** Everything outside 2000::/3, and what stands for an IPv4 address or for nothing inside it. */
const refusedIpv6 = [
  ["::", 3],
  ["4000::", 2],
  ["8000::", 1],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

/** Two lists: one for both would find every IPv4 address in `::/3`, as the IPv6 address that stands for it. */
const refusedNetworks = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const [network, bits] of refusedIpv4) refusedNetworks.ipv4.addSubnet(network, bits, "ipv4");
for (const [network, bits] of refusedIpv6) refusedNetworks.ipv6.addSubnet(network, bits, "ipv6");

export function isPublicAddress(address: string): boolean {
  const [bare = ""] = address.split("%");
  const kind = isIP(bare);
  const family = kind === 4 ? "ipv4" : "ipv6";
  return kind !== 0 && !refusedNetworks[family].check(bare, family);
}

const hostsVariable = "HTTP_PACKAGE_PRIVATE_HOSTS";

/** Hosts and ports that may have any address, as the worker's environment lists them: `127.0.0.1:9000,wiki.corp:443`. */
function isAllowedHost(url: URL): boolean {
  const listed = (process.env[hostsVariable] ?? "").split(",").map((text) => text.trim().toLowerCase());
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return listed.includes("*") || listed.includes(`${url.hostname}:${port}`);
}

/** What to connect with; throws E.RUNNER.REFUSED for an address that no request may go to. */
export function chooseLookup(url: URL): LookupFunction {
  if (isAllowedHost(url)) return systemLookup as LookupFunction;
  const literal = url.hostname.replace(/^\[(.*)\]$/, "$1");
  // Addresses are not looked up.
  if (isIP(literal) !== 0 && !isPublicAddress(literal)) throw refuseAddress(url, literal);
  return (hostname, options, callback) => {
    systemLookup(hostname, { ...options, all: true }, (problem, found) => {
      if (problem !== null) return callback(problem, "");
      const refused = found.find(({ address }) => !isPublicAddress(address));
      if (refused !== undefined) return callback(refuseAddress(url, refused.address), "");
      if (options.all === true) return callback(null, found);
      const [first] = found;
      return callback(null, first?.address ?? "", first?.family);
    });
  };
}

function refuseAddress(url: URL, address: string): Error & NodeJS.ErrnoException {
  const where = url.hostname === address || url.hostname === `[${address}]` ? address : `${url.hostname} (${address})`;
  return failure(
    "E.RUNNER.REFUSED",
    `${where} is not a public address; the worker's ${hostsVariable} lists the hosts with other addresses that requests may go to, as host:port`,
  );
}
