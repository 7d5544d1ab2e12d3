// Asks pip which wheels a package's dependencies come to. Nothing is installed and no code of a dependency runs: `--dry-run` with wheels only.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { lockFileName, normaliseName, readPythonVersion, readVersionRange } from "@astraflow/archive";
import { isRecord } from "@astraflow/protocol";
import { CliFailure, errorMessage, exitCodes } from "../../output/cli-failure.ts";

export interface PythonTool {
  /** The program, such as python3. */
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** A folder of wheels to take everything from, instead of an index. */
  readonly wheels: string | undefined;
  readonly signal: AbortSignal;
}

interface ResolvedWheel {
  /** In the normal form of pip. */
  readonly name: string;
  readonly version: string;
  /** Of the file that pip chose for this machine. */
  readonly sha256: string;
}

export interface PipResolution {
  readonly wheels: readonly ResolvedWheel[];
  /** The pages of indexes that pip read. */
  readonly pages: readonly string[];
}

const invalid = (message: string): CliFailure => new CliFailure(exitCodes.usage, { error: "E.PKG.INVALID", message });

interface ToolEnd {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

function runPython(tool: PythonTool, args: readonly string[]): Promise<ToolEnd> {
  return new Promise((resolve, reject) => {
    const { command, env, signal } = tool;
    // Isolated: what is in the current folder must not stand in for modules of Python.
    const options = { env: { ...env, PYTHONIOENCODING: "utf-8" }, signal, maxBuffer: 64 * 1024 * 1024 };
    execFile(command, ["-I", ...args], options, (problem, stdout, stderr) => {
      if (signal.aborted)
        reject(new CliFailure(exitCodes.interrupted, { error: "E.INTERRUPTED", message: "Stopped; nothing was written." }));
      else resolve({ code: problem === null ? 0 : (problem.code ?? problem.signal ?? 1), stdout, stderr });
    });
  });
}

/** Refuses a Python that the package does not run on: pip would look for what fits that one. */
export async function checkBuildPython(tool: PythonTool, requires: string): Promise<void> {
  const end = await runPython(tool, ["-c", "import platform; print(platform.python_version())"]);
  const wayOut = `install it, or name another with --python; ${lockFileName} is written with its pip`;
  if (typeof end.code === "string") throw invalid(`${tool.command} could not be started (${end.code}): ${wayOut}.`);
  const text = end.stdout.trim();
  const version = readPythonVersion(text.replace(/\+.*$/, ""));
  if (end.code !== 0 || version === null) throw invalid(`${tool.command} is no Python that works: ${wayOut}.`);
  const range = readVersionRange(requires);
  if (typeof range === "string" || range.includes(version)) return;
  throw invalid(
    `The package needs Python ${requires}, but ${tool.command} is ${text}: name one that fits with --python, so that ${lockFileName} is written for it.`,
  );
}

export async function resolveDependencies(tool: PythonTool, dependencies: readonly string[]): Promise<PipResolution> {
  const folder = mkdtempSync(path.join(tmpdir(), "astra-lock-"));
  try {
    const [reportFile, logFile] = [path.join(folder, "report.json"), path.join(folder, "pip.log")];
    const end = await runPython(tool, [
      ...["-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--quiet", "--no-input"],
      ...["--disable-pip-version-check", "--report", reportFile, "--log", logFile],
      ...(tool.wheels === undefined ? [] : ["--no-index", "--find-links", path.resolve(tool.wheels)]),
      ...["--", ...dependencies],
    ]);
    const log = readIfThere(logFile);
    if (end.code !== 0) throw describePipFailure(end, log, tool);
    return { wheels: readReport(readFileSync(reportFile, "utf8")), pages: listPages(log) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    // pip ends before it opens its log where it does not know a flag.
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw thrown;
  }
}

const listPages = (log: string): string[] =>
  [...log.matchAll(/Fetching project page and analyzing links: (https?:\S+)/g)].map(([, url = ""]) => url);

/** pip names a requirement that nothing satisfies, but says only in its log that an index did not answer. */
function describePipFailure({ stderr }: ToolEnd, log: string, { command, wheels }: PythonTool): CliFailure {
  if (/No module named '?pip/.test(stderr))
    return invalid(
      `${command} has no pip, which ${lockFileName} is written with: install it, or name another Python with --python.`,
    );
  if (/no such option/i.test(stderr))
    return invalid(`The pip of ${command} is too old to write ${lockFileName}: 22.2 or newer is needed.`);
  const lines = stderr.split("\n").filter((line) => line.startsWith("ERROR: "));
  const errors = lines.map((line) => line.slice("ERROR: ".length).trim());
  const [, url, reason] = /Could not fetch URL (\S+): (.*?)(?: - skipping)?$/m.exec(log) ?? [];
  if (url !== undefined && /from versions: none/.test(stderr)) {
    const why = (reason ?? "").replace(/^.*?: (?=\[Errno|<)/, "").slice(0, 300);
    return new CliFailure(exitCodes.unreachable, {
      error: "E.UNREACHABLE",
      message: `${url} cannot be read (${why}), so ${lockFileName} cannot be written. Set PIP_INDEX_URL to an index that answers, or give a folder of wheels with --wheels.`,
    });
  }
  const where = wheels === undefined ? "" : ` in ${wheels}`;
  return invalid(
    `The dependencies of the package cannot be resolved${where}: ${errors.join("; ") || stderr.trim().slice(-300)}. Change python.dependencies in the manifest.`,
  );
}

function readReport(text: string): ResolvedWheel[] {
  const report: unknown = parseReport(text);
  const items = isRecord(report) && Array.isArray(report["install"]) ? (report["install"] as unknown[]) : [];
  return items.map((item) => {
    const { metadata, download_info: download } = isRecord(item) ? item : {};
    const archive = isRecord(download) && isRecord(download["archive_info"]) ? download["archive_info"] : {};
    const hashes = isRecord(archive["hashes"]) ? archive["hashes"] : {};
    const { name, version } = isRecord(metadata) ? metadata : {};
    const { sha256 } = hashes;
    if (typeof name !== "string" || typeof version !== "string") throw invalid("The report of pip names no distribution.");
    if (typeof sha256 !== "string")
      throw invalid(`No SHA-256 of ${name} ${version} is known, so it cannot be pinned: the index has to state one.`);
    return { name: normaliseName(name), version, sha256 };
  });
}

function parseReport(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(`The report of pip is not JSON (${errorMessage(cause)}).`);
  }
}
