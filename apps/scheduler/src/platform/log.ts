// The scheduler's log: JSON lines on stderr, written at once, because the last line before a crash is the one that matters.

import pino from "pino";

export type Log = Pick<pino.Logger, "debug" | "info" | "warn" | "error" | "fatal">;

/** `maskPassword` sees every line before it leaves: what must not be read is taken out there, whoever wrote it. */
export function createLog(level: pino.LevelWithSilent, maskPassword: (line: string) => string = (line) => line): Log {
  return pino(
    { level, base: { app: "scheduler", pid: process.pid }, hooks: { streamWrite: maskPassword } },
    pino.destination({ dest: 2, sync: true }),
  );
}
