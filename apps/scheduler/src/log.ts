// The scheduler's log: JSON lines on stderr, written at once, because the last line before a crash is the one that matters.

import pino from "pino";
import type { LogLevel } from "./setting-table.ts";

export type Log = Pick<pino.Logger, "debug" | "info" | "warn" | "error" | "fatal">;

export function createLog(level: LogLevel): Log {
  return pino({ level, base: { app: "scheduler", pid: process.pid } }, pino.destination({ dest: 2, sync: true }));
}
