// `astra worker --check`: looks at everything the worker would need, changes nothing, and says for each what is wrong and the way out.

import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { errorMessage } from "@astraflow/protocol";
import { inspectPackages, probeScheduler, type WorkerEnvironment } from "@astraflow/runtime";
import { adviseOnConnectionFailure } from "./connection-advice.ts";
import { readTlsFiles } from "./identity/credential-files.ts";
import type { WorkerConfig } from "./settings/config.ts";
import { publicDevToken } from "./settings/setting-readers.ts";

export interface WorkerCheckLine {
  readonly name: string;
  readonly isGood: boolean;
  readonly found: string;
}

export interface WorkerCheckOptions {
  readonly config: WorkerConfig;
  /** The identity of this worker, or a stand-in if it has none yet. */
  readonly instance: string;
  readonly warnings: readonly string[];
  readonly environment: WorkerEnvironment;
}

const answerMsMax = 10_000;
const pythonMsMax = 10_000;
const pythonMin = [3, 10] as const;
/** Session tokens and certificates have times in them. */
const clockLeadMsMax = 30_000;

const good = (name: string, found: string): WorkerCheckLine => ({ name, isGood: true, found });
const bad = (name: string, found: string): WorkerCheckLine => ({ name, isGood: false, found });

/** Where the settings cannot be read there is nothing else to look at. */
export const describeSettingProblems = (problems: readonly string[]): WorkerCheckLine[] =>
  problems.map((problem) => bad("settings", problem));

export async function checkWorker(options: WorkerCheckOptions): Promise<WorkerCheckLine[]> {
  const { config, warnings } = options;
  const python = await askPythonVersion(config.hosts.python);
  const { packages, needsPython } = await checkPackages(config, typeof python === "string" ? python : null);
  return [
    good("settings", warnings.length === 0 ? "flags, environment and file can be used" : warnings.join("; ")),
    ...checkToken(config),
    ...checkTls(config),
    checkDataDir(config.dataDir),
    ...packages,
    checkInstalls(config),
    checkPython(python, config.hosts.python, needsPython),
    ...(await checkMetricsAddress(config)),
    ...(await checkSchedulers(options)),
  ];
}

export function formatCheckLines(lines: readonly WorkerCheckLine[]): string {
  const width = Math.max(...lines.map(({ name }) => name.length));
  const rows = lines.map(({ name, isGood, found }) => `${isGood ? "ok     " : "problem"}  ${name.padEnd(width)}  ${found}\n`);
  return rows.join("");
}

function checkToken({ auth, tokenFile }: WorkerConfig): WorkerCheckLine[] {
  if (auth.mode !== "token") return [];
  if (auth.token === publicDevToken) return [good("token", `${publicDevToken}, which only a scheduler with --dev accepts`)];
  if (tokenFile === undefined) return [good("token", "given by the environment, the configuration file or stdin")];
  // Its first line was read with the settings.
  const isOpen = (statSync(tokenFile).mode & 0o077) !== 0;
  return [
    isOpen
      ? bad("token", `${tokenFile} can be read by other users of this machine; run: chmod 600 ${tokenFile}`)
      : good("token", `${tokenFile}, readable by its owner only`),
  ];
}

function checkTls({ tls }: WorkerConfig): WorkerCheckLine[] {
  if (Object.keys(tls).length === 0) return [];
  try {
    readTlsFiles(tls);
    return [good("tls", `${Object.values(tls).join(", ")} can be read`)];
  } catch (cause) {
    return [bad("tls", `${errorMessage(cause)}; correct --ca, --tls-cert or --tls-key`)];
  }
}

function checkDataDir(dataDir: string): WorkerCheckLine {
  const problem = findFolderProblem(dataDir);
  return problem === null
    ? good("data", `${dataDir} can be written`)
    : bad("data", `${problem}, or choose another with --data-dir`);
}

/** Null: it can be written. The nearest folder that exists decides: the rest is made at the start. */
function findFolderProblem(wanted: string): string | null {
  let folder = path.resolve(wanted);
  while (!existsSync(folder)) folder = path.dirname(folder);
  if (!statSync(folder).isDirectory()) return `${folder} is no folder; remove it`;
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch {
    // For whatever reason: this user may not write there.
    return `${folder} cannot be written by this user; change its owner`;
  }
}

async function checkPackages(
  { packagesDir, packageInstalls }: WorkerConfig,
  python: string | null,
): Promise<{ packages: WorkerCheckLine[]; needsPython: boolean }> {
  try {
    const found = await inspectPackages(packagesDir, python);
    const packages = found.map(({ name, problems }) =>
      problems.length === 0 ? good("package", name) : bad("package", `${name}: ${problems.join("; ")}`),
    );
    const none = `${packagesDir} has no packages`;
    if (packages.length === 0)
      packages.push(
        mayInstall(packageInstalls)
          ? good("package", `${none} yet; the scheduler may have some installed`)
          : bad(
              "package",
              `${none}, so this worker would get no work; put one there, or name another folder with --packages-dir`,
            ),
      );
    return { packages, needsPython: found.some((one) => one.needsPython) };
  } catch (cause) {
    const found = `${packagesDir} cannot be read: ${errorMessage(cause)}; correct --packages-dir`;
    return { packages: [bad("package", found)], needsPython: false };
  }
}

const mayInstall = ({ trustedKeys, trustsRepository, allowsUnsigned }: WorkerConfig["packageInstalls"]): boolean =>
  trustedKeys.length > 0 || trustsRepository || allowsUnsigned;

function checkInstalls({ packageInstalls, packagesDir }: WorkerConfig): WorkerCheckLine {
  const { trustedKeys, trustsRepository, allowsUnsigned } = packageInstalls;
  if (!mayInstall(packageInstalls))
    return good("keys", "none: the scheduler cannot have packages installed here (--package-keys)");
  const problem = findFolderProblem(packagesDir);
  if (problem !== null) return bad("keys", `packages cannot be installed: ${problem}, or choose another with --packages-dir`);
  if (allowsUnsigned)
    return good("keys", "packages are installed without a signature too (--package-unsigned), for development only");
  if (trustsRepository) return good("keys", "packages are installed that a key signed which the tenant trusts at the scheduler");
  return good(
    "keys",
    `packages signed by ${trustedKeys.length === 1 ? "1 key" : `one of ${trustedKeys.length} keys`} are installed`,
  );
}

function checkPython(python: string | Error, command: string, isNeeded: boolean): WorkerCheckLine {
  if (python instanceof Error) {
    const found = `${command} cannot be run (${python.message})`;
    return isNeeded
      ? bad("python", `${found}; install Python ${pythonMin.join(".")} or newer, or name it with --python`)
      : good("python", `${found}, and no package here needs it`);
  }
  const [major = 0, minor = 0] = python.split(".").map(Number);
  const isNew = major > pythonMin[0] || (major === pythonMin[0] && minor >= pythonMin[1]);
  if (isNew) return good("python", `${command} is ${python}`);
  const found = `${command} is ${python}, and packages for Python need ${pythonMin.join(".")} or newer`;
  return isNeeded ? bad("python", `${found}; name a newer one with --python`) : good("python", `${found}; none is here`);
}

/** The version, or why there is none. */
function askPythonVersion(command: string): Promise<string | Error> {
  return new Promise((resolve) => {
    const child = spawn(command, ["-I", "-c", "import platform; print(platform.python_version())"], {
      stdio: ["ignore", "pipe", "ignore"],
      timeout: pythonMsMax,
    });
    let output = "";
    child.stdout.on("data", (bytes: Buffer) => {
      output += bytes.toString();
    });
    child.once("error", resolve);
    child.once("close", (code) => resolve(code === 0 ? output.trim() : new Error(`it ended with ${code ?? "a signal"}`)));
  });
}

async function checkMetricsAddress({ metricsListen }: WorkerConfig): Promise<WorkerCheckLine[]> {
  if (metricsListen === undefined) return [];
  const { host, port } = metricsListen;
  const problem = await new Promise<string | null>((resolve) => {
    const server = createServer();
    server.once("error", (cause: NodeJS.ErrnoException) => resolve(cause.code ?? cause.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
  const address = `${host}:${port}`;
  return [
    problem === null
      ? good("metrics", `${address} is free`)
      : bad("metrics", `${address} cannot be used (${problem}); choose another with --metrics-listen`),
  ];
}

/** All replicas; the clock is compared with the first that answers. */
async function checkSchedulers({ config, instance, environment }: WorkerCheckOptions): Promise<WorkerCheckLine[]> {
  const { tenant, name, version, auth } = config;
  const identity = { tenant, instance, name, version, hostname: name, boot: `check-${environment.wallClock()}`, auth };
  const lines: WorkerCheckLine[] = [];
  let clockLeadMs: number | null = null;
  for (const url of config.urls) {
    const tls = () => readTlsFiles(config.tls);
    const probe = await probeScheduler({ url, identity, environment, tls, timeoutMs: answerMsMax });
    if (probe.type === "accepted") {
      clockLeadMs ??= probe.clockLeadMs;
      lines.push(good("scheduler", `${url} accepts this worker for tenant ${tenant}`));
      continue;
    }
    const { message } = probe;
    const event =
      probe.type === "refused"
        ? ({ level: "warn", event: "refused", message, details: { code: probe.code } } as const)
        : ({ level: "warn", event: "lost", message } as const);
    const advice = adviseOnConnectionFailure(event, config) ?? "start the scheduler there, or correct --url";
    const what =
      probe.type === "refused" ? `refuses this worker with ${probe.code}: ${message}` : `cannot be reached: ${message}`;
    lines.push(bad("scheduler", `${url} ${what}; ${advice}`));
  }
  return clockLeadMs === null ? lines : [...lines, describeClock(clockLeadMs)];
}

function describeClock(leadMs: number): WorkerCheckLine {
  const seconds = Math.round(Math.abs(leadMs) / 1_000);
  if (Math.abs(leadMs) <= clockLeadMsMax) return good("clock", "agrees with that of the scheduler");
  return bad(
    "clock",
    `is ${seconds} s ${leadMs > 0 ? "ahead of" : "behind"} that of the scheduler; set the time of this machine`,
  );
}
