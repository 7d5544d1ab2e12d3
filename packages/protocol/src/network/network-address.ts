// What kind of place an address or a host name leads to. Pure: names are judged as they are written. What a name resolves to has to be judged
// again, by whoever connects, with the address that it connects to.

/** public: reachable from everywhere. reserved: nothing that anybody may connect to (documentation, multicast, relays and so on). */
export type AddressKind = "public" | "loopback" | "link-local" | "private" | "reserved";

/** Networks by their first bits; the first row that matches counts. Everything else is public. */
const ipv4Networks: readonly (readonly [network: string, bits: number, kind: AddressKind])[] = [
  ["0.0.0.0", 8, "loopback"], // many systems connect 0.0.0.0 to themselves
  ["10.0.0.0", 8, "private"],
  ["100.64.0.0", 10, "private"], // shared between a provider and its customers
  ["127.0.0.0", 8, "loopback"],
  ["169.254.0.0", 16, "link-local"], // clouds answer here with the credentials of the machine
  ["172.16.0.0", 12, "private"],
  ["192.0.0.0", 24, "reserved"],
  ["192.0.2.0", 24, "reserved"],
  ["192.88.99.0", 24, "reserved"],
  ["192.168.0.0", 16, "private"],
  ["198.18.0.0", 15, "private"], // test beds
  ["198.51.100.0", 24, "reserved"],
  ["203.0.113.0", 24, "reserved"],
  ["224.0.0.0", 3, "reserved"], // multicast, and what was never given out
];

/** The same of IPv6. What no row names is public inside 2000::/3 and reserved outside. */
const ipv6Networks: readonly (readonly [network: string, bits: number, kind: AddressKind])[] = [
  ["::", 128, "loopback"],
  ["::1", 128, "loopback"],
  ["64:ff9b:1::", 48, "private"],
  ["fc00::", 7, "private"],
  ["fe80::", 10, "link-local"],
  ["fec0::", 10, "private"],
  ["2001::", 23, "reserved"],
  ["2001:db8::", 32, "reserved"],
  ["3fff::", 20, "reserved"],
  ["2000::", 3, "public"],
];

/** IPv6 networks whose addresses stand for an IPv4 one, and where its four bytes are. */
const translatedNetworks: readonly (readonly [network: string, bits: number, offset: number])[] = [
  ["::ffff:0:0", 96, 12], // mapped
  ["::ffff:0:0:0", 96, 12], // translated
  ["::", 96, 12], // compatible
  ["64:ff9b::", 96, 12], // NAT64
  ["2002::", 16, 2], // 6to4
];

/** Of an address in its usual text form, with or without brackets and zone; null where the text is none. */
export function classifyIpAddress(text: string): AddressKind | null {
  const bare = text.replace(/^\[(.*)\]$/s, "$1").replace(/%.*$/s, "");
  const bytes = parseIpAddress(bare);
  return bytes === null ? null : classifyBytes(bytes);
}

/** Names of this machine and of its own network. Names without a dot are looked up in the local domain. */
const localNames = /^(?:.*\.)?(?:localhost|localdomain|local|internal|intranet|lan|home|corp|home\.arpa)$/;

/** Of a host as it stands in a parsed URL: an address, or a name. */
export function classifyHost(host: string): AddressKind {
  const kind = classifyIpAddress(host);
  if (kind !== null) return kind;
  const name = host.toLowerCase().replace(/\.+$/, "");
  if (/^(?:.*\.)?localhost(?:\.localdomain)?$/.test(name) || name === "") return "loopback";
  return !name.includes(".") || localNames.test(name) ? "private" : "public";
}

function classifyBytes(bytes: readonly number[]): AddressKind {
  if (bytes.length === 4) return ipv4Kinds.find((row) => isInNetwork(bytes, row))?.kind ?? "public";
  const own = ipv6Kinds.find((row) => isInNetwork(bytes, row));
  if (own !== undefined && own.kind !== "public") return own.kind;
  const translated = ipv6Translations.find((row) => isInNetwork(bytes, row));
  if (translated !== undefined) return classifyBytes(bytes.slice(translated.offset, translated.offset + 4));
  return own?.kind ?? "reserved";
}

interface Network {
  readonly bytes: readonly number[];
  readonly bits: number;
}

function isInNetwork(bytes: readonly number[], { bytes: network, bits }: Network): boolean {
  for (let at = 0; at * 8 < bits; at++) {
    const mask = 0xff & (0xff << Math.max(0, 8 - (bits - at * 8)));
    if (((bytes[at] ?? 0) & mask) !== ((network[at] ?? 0) & mask)) return false;
  }
  return true;
}

/** Four or sixteen bytes; null where the text is no address. Only decimal bytes without leading zeros: other spellings mean different things to different readers. */
function parseIpAddress(text: string): readonly number[] | null {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

function parseIpv4(text: string): readonly number[] | null {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part))) return null;
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function parseIpv6(text: string): readonly number[] | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head, tail] = halves.map(parseGroups);
  if (head === null || head === undefined || tail === null) return null;
  if (tail === undefined) return head.length === 16 ? head : null;
  const missing = 16 - head.length - tail.length;
  return missing < 2 ? null : [...head, ...Array.from({ length: missing }, () => 0), ...tail];
}

/** The bytes of groups between colons; the last one may be in IPv4 notation. */
function parseGroups(text: string): readonly number[] | null {
  if (text === "") return [];
  const bytes: number[] = [];
  const groups = text.split(":");
  for (const [at, group] of groups.entries()) {
    const ipv4 = at === groups.length - 1 ? parseIpv4(group) : null;
    if (ipv4 !== null) bytes.push(...ipv4);
    else if (/^[0-9a-f]{1,4}$/i.test(group)) bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff);
    else return null;
  }
  return bytes;
}

function toNetwork(network: string, bits: number): Network {
  const bytes = parseIpAddress(network);
  if (bytes === null) throw new Error(`${network} is no address`);
  return { bytes, bits };
}
const ipv4Kinds = ipv4Networks.map(([network, bits, kind]) => ({ ...toNetwork(network, bits), kind }));
const ipv6Kinds = ipv6Networks.map(([network, bits, kind]) => ({ ...toNetwork(network, bits), kind }));
const ipv6Translations = translatedNetworks.map(([network, bits, offset]) => ({ ...toNetwork(network, bits), offset }));
