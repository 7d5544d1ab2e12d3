// The entry point of the CLI: connects the real process to the program. Called by `bin/astra.mjs`.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { PromptUser } from "./api/confirmation.ts";
import { runProgram } from "./command-line/program.ts";
import { isAppName, loadAppCommand } from "./local/app-loader.ts";
import { exitCodes } from "./output/cli-failure.ts";
import type { ListenForKeys } from "./output/terminal.ts";

/** Commands that handle signals themselves. */
const commandsHandlingSignals: readonly string[] = ["up", "bench", "packages dev"];
/** Commands that end at the first signal by themselves, with what they have to say or to remove; a second one ends them at once. */
const commandsEndingGently: readonly string[] = ["run", "runs watch", "packages build", "packages publish"];

/** Runs one command line in this process and returns its exit code. */
export async function runCli(argv: readonly string[]): Promise<number> {
  const [first, ...rest] = argv;
  // The scheduler and the worker handle their own arguments, --help and signals.
  if (isAppName(first)) return (await loadAppCommand(first)).run(rest, process.env);
  const [helpTopic] = rest;
  if (first === "help" && isAppName(helpTopic)) return (await loadAppCommand(helpTopic)).run(["--help"], process.env);
  const stopController = new AbortController();
  const forceStopController = new AbortController();
  const stop = () => {
    const isSecond = stopController.signal.aborted;
    stopController.abort();
    if (isSecond) forceStopController.abort();
    const isAnyOf = (commands: readonly string[]): boolean =>
      commands.includes(first ?? "") || commands.includes(`${first} ${rest[0]}`);
    const isGentle = isAnyOf(commandsEndingGently) || (first === "packages" && rest.includes("--wait"));
    // Other commands end at once.
    if (!(isGentle || isAnyOf(commandsHandlingSignals)) || (isSecond && isGentle)) process.exit(exitCodes.interrupted);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  // A reader that closes the pipe early (`astra runs list | head`) is no error.
  process.stdout.on("error", (cause: NodeJS.ErrnoException) => process.exit(cause.code === "EPIPE" ? 0 : 1));
  return runProgram(argv, {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    stopSignal: stopController.signal,
    forceStopSignal: forceStopController.signal,
    promptUser: process.stdin.isTTY && process.stderr.isTTY ? promptOnTerminal : null,
    openBrowser,
    ...(process.stdin.isTTY && { listenForKeys }),
  });
}

/** Asks on stderr, because stdout carries only data. Without raw mode, so that Ctrl+C still works. */
const promptOnTerminal: NonNullable<PromptUser> = async (question) => {
  const reader = createInterface({ input: process.stdin, terminal: false });
  process.stderr.write(question);
  try {
    return await new Promise<string>((resolve) => {
      reader.once("line", resolve);
      reader.once("close", () => resolve(""));
    });
  } finally {
    reader.close();
  }
};

/** Reads single keys. In raw mode ^C and ^Z arrive as keys, so the signals are sent to the process group here. */
const listenForKeys: ListenForKeys = (onKey) => {
  const { stdin } = process;
  const read = (bytes: Buffer): void => {
    for (const key of bytes.toString()) {
      if (key === "\u0003") process.kill(0, "SIGINT");
      else if (key === "\u001a") {
        stdin.setRawMode(false);
        process.kill(0, "SIGTSTP");
      } else onKey(key);
    }
  };
  const resumeRawMode = (): void => void stdin.setRawMode(true);
  process.on("SIGCONT", resumeRawMode);
  stdin.setRawMode(true).on("data", read).resume();
  return () => {
    process.off("SIGCONT", resumeRawMode);
    stdin.off("data", read).setRawMode(false).pause();
  };
};

/** Runs BROWSER, or on a terminal the browser of the desktop. */
async function openBrowser(url: string): Promise<boolean> {
  const program = process.env["BROWSER"] ?? (process.stdout.isTTY ? "xdg-open" : undefined);
  if (program === undefined || program === "") return false;
  return new Promise((resolve) => {
    const child = spawn(program, [url], { stdio: "ignore", detached: true });
    child.once("error", () => resolve(false));
    child.once("spawn", () => {
      child.unref();
      resolve(true);
    });
  });
}
