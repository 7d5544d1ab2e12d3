/**
 * Loaded by vitest before every test file: notes which file and test its process works on, in a file named after the process. It is written
 * synchronously, so that the note of a test that loops for ever is there. test-watchdog.mjs reads the notes from outside.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect } from "vitest";
import type { ProgressNote } from "./test-watchdog.mjs";

const folder = process.env["ASTRA_TEST_PROGRESS"];

if (folder) {
  const file = expect.getState().testPath ?? "a file without a name";
  const fileSince = Date.now();
  const note = (title: string | null, isEnded = false) => {
    const text: ProgressNote = { file, fileSince, title, since: Date.now(), isEnded };
    writeFileSync(join(folder, `${process.pid}.json`), JSON.stringify(text));
  };
  note(null);
  beforeEach((context) => note(context.task.fullTestName));
  afterEach(() => note(null));
  // Hooks of this kind run in reverse order: after those of the file.
  afterAll(() => note(null, true));
}
