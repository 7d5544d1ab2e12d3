// The worker's token and certificates, read from their files for each connection: one that was replaced is used from the next on, without
// a restart.

import { readFileSync } from "node:fs";
import { errorMessage } from "@astraflow/protocol";
import type { TlsCredentials, WorkerIdentity } from "@astraflow/runtime";
import { firstSecretLine } from "@astraflow/settings";

export interface TokenFileOptions {
  readonly auth: WorkerIdentity["auth"];
  /** Null: the token did not come from a file, and stays as it is. */
  readonly file: string | null;
  /** Throws where the file cannot be read. */
  readonly read: (file: string) => string;
  /** Called once when the file holds no secret and the last known one is used. */
  readonly warn: (message: string) => void;
}

export class TokenFile {
  readonly #options: TokenFileOptions;
  #auth: WorkerIdentity["auth"];
  #hasWarned = false;

  constructor(options: TokenFileOptions) {
    this.#options = options;
    this.#auth = options.auth;
  }

  /** The credentials of the next handshake. A missing or empty file may be in the middle of a rewrite: the last secret is tried again. */
  get auth(): WorkerIdentity["auth"] {
    const { file, read } = this.#options;
    if (file === null || this.#auth.mode !== "token") return this.#auth;
    try {
      const token = firstSecretLine(read(file));
      if (token === "") throw new Error("it is empty");
      this.#hasWarned = false;
      this.#auth = { ...this.#auth, token };
    } catch (cause) {
      if (!this.#hasWarned)
        this.#options.warn(`the token file ${file} cannot be used (${errorMessage(cause)}); the last known token is sent`);
      this.#hasWarned = true;
    }
    return this.#auth;
  }
}

/** Throws where a file cannot be read: the dial then fails with that reason and is tried again. */
export function readTlsFiles(files: TlsCredentials): TlsCredentials {
  return Object.fromEntries(
    Object.entries(files).map(([name, file]: [string, string]) => {
      try {
        return [name, readFileSync(file, "utf8")];
      } catch (thrown) {
        throw new Error(`the ${name} file for TLS cannot be read: ${errorMessage(thrown)}`, { cause: thrown });
      }
    }),
  );
}
