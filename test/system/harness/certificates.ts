// Certificates for tests, made with the openssl program in a folder of the test: authorities, and what they sign. No test lives here.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTemporaryFolder } from "./processes.ts";

/** A certificate and its key, as files and as texts. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

export interface CertificateOptions {
  /** As openssl writes them: `URI:spiffe://…`, `IP:127.0.0.1`. */
  readonly names: readonly string[];
  readonly isAuthority?: boolean;
  /** Ended yesterday. */
  readonly isExpired?: boolean;
  readonly use?: "clientAuth" | "serverAuth";
}

export interface CertificateAuthority extends CertificateFiles {
  sign(name: string, options: CertificateOptions): CertificateFiles;
}

export const loopbackNames = ["IP:127.0.0.1", "DNS:localhost"];

function runOpenssl(args: readonly string[]): void {
  try {
    execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      throw new Error("these tests make certificates with the openssl program; install it (Debian: apt-get install openssl)", {
        cause,
      });
    throw cause;
  }
}

const newKeyArguments = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

export function makeAuthority(name = "authority"): CertificateAuthority {
  const pair = makeSelfSigned(name, { names: [], isAuthority: true });
  return { ...pair, sign: (of, options) => signCertificate(pair, of, options) };
}

/** Signed by nobody but itself. */
export function makeSelfSigned(name: string, { names, isAuthority = false }: CertificateOptions): CertificateFiles {
  const at = certificatePaths(name);
  const more = names.length === 0 ? [] : ["-addext", `subjectAltName=${names.join(",")}`];
  const basic = ["-addext", `basicConstraints=critical,CA:${isAuthority ? "TRUE" : "FALSE"}`];
  runOpenssl([
    "req",
    "-x509",
    ...newKeyArguments,
    "-keyout",
    at.keyFile,
    "-out",
    at.certFile,
    "-days",
    "2",
    "-subj",
    `/CN=${name}`,
    ...basic,
    ...more,
  ]);
  return readCertificateFiles(at);
}

function signCertificate(authority: CertificateFiles, name: string, options: CertificateOptions): CertificateFiles {
  const at = certificatePaths(name);
  const request = join(at.folder, "request.pem");
  runOpenssl(["req", ...newKeyArguments, "-keyout", at.keyFile, "-out", request, "-subj", `/CN=${name}`]);
  const lines = [
    `basicConstraints=critical,CA:${options.isAuthority === true ? "TRUE" : "FALSE"}`,
    ...(options.names.length === 0 ? [] : [`subjectAltName=${options.names.join(",")}`]),
    ...(options.use === undefined ? [] : [`extendedKeyUsage=${options.use}`]),
  ];
  const extensions = join(at.folder, "extensions.txt");
  writeFileSync(extensions, `${lines.join("\n")}\n`);
  const serial = String(Date.now() * 1_000 + signed++);
  const by = ["-CA", authority.certFile, "-CAkey", authority.keyFile, "-set_serial", serial, "-extfile", extensions];
  runOpenssl(["x509", "-req", "-in", request, "-out", at.certFile, "-days", options.isExpired === true ? "-1" : "2", ...by]);
  return readCertificateFiles(at);
}

let signed = 0;

function certificatePaths(name: string): { folder: string; certFile: string; keyFile: string } {
  const folder = makeTemporaryFolder();
  return { folder, certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) };
}

function readCertificateFiles({ certFile, keyFile }: { certFile: string; keyFile: string }): CertificateFiles {
  return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}
