// The worker's token in its file, read again for each handshake: a secret that was replaced is used from the next one on, without a
// restart. Which words of the command line name a file is decided in config.ts.

import type { WorkerIdentity } from "@astraflow/runtime";

/**
 * The file may be the scheduler's own, which holds several secrets, one a line, while one is being replaced: the first is the newest,
 * and what callers send.
 */
export function readFirstSecret(text: string): string {
  return (
    text
      .split("\n")
      .map((line) => line.trim())
      .find((line) => line !== "") ?? ""
  );
}

export interface TokenFileOptions {
  readonly auth: WorkerIdentity["auth"];
  /** Null: the token did not come from a file, and stays as it is. */
  readonly file: string | null;
  readonly read: (file: string) => string | Error;
  /** Says once why the last known secret is used although its file has none. */
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

  /** What to prove oneself with now. A file that is missing or empty may just be being written: the last secret is tried once more. */
  get auth(): WorkerIdentity["auth"] {
    const { file, read } = this.#options;
    if (file === null || this.#auth.mode !== "token") return this.#auth;
    const text = read(file);
    const token = text instanceof Error ? "" : readFirstSecret(text);
    if (token === "") this.#warnOnce(file, text instanceof Error ? text.message : "it is empty");
    else {
      this.#hasWarned = false;
      this.#auth = { ...this.#auth, token };
    }
    return this.#auth;
  }

  #warnOnce(file: string, why: string): void {
    if (!this.#hasWarned) this.#options.warn(`the token file ${file} cannot be used (${why}); the last known token is sent`);
    this.#hasWarned = true;
  }
}
