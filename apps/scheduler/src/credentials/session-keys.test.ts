import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import type { Log } from "../platform/log.ts";
import { StartupError } from "../platform/startup-error.ts";
import { openSessionKeys } from "./credentials.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const hourMs = 3_600_000;

function createFixture() {
  const folder = mkdtempSync(join(tmpdir(), "astra-keys-"));
  folders.push(folder);
  const file = join(folder, "data", "session-keys.json");
  const time = { now: 1_760_000_000_000 };
  const events: string[] = [];
  const note = (_fields: unknown, event?: string) => void events.push(String(event));
  const log = { debug: note, info: note, warn: note, error: note, fatal: note } as Log;
  const open = () => openSessionKeys({ file, ageMs: 24 * hourMs, lifeMs: hourMs, now: () => time.now, log });
  return { folder, file, time, events, open };
}

it("[O34] session keys are created once, stored readable only by their owner, and loaded again after a restart", () => {
  const { file, open } = createFixture();

  const first = open().keys();

  expect(first).toHaveLength(1);
  expect(first[0]?.secret).toHaveLength(32);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(file, ".."))).toEqual(["session-keys.json"]);
  expect(open().keys()).toEqual(first);
});

it("[O34] a session key of full age gets a successor, and is deleted when its last token has expired", () => {
  const { file, time, open } = createFixture();
  const keys = open();
  const [old] = keys.keys();

  time.now += 24 * hourMs;
  keys.rotate();
  expect(keys.keys().map(({ kid }) => kid)).toEqual([old?.kid, expect.not.stringMatching(`^${old?.kid}$`)]);
  expect(open().keys()).toEqual(keys.keys());

  time.now += hourMs + 1;
  keys.rotate();
  expect(keys.keys()).toHaveLength(1);
  expect(readFileSync(file, "utf8")).not.toContain(String(old?.kid));
});

it("[O34] session keys that others could read, and a file without valid keys, are replaced and logged", () => {
  const { file, events, open } = createFixture();
  const [first] = open().keys();

  chmodSync(file, 0o644);
  writeFileSync(`${file}.new`, "left by a crash", { mode: 0o644 });
  const [second] = open().keys();
  expect(second?.kid).not.toBe(first?.kid);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const broken = ["{", "7", `{"keys":[{"kid":"k","secret":"c2hvcnQ","madeAt":0}]}`, `{"keys":[null]}`];
  const kids = broken.map((text) => {
    writeFileSync(file, text);
    return open().keys()[0]?.kid;
  });
  expect(new Set([...kids, second?.kid, first?.kid]).size).toBe(6);
  expect(events).toEqual(["session.keys.exposed", ...broken.map(() => "session.keys.unread")]);
});

it("[O34] a session key that could not be written is not used, and a scheduler that cannot store its keys does not start", () => {
  const { file, time, events, open } = createFixture();
  const keys = open();
  const before = keys.keys();
  rmSync(join(file, ".."), { recursive: true });
  writeFileSync(join(file, ".."), "a file where a folder should be");

  time.now += 24 * hourMs;
  keys.rotate();

  expect(keys.keys()).toBe(before);
  expect(events).toContain("session.keys.unwritten");
  expect(open).toThrow(StartupError);
  rmSync(join(file, ".."));
  mkdirSync(join(file, ".."));
  keys.rotate();
  expect(keys.keys()).toHaveLength(2);
});
