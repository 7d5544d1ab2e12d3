// Detects that the store's file was deleted or replaced while the scheduler runs. SQLite would keep writing into a file without a name, and
// everything accepted from then on would be lost, so the scheduler stops instead.

import { stat } from "node:fs/promises";

const checkMs = 1_000;

export interface StoreFileWatch {
  /** Resolves when the file is no longer the one that was opened. */
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
      gone.resolve(new Error(`the store ${file} ${why} while it was in use; put it back, or restart with the present file`));
  };
  const timer = setInterval(() => void checkFile(), checkMs);
  return { gone: gone.promise, stop: () => clearInterval(timer) };
}
