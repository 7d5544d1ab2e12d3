// What handlers print (`console.*`, `process.stdout`, `process.stderr`): found out whose it is, and given to the attempt that printed it.

import { AsyncLocalStorage } from "node:async_hooks";

export type OutputChannel = "stdout" | "stderr";

type OutputWriter = (channel: OutputChannel, text: string) => void;

const currentWriter = new AsyncLocalStorage<OutputWriter>();
let isCapturing = false;

/** Calls a handler; what it prints from now on, also later, goes to `write`. Costs nothing where nothing is captured. */
export function callWithOutput<T>(write: OutputWriter, call: () => T): T {
  return isCapturing ? currentWriter.run(write, call) : call();
}

/** From now on what this thread prints goes to whoever printed it. `others`: for the rest; absent: it is printed as before. */
export function captureOutput(others?: OutputWriter): void {
  isCapturing = true;
  for (const channel of ["stdout", "stderr"] as const) {
    const stream = process[channel];
    const print = stream.write.bind(stream);
    stream.write = ((chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      const write = currentWriter.getStore() ?? others;
      if (write === undefined) return print(chunk, ...(rest as []));
      write(channel, typeof chunk === "string" ? chunk : Buffer.from(chunk).toString());
      const done = rest.find((one) => typeof one === "function") as (() => void) | undefined;
      if (done !== undefined) queueMicrotask(done);
      return true;
    }) as typeof stream.write;
  }
}
