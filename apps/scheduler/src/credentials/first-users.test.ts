import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Log } from "../platform/log.ts";
import { createServiceEnvironment } from "../platform/service-environment.ts";
import { createFirstUsers, openBlobFolder } from "./first-users.ts";

const home = mkdtempSync(join(tmpdir(), "first-users-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

function openLog() {
  const lines: { event: string; fields: object }[] = [];
  const firstLine = Promise.withResolvers<void>();
  const note = (fields: object, event: string): void => {
    lines.push({ event, fields });
    firstLine.resolve();
  };
  return { lines, firstLine: firstLine.promise, log: { info: note, warn: note, error: note } as unknown as Log };
}

describe("the start of a scheduler", () => {
  it("[O69] a starting scheduler creates the first user of tenants without users, logs no password, and starts even if that fails", async () => {
    const { lines, log } = openLog();
    const asked: string[] = [];
    const users = {
      async createFirstUser(tenant: string) {
        asked.push(tenant);
        if (tenant === "broken") throw new Error("the store is away");
        return tenant === "new";
      },
    };
    const admins = ["new", "old", "broken"].map((tenant) => ({ tenant, password: "secret password" }));

    await createFirstUsers(users, admins, log);

    expect(asked).toEqual(["new", "old", "broken"]);
    expect(lines).toEqual([
      { event: "people.founded", fields: { audit: true, tenant: "new", username: "admin" } },
      { event: "people.unfounded", fields: { tenant: "broken", problem: "the store is away" } },
    ]);
  });

  it("[A109] a starting scheduler deletes old unfinished files from the blob folder", async () => {
    const { lines, firstLine, log } = openLog();
    const old = join(home, "blobs", "default", "a.b.unfinished");
    mkdirSync(join(home, "blobs", "default"), { recursive: true });
    writeFileSync(old, "x");
    utimesSync(old, 1, 1);

    openBlobFolder(join(home, "blobs"), createServiceEnvironment(log), log);
    await firstLine;

    expect([existsSync(old), lines[0]]).toEqual([
      false,
      { event: "blobs.tidied", fields: { folder: join(home, "blobs"), removed: 1 } },
    ]);
  });
});
