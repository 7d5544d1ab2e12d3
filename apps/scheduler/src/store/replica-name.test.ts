import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { loadOrCreateReplicaName } from "./replica-name.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "astra-name-"));
  folders.push(folder);
  return folder;
}

it("[O22] a scheduler keeps its first replica name even if the host is renamed, and each data folder has its own", () => {
  const one = join(makeFolder(), "not", "there", "yet");
  const two = makeFolder();

  const first = loadOrCreateReplicaName(one, "rack-7.example");

  expect(first).toMatch(/^rack-7\.example-[0-9a-f]{8}$/);
  expect(loadOrCreateReplicaName(one, "renamed")).toBe(first);
  expect(loadOrCreateReplicaName(two, "rack-7.example")).not.toBe(first);
  expect(readFileSync(join(one, "replica_name"), "utf8")).toBe(`${first}\n`);
});

it("[O22] the replica name is valid whatever the host name is", () => {
  for (const host of ["", "--", "größe 1", "x".repeat(200)])
    expect(loadOrCreateReplicaName(makeFolder(), host)).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/);
});

it("[O22] a folder that cannot store the replica name, and a file without a valid one, are refused with what to do", () => {
  const folder = makeFolder();
  writeFileSync(join(folder, "replica_name"), "two words\n");
  writeFileSync(join(folder, "file"), "");

  expect(() => loadOrCreateReplicaName(folder, "h")).toThrow("contains no name; delete it to get a new one");
  expect(() => loadOrCreateReplicaName(join(folder, "file", "below"), "h")).toThrow("name this scheduler with --replica");
});
