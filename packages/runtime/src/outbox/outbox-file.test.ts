import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { OutboxDisk } from "./outbox-file.ts";
import { openOutboxFile } from "./outbox-file.ts";

const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function makeDir(): string {
  const root = mkdtempSync(path.join(tmpdir(), "outbox-"));
  endings.push(() => rm(root, { recursive: true, force: true }));
  return path.join(root, "data");
}

function openDisk(dir: string): OutboxDisk {
  const disk = openOutboxFile(dir, "outbox");
  endings.push(async () => disk.close?.());
  return disk;
}

const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());

describe("the outbox's file on a real disk", () => {
  it("[W79] the outbox file can be appended to, truncated, replaced and moved aside, and opens as it was left", async () => {
    const dir = makeDir();
    const disk = openDisk(dir);

    expect(await disk.read()).toBe(null);
    await disk.append(Buffer.from("abc"));
    await disk.append(Buffer.from("def"));
    await disk.sync();
    expect(text(await disk.read())).toBe("abcdef");
    await disk.truncate(4);
    await disk.append(Buffer.from("X"));
    expect(text(await disk.read())).toBe("abcdX");
    await disk.replace(Buffer.from("new"));
    await disk.append(Buffer.from("er"));
    await disk.close?.();
    const later = openDisk(dir);
    expect(text(await later.read())).toBe("newer");
    await later.setAside("damaged-1");

    expect(await later.read()).toBe(null);
    expect(readFileSync(path.join(dir, "outbox.damaged-1"), "utf8")).toBe("newer");
  });

  it("[W79] the outbox file is readable by its owner alone, and an unfinished replacement is deleted", async () => {
    const dir = makeDir();
    const disk = openDisk(dir);
    await disk.read();
    await disk.append(Buffer.from("abc"));
    writeFileSync(path.join(dir, "outbox.new"), "half");

    expect(text(await disk.read())).toBe("abc");
    expect(existsSync(path.join(dir, "outbox.new"))).toBe(false);
    expect(statSync(path.join(dir, "outbox")).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir).filter((name) => !name.includes(".lock"))).toEqual(["outbox"]);
  });

  it("[W79] the outbox file belongs to one process at a time, and to the next once the first has closed it", async () => {
    const dir = makeDir();
    const first = openDisk(dir);
    await first.read();
    const second = openDisk(dir);

    await expect(second.read()).rejects.toThrow("is in use by another worker");
    await first.close?.();

    expect(await second.read()).toBe(null);
  });
});
