// Loaded into a worker process and its threads with `--import`: ends or holds the worker at a named step of the install of one version, as
// kill -9 or a slow disk would. `?at=STEP&version=VERSION` names the step, `&fifo=FILE` holds the installer's thread there until somebody
// writes to the file.

import fs, { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isMainThread, parentPort, workerData } from "node:worker_threads";

interface InstallData {
  readonly job?: { readonly request?: { readonly version?: string } };
}
interface JournalEntry {
  readonly command: { readonly payload: { readonly version?: string } };
  readonly starts: number;
  readonly outcome: object | null;
}

const parameters = new URL(import.meta.url).searchParams;
const [at, version, fifo] = [parameters.get("at"), parameters.get("version"), parameters.get("fifo")];

function reach(step: string): void {
  if (step !== at) return;
  if (fifo !== null) return void readFileSync(fifo);
  process.kill(process.pid, "SIGKILL");
  // The signal may take a moment; nothing of this thread may run meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

if (!isMainThread && parentPort !== null && (workerData as InstallData | null)?.job?.request?.version === version) {
  const post = parentPort.postMessage.bind(parentPort);
  parentPort.postMessage = (message: { readonly type?: string; readonly stage?: string }) => {
    post(message);
    if (message.type === "stage") reach(`before ${message.stage}`);
  };
}

/** What a rename means to the install; null: nothing. */
function nameRename(from: string, to: string): string | null {
  if (to.endsWith(`/packages/acme.tools/${version}`)) return "rename";
  if (!/\/commands\/[0-9a-f]+\.json$/.test(to)) return null;
  const { command, starts, outcome } = JSON.parse(readFileSync(from, "utf8")) as JournalEntry;
  if (command.payload.version !== version) return null;
  return `record of its ${outcome !== null ? "end" : starts > 0 ? "start" : "arrival"}`;
}

const rename = fs.promises.rename.bind(fs.promises);
fs.promises.rename = async (from, to) => {
  const step = nameRename(String(from), String(to));
  if (step !== null) reach(`before the ${step}`);
  await rename(from, to);
  if (step !== null) reach(`after the ${step}`);
};
syncBuiltinESMExports();
