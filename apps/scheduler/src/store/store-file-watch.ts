// Notices that the store's file was deleted or replaced under a running scheduler. SQLite would go on writing into a file that has no
// name any more, and everything accepted from then on would be gone with the process: better to stop and say so.

import { stat } from "node:fs/promises";

const checkMs = 1_000;

export interface StoreFileWatch {
  /** Settles only when the file is no longer the one that was opened. */
  readonly gone: Promise<Error>;
  stop(): void;
}

export async function watchStoreFile(file: string): Promise<StoreFileWatch> {
  const first = await stat(file);
  const gone = Promise.withResolvers<Error>();
  const checkFile = async () => {
    const why = await stat(file).then(
      (now) => (now.ino === first.ino && now.dev === first.dev ? null : "was replaced by another file"),
      (cause: NodeJS.ErrnoException) => (cause.code === "ENOENT" || cause.code === "ENOTDIR" ? "was deleted" : null),
    );
    if (why !== null)
      gone.resolve(new Error(`the store ${file} ${why} while it was in use; put it back, or start again with what is there now`));
  };
  const timer = setInterval(() => void checkFile(), checkMs);
  return { gone: gone.promise, stop: () => clearInterval(timer) };
}
