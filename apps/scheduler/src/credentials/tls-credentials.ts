// Reads, validates and reloads the TLS files and turns them into options for Node's servers, with the accepted protocol versions and ciphers.

import { constants, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions, type TlsOptions } from "node:tls";
import { errorMessage } from "@astraflow/protocol";
import type { Log } from "../platform/log.ts";
import type { TlsFilePaths } from "../settings/config.ts";

/** Files that were read and belong together. */
export interface ServerTlsCredentials {
  readonly cert: string;
  readonly key: string;
  readonly ca: string | null;
  /** Wall time in ms at which the server's certificate expires. */
  readonly expiresAt: number;
  /** Fingerprints of the client CAs. */
  readonly authorities: readonly string[];
}

/** The files cannot be used; the message says what to do. */
export class TlsFileError extends Error {}

export async function readTlsCredentials(paths: TlsFilePaths): Promise<ServerTlsCredentials> {
  const [cert, key, ca] = await Promise.all([
    readPemFile(paths.certFile, "--tls-cert"),
    readPemFile(paths.keyFile, "--tls-key"),
    paths.clientCaFile === null ? null : readPemFile(paths.clientCaFile, "--client-ca"),
  ]);
  const chain = parseCertificates(cert, `--tls-cert ${paths.certFile}`);
  const authorities = ca === null ? [] : parseCertificates(ca, `--client-ca ${paths.clientCaFile}`);
  const other = authorities.find((one) => !one.ca);
  if (other !== undefined)
    throw new TlsFileError(
      `--client-ca ${paths.clientCaFile} contains "${joinLines(other.subject)}", which is not a CA certificate; remove it.`,
    );
  const material = {
    cert,
    key,
    ca,
    expiresAt: Date.parse(chain[0]?.validTo ?? ""),
    authorities: authorities.map((one) => one.fingerprint256),
  };
  try {
    createSecureContext(secureContextOptions(material));
  } catch (cause) {
    // OpenSSL describes the form of a key and never quotes a part of it.
    throw new TlsFileError(
      `--tls-cert ${paths.certFile} and --tls-key ${paths.keyFile} cannot be used together (${errorMessage(cause)}); give a certificate chain and its own key, both PEM, the key without a passphrase.`,
      { cause },
    );
  }
  return material;
}

async function readPemFile(file: string, flag: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new TlsFileError(`${flag} cannot be read (${errorMessage(cause)}); correct the path.`, { cause });
  }
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

function parseCertificates(text: string, name: string): readonly X509Certificate[] {
  const blocks = text.match(certificatePattern) ?? [];
  if (blocks.length === 0) throw new TlsFileError(`${name} contains no PEM certificate.`);
  return blocks.map((block) => {
    try {
      return new X509Certificate(block);
    } catch (cause) {
      throw new TlsFileError(`${name} contains a damaged certificate; replace it.`, { cause });
    }
  });
}

const joinLines = (subject: string): string => subject.replaceAll("\n", ", ");

/** Of TLS 1.2 only authenticated ciphers with forward secrecy; TLS 1.3 has no others. */
const ciphers = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
].join(":");

/** The options that depend on the files. */
export function secureContextOptions({ cert, key, ca }: Pick<ServerTlsCredentials, "cert" | "key" | "ca">): SecureContextOptions {
  // A resumed TLS session does not present its certificate again, so with client certificates every connection makes a full handshake.
  const noTickets = ca === null ? 0 : constants.SSL_OP_NO_TICKET;
  return {
    cert,
    key,
    ...(ca !== null && { ca }),
    minVersion: "TLSv1.2",
    ciphers,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | noTickets,
  };
}

/** How long a TLS handshake may take. */
const tlsHandshakeTimeoutMs = 10_000;

/** The options of the server. A client certificate is requested, not required: REST callers have none, and workers get a reason when refused. */
export function tlsServerOptions(material: ServerTlsCredentials): TlsOptions {
  return {
    ...secureContextOptions(material),
    handshakeTimeout: tlsHandshakeTimeoutMs,
    requestCert: material.ca !== null,
    rejectUnauthorized: false,
  };
}

/** A certificate that expires within this time is logged, once. */
const warnBeforeMs = 7 * 86_400_000;

export interface TlsReloaderOptions {
  readonly first: ServerTlsCredentials;
  /** Throws a TlsFileError if the files cannot be used. */
  read(): Promise<ServerTlsCredentials>;
  readonly log: Log;
  readonly now: () => number;
  /** Uses these for new connections. */
  apply(material: ServerTlsCredentials): void;
  /** A CA that was trusted no longer is. */
  onAuthorityRemoved(): void;
}

/** Returns the function that reloads them: valid new ones are used for new connections, broken ones are logged and the old ones stay in use. */
export function createTlsReloader(options: TlsReloaderOptions): () => Promise<void> {
  const { read, log, now, apply, onAuthorityRemoved } = options;
  let used = options.first;
  let lastProblem = "";
  let lastAge = "";

  /** Logs each certificate once as expiring and once as expired. */
  const warnOfExpiry = (): void => {
    const event = used.expiresAt <= now() ? "tls.expired" : used.expiresAt - now() <= warnBeforeMs ? "tls.expiring" : "";
    const age = `${event} ${used.expiresAt}`;
    if (event !== "" && age !== lastAge)
      log[event === "tls.expired" ? "error" : "warn"]({ until: new Date(used.expiresAt).toISOString() }, event);
    lastAge = age;
  };
  const useFresh = (fresh: ServerTlsCredentials): void => {
    lastProblem = "";
    if (fresh.cert === used.cert && fresh.key === used.key && fresh.ca === used.ca) return;
    const lost = used.authorities.filter((one) => !fresh.authorities.includes(one));
    used = fresh;
    apply(fresh);
    log.info({ until: new Date(fresh.expiresAt).toISOString(), authorities: fresh.authorities.length }, "tls.changed");
    if (lost.length > 0) onAuthorityRemoved();
  };
  const keepUsed = (cause: unknown): void => {
    if (!(cause instanceof TlsFileError)) throw cause;
    if (cause.message !== lastProblem) log.error({ problem: cause.message }, "tls.kept");
    lastProblem = cause.message;
  };
  warnOfExpiry();
  return () => {
    warnOfExpiry();
    return read().then(useFresh, keepUsed);
  };
}
