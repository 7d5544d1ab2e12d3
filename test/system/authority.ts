// Certificates for tests, made with the openssl program in a folder of the test: authorities, and what they sign. No test lives here.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "./processes.ts";

/** A certificate and its key, as files and as texts. */
export interface Pair {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

export interface Wish {
  /** As openssl writes them: `URI:spiffe://…`, `IP:127.0.0.1`. */
  readonly names: readonly string[];
  readonly isAuthority?: boolean;
  /** Ended yesterday. */
  readonly isOver?: boolean;
  readonly use?: "clientAuth" | "serverAuth";
}

export interface Authority extends Pair {
  sign(name: string, wish: Wish): Pair;
}

export const loopbackNames = ["IP:127.0.0.1", "DNS:localhost"];

function openssl(words: readonly string[]): void {
  try {
    execFileSync("openssl", words, { stdio: ["ignore", "ignore", "pipe"] });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      throw new Error("these tests make certificates with the openssl program; install it (Debian: apt-get install openssl)", {
        cause,
      });
    throw cause;
  }
}

const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

export function makeAuthority(name = "authority"): Authority {
  const pair = makeOwn(name, { names: [], isAuthority: true });
  return { ...pair, sign: (of, wish) => signWith(pair, of, wish) };
}

/** Signed by nobody but itself. */
export function makeOwn(name: string, { names, isAuthority = false }: Wish): Pair {
  const at = placeOf(name);
  const more = names.length === 0 ? [] : ["-addext", `subjectAltName=${names.join(",")}`];
  const basic = ["-addext", `basicConstraints=critical,CA:${isAuthority ? "TRUE" : "FALSE"}`];
  openssl([
    "req",
    "-x509",
    ...curve,
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
  return read(at);
}

function signWith(authority: Pair, name: string, wish: Wish): Pair {
  const at = placeOf(name);
  const request = join(at.folder, "request.pem");
  openssl(["req", ...curve, "-keyout", at.keyFile, "-out", request, "-subj", `/CN=${name}`]);
  const lines = [
    `basicConstraints=critical,CA:${wish.isAuthority === true ? "TRUE" : "FALSE"}`,
    ...(wish.names.length === 0 ? [] : [`subjectAltName=${wish.names.join(",")}`]),
    ...(wish.use === undefined ? [] : [`extendedKeyUsage=${wish.use}`]),
  ];
  const extensions = join(at.folder, "extensions.txt");
  writeFileSync(extensions, `${lines.join("\n")}\n`);
  const serial = String(Date.now() * 1_000 + signed++);
  const by = ["-CA", authority.certFile, "-CAkey", authority.keyFile, "-set_serial", serial, "-extfile", extensions];
  openssl(["x509", "-req", "-in", request, "-out", at.certFile, "-days", wish.isOver === true ? "-1" : "2", ...by]);
  return read(at);
}

let signed = 0;

function placeOf(name: string): { folder: string; certFile: string; keyFile: string } {
  const folder = makeFolder();
  return { folder, certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) };
}

function read({ certFile, keyFile }: { certFile: string; keyFile: string }): Pair {
  return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}
