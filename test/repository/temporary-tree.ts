/** Writes small trees of files for the tests of the checks; each tree is removed after its test. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** Writes the files (programs, which begin with `#!`, executable) into a new folder and returns it. */
export function writeTemporaryTree(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "astra-tree-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (text.startsWith("#!")) chmodSync(file, 0o755);
  }
  return root;
}
