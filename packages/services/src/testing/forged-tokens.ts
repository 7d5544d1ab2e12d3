// User tokens as an attacker invents them: no scheduler has issued any of them.

import { createHmac } from "node:crypto";

const encodePart = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Many forged tokens; with `issued` also changed ones of a token that is valid. */
export function forgeUserTokens(issued?: string, count = 20): readonly string[] {
  const exp = 4_000_000_000;
  const claims = { iss: "astraflow", sub: "u", username: "u", displayName: "U", roles: ["admin"], jti: "j", gen: 1, iat: 1, exp };
  const forge = (head: object, body: object): string => {
    const text = `${encodePart(head)}.${encodePart(body)}`;
    return `${text}.${createHmac("sha256", "a guess").update(text).digest("base64url")}`;
  };
  const head = { alg: "HS256", typ: "JWT" };
  const invented = Array.from({ length: count }, (_, n) => [
    forge({ ...head, kid: `key-${n}` }, { ...claims, tenant: `tenant-${n}` }),
    forge({ ...head, kid: `key-${n}.0123456789012345678901` }, { ...claims, tenant: "default" }),
  ]).flat();
  const malformed = ["a.b.c", "..", `${"x".repeat(400)}.${"y".repeat(5_000)}.${"z".repeat(43)}`, "\u00e9".repeat(10), " "];
  return [...invented, ...malformed, ...(issued === undefined ? [] : changeToken(issued))];
}

/** The head of a valid token, whose key is known, under other claims; another tenant under its key; another signature. */
function changeToken(token: string): readonly string[] {
  const [head = "", body = "", signature = ""] = token.split(".");
  const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as object;
  const otherSignature = `${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
  return [
    `${head}.${encodePart({ ...claims, sub: "somebody-else" })}.${signature}`,
    `${head}.${encodePart({ ...claims, tenant: "another" })}.${signature}`,
    `${head}.${encodePart({ ...claims, exp: 1 })}.${signature}`,
    `${head}.${body}.${otherSignature}`,
    `${head}.${body}`,
    `${encodePart({ alg: "none", typ: "JWT" })}.${body}.${signature}`,
  ];
}
