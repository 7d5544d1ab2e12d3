// The disk as the worker's outbox needs it: one append-only file in a folder. The real one is in outbox-file.ts; a simulator brings its own.
// What the bytes mean is outbox-journal.ts.

/** An append-only file and its folder. Every call may fail like a real disk (ENOSPC, EIO); calls are made one at a time. */
export interface OutboxDisk {
  /** The whole file, as it really is on the disk; null where there is none. Opens it anew. */
  read(): Promise<Uint8Array | null>;
  /** At the end of the file. What a failed append has written, if anything, is unknown. */
  append(bytes: Uint8Array): Promise<void>;
  /** Resolves once everything appended so far survives a power cut. After a failure nothing is known about any of it. */
  sync(): Promise<void>;
  /** Cuts the file to its first bytes. */
  truncate(bytes: number): Promise<void>;
  /** The whole file is replaced, or stays as it was; survives a power cut once resolved. */
  replace(bytes: Uint8Array): Promise<void>;
  /** Renames the file, so that a new one can begin and a person can look at the old one. */
  setAside(suffix: string): Promise<void>;
  /** Lets go of the file; no call follows. */
  close?(): Promise<void>;
}
