// The note that a running `astra up` leaves in its data folder, so that a second one can say where the first one is.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isRecord } from "@astraflow/protocol";

export interface RunningInstallation {
  /** Of `astra up`: SIGTERM stops all of it. */
  readonly pid: number;
  readonly http: string;
}

const answerMsMax = 3_000;

const noteFile = (dataDir: string): string => join(dataDir, "up.json");

export function noteInstallation(dataDir: string, installation: RunningInstallation): void {
  const file = noteFile(dataDir);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(installation)}\n`, { mode: 0o600 });
}

/** Leaves the note of another process alone. */
export function removeNote(dataDir: string, pid: number): void {
  if (readNote(dataDir)?.pid === pid) rmSync(noteFile(dataDir), { force: true });
}

/** Null where there is none, or only the note of one that was killed: it counts only if its process lives and its address answers. */
export async function findRunningInstallation(dataDir: string): Promise<RunningInstallation | null> {
  const note = readNote(dataDir);
  return note !== null && isAlive(note.pid) && (await isAnswering(note.http)) ? note : null;
}

function readNote(dataDir: string): RunningInstallation | null {
  let note: unknown;
  try {
    note = JSON.parse(readFileSync(noteFile(dataDir), "utf8"));
  } catch {
    // No file, or half of one: nobody has said that it runs here.
    return null;
  }
  const { pid, http } = isRecord(note) ? note : {};
  return typeof pid === "number" && Number.isInteger(pid) && pid > 0 && typeof http === "string" ? { pid, http } : null;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    // It belongs to another user.
    return (cause as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function isAnswering(http: string): Promise<boolean> {
  return fetch(`${http}/healthz`, { signal: AbortSignal.timeout(answerMsMax) }).then(
    (response) => response.ok,
    () => false,
  );
}
