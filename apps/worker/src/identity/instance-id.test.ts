import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Fault } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { instanceIdFile, loadOrCreateInstanceId } from "./instance-id.ts";

const roots: string[] = [];
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true });
});

function makeRoot(): string {
  const root = mkdtempSync(path.join(tmpdir(), "identity-"));
  roots.push(root);
  return root;
}

describe("identity of the worker", () => {
  it("[W62] the worker's instance id is created once, stored in the data directory, and stays the same", () => {
    const dir = path.join(makeRoot(), "deep", "var");

    const made = loadOrCreateInstanceId(dir);

    expect(made).toMatch(/^[0-9a-f-]{36}$/);
    expect(loadOrCreateInstanceId(dir)).toBe(made);
    expect(readFileSync(path.join(dir, instanceIdFile), "utf8")).toBe(`${String(made)}\n`);
    expect(readdirSync(dir)).toEqual([instanceIdFile]);
  });

  it("[W62] an instance id stored by an older worker is used as it is", () => {
    const dir = makeRoot();
    writeFileSync(path.join(dir, instanceIdFile), "6b0e-c1\n");

    expect(loadOrCreateInstanceId(dir)).toBe("6b0e-c1");
  });

  it("[W62] a damaged instance id file is reported by path and never replaced", () => {
    const dir = makeRoot();
    for (const damaged of ["", "two\nlines", "a".repeat(200), "../x"]) {
      writeFileSync(path.join(dir, instanceIdFile), damaged);

      const problem = loadOrCreateInstanceId(dir);

      expect(problem).toBeInstanceOf(Fault);
      expect(String((problem as Fault).message)).toContain(path.join(dir, instanceIdFile));
      expect(readFileSync(path.join(dir, instanceIdFile), "utf8")).toBe(damaged);
    }
  });

  it("[W62] the instance id error names the data directory that cannot be used", () => {
    const file = path.join(makeRoot(), "file");
    writeFileSync(file, "");

    const problem = loadOrCreateInstanceId(path.join(file, "var"));

    expect((problem as Fault).message).toContain(`the data directory ${path.join(file, "var")} cannot be used`);
    expect(existsSync(path.join(file, "var"))).toBe(false);
  });
});
