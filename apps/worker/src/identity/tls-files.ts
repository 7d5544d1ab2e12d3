// The worker's certificates, read from their files at each dial: one that was replaced is used from the next connection on.

import { readFileSync } from "node:fs";
import { errorMessage } from "@astraflow/protocol";
import type { TlsCredentials } from "@astraflow/runtime";

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
