// The example packages as archives: each is what `astra packages build` makes of its folder.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makeTemporaryFolder, repositoryRoot, runAstra } from "../harness/processes.ts";

const examples = join(repositoryRoot, "examples/packages");
/** A worker that installs packages keeps its notes beside them, in `.state`. */
const listNames = (folder: string): string[] => readdirSync(folder).filter((name) => !name.startsWith("."));
const folders = listNames(examples).flatMap((name) => listNames(join(examples, name)).map((version) => [name, version] as const));

describe("the example packages", () => {
  it.each(folders)(
    "[W1425] %s %s is built as the same archive twice, and passes the check of archives",
    async (name, version) => {
      const out = makeTemporaryFolder();
      const [first, second] = [join(out, "first.cwx"), join(out, "second.cwx")];

      for (const file of [first, second]) {
        const built = await runAstra(["packages", "build", join(examples, name, version), "--out", file]);
        expect(built).toMatchObject({ code: 0 });
      }
      const verified = await runAstra(["packages", "verify", first, "--json"]);

      expect(readFileSync(first).equals(readFileSync(second))).toBe(true);
      expect(verified.code).toBe(0);
      expect(JSON.parse(verified.stdout)).toMatchObject({ name, version });
    },
  );
});
