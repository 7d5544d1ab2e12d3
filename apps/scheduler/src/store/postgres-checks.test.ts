import { describe, expect, it } from "vitest";
import { checkServer, type ServerInspection } from "./postgres-checks.ts";

const healthy: ServerInspection = {
  version: "15.8 (Debian 15.8-0)",
  fsync: "on",
  fullPageWrites: "on",
  synchronousCommit: "on",
  isReplica: false,
  schema: 3,
  schemaKnown: 3,
  cluster: "default",
  clockMs: 1_000_000,
  ownClockMs: 1_000_010,
  tookMs: 4,
  replicas: [{ name: "east", epoch: 2, seenAt: 999_000 }],
};

const checkWith = (change: Partial<ServerInspection> = {}) => checkServer({ ...healthy, ...change }, "postgres://u@h/d");
const failedChecks = (change: Partial<ServerInspection>) =>
  checkWith(change)
    .filter((check) => !check.isGood)
    .map((check) => [check.name, check.advice]);

describe("the doctor's look at PostgreSQL", () => {
  it("[L13] the PostgreSQL checks of doctor find nothing wrong with a healthy server, and name its schedulers", () => {
    expect(failedChecks({})).toEqual([]);
    expect(checkWith().map((check) => check.found)).toEqual([
      "postgres://u@h/d: PostgreSQL 15.8 (Debian 15.8-0)",
      "fsync on, full_page_writes on, synchronous_commit on",
      "version 3, cluster default",
      "8 ms behind this machine, answers in 4 ms",
      "east (epoch 2, seen 1 s ago)",
    ]);
  });

  it("[L13] the PostgreSQL checks of doctor name each setting that breaks durability of commits, and its required value", () => {
    for (const [change, words] of [
      [{ fsync: "off" }, "fsync = on"],
      [{ fullPageWrites: "off" }, "full_page_writes = on"],
      [{ synchronousCommit: "off" }, "synchronous_commit = on"],
      [{ synchronousCommit: "local" }, "synchronous_commit = on"],
      [{ synchronousCommit: "remote_write" }, "synchronous_commit = on"],
    ] as const)
      expect(failedChecks(change)).toEqual([["postgres durability", expect.stringContaining(words)]]);
    expect(failedChecks({ synchronousCommit: "remote_apply" })).toEqual([]);
  });

  it("[L13] the PostgreSQL checks of doctor fail for a server that is too old, read-only, has a newer schema or a wrong clock", () => {
    expect(failedChecks({ version: "13.4" })).toEqual([["postgres", expect.stringContaining("14 or newer")]]);
    expect(failedChecks({ isReplica: true })).toEqual([["postgres", expect.stringContaining("primary server")]]);
    expect(failedChecks({ schema: 4 })).toEqual([["postgres schema", expect.stringContaining("up to 3")]]);
    expect(failedChecks({ clockMs: 990_000 })).toEqual([["postgres clock", expect.any(String)]]);
  });

  it("[L13] the PostgreSQL checks of doctor accept an empty database and one with an older schema", () => {
    expect(failedChecks({ schema: null, cluster: null, replicas: [] })).toEqual([]);
    expect(checkWith({ schema: 2 })[2]).toMatchObject({ isGood: true, advice: expect.stringContaining("brings it to 3") });
  });
});
