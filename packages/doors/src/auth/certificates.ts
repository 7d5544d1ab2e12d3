// Certificates of peers: what was shown on a TLS socket, and which worker its name stands for. Which authorities are trusted is set
// where the socket is opened; whether a certificate is demanded is asked in worker-credentials.ts.

import { createHash, type X509Certificate } from "node:crypto";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { limits, readJson } from "@astraflow/protocol";
import type { PeerCertificate } from "./worker-authenticator.ts";

/** Null where the socket is plain, none was asked for, or the peer has shown none. */
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
  if (!socket.authorized) return `it is not trusted (${describeError(socket.authorizationError)})`;
  // Who holds such a key could make certificates for everybody: it is no worker's.
  if (certificate.ca) return "it is the certificate of an authority, not of a worker";
  return Number.isNaN(Date.parse(certificate.validTo)) ? "its dates cannot be read" : null;
}

// The types say Error; what Node puts there is the name of OpenSSL's verdict.
const describeError = (problem: unknown): string =>
  problem instanceof Error ? problem.message : String(problem ?? "unverified");

/** URI names out of OpenSSL's list of names. One that holds a comma or a quote is written as a JSON text, so that it cannot pose as several. */
export function parseUriNames(names: string): readonly string[] {
  const pattern = /\s*([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:,|$)/gy;
  const uris: string[] = [];
  for (let end = 0; end < names.length; end = pattern.lastIndex) {
    const match = pattern.exec(names);
    // A list that cannot be read whole names nobody.
    if (match === null) return [];
    const [, kind = "", text = ""] = match;
    const uri = text.startsWith('"') ? readJson(text, limits.json.unauthenticated) : text;
    if (typeof uri !== "string") return [];
    if (kind.trim() === "URI") uris.push(uri);
  }
  return uris;
}

/** Who a certificate may speak for. */
export interface CertificateSubject {
  readonly tenant: string;
  /** Null: any worker of the tenant. */
  readonly instance: string | null;
}

/** `spiffe://<trust domain>/tenant/<tenant>[/worker/<instance>]`, and it is the only URI name; otherwise why not. Nothing is unescaped. */
export function parseCertificateSubject(
  { uris }: Pick<PeerCertificate, "uris">,
  trustDomain: string,
): CertificateSubject | string {
  const [uri, ...more] = uris;
  if (uri === undefined || more.length > 0) return `it must hold exactly one URI name, not ${uris.length}`;
  const start = `spiffe://${trustDomain}/`;
  if (!uri.startsWith(start)) return "it is of another trust domain";
  const match = /^tenant\/([A-Za-z0-9._-]+)(?:\/worker\/([A-Za-z0-9._-]+))?$/.exec(uri.slice(start.length));
  if (match === null) return "its URI name is not /tenant/<tenant> or /tenant/<tenant>/worker/<instance>";
  return { tenant: match[1] ?? "", instance: match[2] ?? null };
}
