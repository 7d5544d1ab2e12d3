import type { LinkLogEvent } from "@astraflow/runtime";
import { expect, it } from "vitest";
import { LogLevelPolicy } from "./log-level.ts";

function levelAfter(from: string, note: Partial<LinkLogEvent>): string {
  const levels = new LogLevelPolicy();
  levels.levelOf({ level: "debug", event: "phase", message: "", details: { from, to: "BACKOFF", move: "lose" } });
  return levels.levelOf({ level: "warn", event: "reset", message: "", details: { code: "E.SESSION.UNKNOWN" }, ...note });
}

it("[W10] the fresh session that ends a drain is news, not a warning; every other reset is one", () => {
  expect(levelAfter("DRAINING", {})).toBe("info");
  expect(levelAfter("READY", {})).toBe("warn");
  expect(levelAfter("DRAINING", { details: { code: "E.SESSION.SUPERSEDED" } })).toBe("warn");
  expect(levelAfter("DRAINING", { event: "lost" })).toBe("warn");
});
