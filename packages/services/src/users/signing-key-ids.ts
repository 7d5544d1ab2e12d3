// Ids of the keys that sign user tokens. Each carries a code that only this installation can compute, so an invented id is recognised without
// asking the store for its key.

import { createHmac, timingSafeEqual } from "node:crypto";

/** Of the code's bits 128 are kept. */
const codeChars = 22;

export const createSigningKeyId = (tenant: string, name: string, secret: Uint8Array): string =>
  `${name}.${codeOf(tenant, name, secret)}`;

export function isSigningKeyId(tenant: string, kid: string, secret: Uint8Array): boolean {
  const end = kid.lastIndexOf(".");
  const received = Buffer.from(kid.slice(end + 1), "utf8");
  const expected = Buffer.from(codeOf(tenant, kid.slice(0, Math.max(end, 0)), secret), "latin1");
  return end > 0 && received.length === expected.length && timingSafeEqual(received, expected);
}

const codeOf = (tenant: string, name: string, secret: Uint8Array): string =>
  createHmac("sha256", secret)
    .update(JSON.stringify([tenant, name]))
    .digest("base64url")
    .slice(0, codeChars);
