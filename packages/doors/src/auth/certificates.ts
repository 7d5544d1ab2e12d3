// Client certificates: reads them from a TLS socket, and finds the worker that their name stands for.

import { createHash, type X509Certificate } from "node:crypto";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { errorMessage, limits, readJson } from "@astraflow/protocol";

export interface PeerCertificate {
  /** base64url of the SHA-256 of its DER form. */
  readonly thumbprint: string;
  /** Why it is not trusted; null where the chain, the dates and the purpose are in order. */
  readonly problem: string | null;
  /** URI names of its subject (SPIFFE ids). */
  readonly uris: readonly string[];
  /** Wall time in ms. */
  readonly expiresAt: number;
}

/** Null where the socket is plain or the peer has sent no certificate. */
export function readPeerCertificate(socket: Duplex): PeerCertificate | null {
  if (!(socket instanceof TLSSocket)) return null;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return null;
  return {
    thumbprint: createHash("sha256").update(certificate.raw).digest("base64url"),
    problem: certificateProblem(certificate, socket),
    uris: parseUriNames(certificate.subjectAltName ?? ""),
    expiresAt: Date.parse(certificate.validTo),
  };
}

function certificateProblem(certificate: X509Certificate, socket: TLSSocket): string | null {
  // Typed as Error, but Node puts the name of OpenSSL's verdict there.
  if (!socket.authorized) return `it is not trusted (${errorMessage(socket.authorizationError ?? "unverified")})`;
  // The holder of such a key could make certificates for every worker.
  if (certificate.ca) return "it is a CA certificate, not a worker certificate";
  return Number.isNaN(Date.parse(certificate.validTo)) ? "its dates cannot be read" : null;
}

/** The URIs in OpenSSL's list of names. A name with a comma or a quote is a JSON text there, so that it cannot pose as several. */
export function parseUriNames(names: string): readonly string[] {
  const pattern = /\s*([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:,|$)/gy;
  const uris: string[] = [];
  for (let end = 0; end < names.length; end = pattern.lastIndex) {
    const match = pattern.exec(names);
    // A list that cannot be read completely is not used at all.
    if (match === null) return [];
    const [, kind = "", text = ""] = match;
    const uri = text.startsWith('"') ? readJson(text, limits.json.unauthenticated) : text;
    if (typeof uri !== "string") return [];
    if (kind.trim() === "URI") uris.push(uri);
  }
  return uris;
}

/**
 * The worker that a certificate proves, or all workers of the tenant where the instance is null. The only URI name must be
 * `spiffe://<trust domain>/tenant/<tenant>[/worker/<instance>]`; otherwise says why not. Nothing is unescaped.
 */
export function parseCertificateSubject(
  { uris }: Pick<PeerCertificate, "uris">,
  trustDomain: string,
): { readonly tenant: string; readonly instance: string | null } | string {
  const [uri, ...more] = uris;
  if (uri === undefined || more.length > 0) return `it must hold exactly one URI name, not ${uris.length}`;
  const start = `spiffe://${trustDomain}/`;
  if (!uri.startsWith(start)) return "it belongs to another trust domain";
  const match = /^tenant\/([A-Za-z0-9._-]+)(?:\/worker\/([A-Za-z0-9._-]+))?$/.exec(uri.slice(start.length));
  if (match === null) return "its URI name is not /tenant/<tenant> or /tenant/<tenant>/worker/<instance>";
  return { tenant: match[1] ?? "", instance: match[2] ?? null };
}
