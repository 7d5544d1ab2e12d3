// `astra packages dev`: a worker that runs one package from its author's folder, and loads it again at every save.

import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { isRecord } from "@astraflow/protocol";
import { resolveApiEndpoint } from "../api/api-endpoint.ts";
import type { CommandContext, TextInput } from "../api/command-context.ts";
import { AppProcess } from "../local/app-process.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

type DevContext = Pick<CommandContext, "terminal" | "json"> & {
  readonly env: NodeJS.ProcessEnv;
  readonly stopSignal: AbortSignal;
  readonly forceStopSignal: AbortSignal;
};
type DevInput = TextInput<"folder", "name" | "url" | "token" | "ca">;

export async function developPackage(context: DevContext, input: DevInput): Promise<ExitCode> {
  const { terminal, json, env, stopSignal, forceStopSignal } = context;
  if (!existsSync(path.join(input.folder, "manifest.json")))
    throw usageFailure(`${input.folder} has no manifest.json.`, "astra packages new FOLDER");
  const folder = realpathSync(input.folder);
  const { url, token } = resolveApiEndpoint(input, env, (line) => terminal.info(line));
  const name = input.name ?? `dev-${path.basename(folder)}`;
  const ca = input.ca ?? env["ASTRA_CA"];
  const root = mkdtempSync(path.join(tmpdir(), "astra-dev-"));
  try {
    const link = linkPackage(root, folder);
    const reader = new WorkerLogReader(context, (text) => text.replaceAll(link, input.folder));
    const settings = {
      ...env,
      ASTRA_WORKER_SCHEDULER_WS_URL: env["ASTRA_WORKER_SCHEDULER_WS_URL"] ?? url,
      ASTRA_WORKER_AUTH_TOKEN: env["ASTRA_WORKER_AUTH_TOKEN"] ?? token,
      ...(ca !== undefined && { ASTRA_WORKER_CA: path.resolve(ca) }),
      ASTRA_WORKER_WORKER_NAME: name,
      ASTRA_WORKER_DATA_DIR: path.join(root, "worker"),
      ASTRA_WORKER_PACKAGES_DIR: path.join(root, "packages"),
      ASTRA_WORKER_WATCH_PACKAGES: "true",
      // Nobody mends a token while this runs.
      ASTRA_WORKER_RECONNECT_ABORT_ON_AUTH_ERROR: "true",
      ASTRA_WORKER_LOG_LEVEL: "info",
    };
    const worker = new AppProcess("worker", ["worker"], settings, (line) => reader.read(line));
    const stop = (): void => worker.kill("SIGTERM");
    for (const signal of [stopSignal, forceStopSignal])
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    void worker.ready.then(
      () =>
        reader.report(
          "ready",
          `${name} is connected to ${url}; it loads ${input.folder} again when you save. Stop it with Ctrl+C.`,
        ),
      () => undefined, // its exit is handled below
    );
    const end = await worker.exited;
    if (stopSignal.aborted) return exitCodes.ok;
    throw new CliFailure(end.code === exitCodes.notAllowed ? exitCodes.notAllowed : exitCodes.failed, {
      error: "E.WORKER.LOST",
      message: `${worker.describeExit(end)}; ${json ? "its last events say" : "the lines above say"} why.`,
    });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The folder as a worker expects it; name and version are in the manifest, so the link need not follow them. */
function linkPackage(root: string, folder: string): string {
  const link = path.join(root, "packages", path.basename(folder), "dev");
  mkdirSync(path.dirname(link), { recursive: true });
  symlinkSync(folder, link, "dir");
  return link;
}

const warnLevel = 40;

/** Turns the log of the worker into what its author wants to know: what is offered, what is broken and where, and what ran. */
class WorkerLogReader {
  readonly #context: Pick<DevContext, "terminal" | "json">;
  readonly #nameFolder: (text: string) => string;

  constructor(context: Pick<DevContext, "terminal" | "json">, nameFolder: (text: string) => string) {
    this.#context = context;
    this.#nameFolder = nameFolder;
  }

  read(line: string): void {
    const entry = parseEntry(line);
    // Refusals before the log begins are plain text.
    if (entry === null) return this.report("message", line);
    const { event, level, msg, code } = entry;
    const message = String(msg ?? "");
    if (event === "packages") return this.#reportEach("loaded", entry["packages"], "is loaded");
    if (event === "reloaded") return this.#reportReload(entry);
    if (event === "task") {
      const how = `${message.replace(/^task /, "")} in ${String(entry["durationMs"])} ms`;
      return this.report(
        "task",
        `ran ${String(entry["nodeType"])}: ${how}${code === undefined || code === "OK" ? "" : ` (${String(code)})`}`,
      );
    }
    if (event === "package" && Number(level) >= warnLevel)
      return this.report("problem", `problem ${String(code ?? "")}: ${message}`);
    if (Number(level) >= warnLevel) this.report("message", message);
  }

  #reportReload(entry: Readonly<Record<string, unknown>>): void {
    this.#reportEach("offered", entry["offered"], "is offered with the new code");
    this.#reportEach("removed", entry["removed"], "is no longer offered");
    this.#reportEach("kept", entry["kept"], "is broken, so its code before stays in use; mend it and save again");
  }

  #reportEach(event: string, names: unknown, what: string): void {
    for (const name of Array.isArray(names) ? names : []) this.report(event, `${String(name)} ${what}`);
  }

  report(event: string, text: string): void {
    const { terminal, json } = this.#context;
    // The steps of Python's own import say nothing about the package.
    const lines = text.split("\n").filter((line) => !line.includes("(<frozen importlib"));
    const message = lines.map((line) => stripControlCharacters(this.#nameFolder(line))).join("\n");
    terminal.print(json ? JSON.stringify({ event, message }) : message);
  }
}

function parseEntry(line: string): Record<string, unknown> | null {
  try {
    const entry: unknown = JSON.parse(line);
    return isRecord(entry) ? entry : null;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}
