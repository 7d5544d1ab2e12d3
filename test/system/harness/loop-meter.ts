// Measures how long what a test sends holds the threads of a scheduler, in pieces of reference work, so that a busy machine changes nothing.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { longestHold, measureReference, readLoopHolds } from "../../../bench/harness/loop-holds.ts";
import { startScheduler, type TestScheduler } from "./installation.ts";
import { makeTemporaryFolder, pollUntil, waitMsMax } from "./processes.ts";

interface Measured {
  readonly item: string;
  readonly thread: string;
  readonly holds: number;
}

/** Sends one thing after the other and notes the longest hold of each thread in references. */
export function createMeter({ http }: TestScheduler) {
  const measured: Measured[] = [];
  return {
    measured,
    async measure(item: string, work: () => Promise<unknown>): Promise<void> {
      const before = await readLoopHolds(http);
      const referenceBefore = measureReference();
      await work();
      const done = await readLoopHolds(http);
      // The engine's thread reports from time to time; the report must be younger than the answer.
      const after = await pollUntil("a later report of the engine's thread", async () => {
        const now = await readLoopHolds(http);
        return now.engineTicks > done.engineTicks ? now : null;
      });
      const reference = Math.max(referenceBefore, measureReference());
      for (const thread of ["doors", "engine"])
        measured.push({ item, thread, holds: longestHold(before, after, thread) / reference });
    },
  };
}

export async function startWithTokens() {
  const folder = makeTemporaryFolder();
  const tokens = { reader: "reader-0123456789abcdef", editor: "editor-0123456789abcdef" };
  for (const [name, secret] of Object.entries(tokens)) writeFileSync(join(folder, name), secret, { mode: 0o600 });
  const flags = [
    "--token",
    `reader:read=@${join(folder, "reader")}`,
    "--token",
    `editor:view+read+edit+operate=@${join(folder, "editor")}`,
  ];
  const scheduler = await startScheduler({ flags });
  const send =
    (token: string) =>
    async (method: string, path: string, body?: string, headers: object = {}) => {
      const response = await fetch(`${scheduler.http}/api/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
        signal: AbortSignal.timeout(waitMsMax),
        ...(body !== undefined && { body }),
      });
      return { status: response.status, text: await response.text() };
    };
  return { scheduler, tokens, asReader: send(tokens.reader), asEditor: send(tokens.editor) };
}
