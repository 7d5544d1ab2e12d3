// What counts as one address when failures are counted: one IPv4 address, or the /64 that an IPv6 subscriber chooses addresses from.

import { isIPv6 } from "node:net";

const mappedPrefix = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** The text itself where it is no IPv6 address. */
export function addressBlockOf(address: string): string {
  const mapped = mappedPrefix.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [plain = ""] = address.split("%");
  return isIPv6(plain) ? `${expandIpv6(plain).slice(0, 4).join(":")}::/64` : address;
}

/** Its eight groups, without leading zeros. */
function expandIpv6(address: string): readonly string[] {
  const [head = "", tail] = address.toLowerCase().split("::");
  const groupsOf = (text: string): string[] => (text === "" ? [] : text.split(":"));
  // A tail in IPv4 notation counts as two groups; they are beyond the /64 in any case.
  const groups = [groupsOf(head), groupsOf(tail ?? "")].map((list) =>
    list.flatMap((group) => (group.includes(".") ? ["0", "0"] : [Number.parseInt(group, 16).toString(16)])),
  );
  const [first = [], last = []] = groups;
  return tail === undefined ? first : [...first, ...Array.from({ length: 8 - first.length - last.length }, () => "0"), ...last];
}
