// One reader who follows one page: a folder that looks like a checkout, one shell for all commands, the programs it leaves running, and what
// it has learned so far: ids that were printed, and the port behind each address of the page. No test lives here.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach } from "vitest";
import { astraProgram, makeTemporaryFolder, pollUntil, repositoryRoot, withTimeout } from "../harness/processes.ts";
import { fillInNames, type KnownNames } from "./shown-output.ts";

/** What pages read of a checkout; everything else that they name they make. */
const checkoutParts = ["docs", "examples", "packages", "node_modules", "package.json"];

/** `npx astra` and `astra` are the program that was built from these sources; npm itself is never run here. */
const standIns: Readonly<Record<string, string>> = {
  astra: `exec '${process.execPath}' '${astraProgram}' "$@"`,
  npx: 'exec "$@"',
  node: `exec '${process.execPath}' "$@"`,
  npm: 'echo "npm is not run by the test of the pages" >&2; exit 70',
};

const running = new Set<ChildProcess>();

afterEach(async () => {
  await Promise.all([...running].map((child) => endGroup(child, "SIGKILL")));
});

async function endGroup(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise((resolve) => child.once("close", resolve));
  process.kill(-child.pid, signal);
  await ended;
}

export interface CommandEnd {
  readonly code: number;
  readonly output: string;
}

interface LeftRunning {
  readonly command: string;
  readonly child: ChildProcess;
  /** stdout and stderr, as they came. */
  output(): string;
}

export class PageSession {
  readonly folder = makeTemporaryFolder();
  readonly known: KnownNames = new Map();
  /** Of the requests that the page shows without a program that sends them. */
  readonly token = "dev-token";
  /** The port behind each port that the page names. */
  readonly #ports = new Map<string, string>();
  readonly #left: LeftRunning[] = [];
  readonly #shell: ChildProcess;
  readonly #outputFile: string;
  #commands = 0;
  #http = "";

  constructor() {
    for (const part of checkoutParts) symlinkSync(join(repositoryRoot, part), join(this.folder, part));
    const bin = join(makeTemporaryFolder(), "bin");
    mkdirSync(bin);
    for (const [name, script] of Object.entries(standIns)) {
      writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(bin, name), 0o755);
    }
    this.#outputFile = join(bin, "output");
    this.#shell = this.#spawn("bash", ["--noprofile", "--norc"], {
      PATH: `${bin}:${process.env["PATH"]}`,
      ASTRA_SCHEDULER_LISTEN: "127.0.0.1:0",
    });
  }

  /** The scheduler that the page talks to now. */
  get http(): string {
    return this.#http;
  }

  #spawn(program: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
    const inherited = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith("ASTRA_") && !name.startsWith("VITEST")),
    );
    const child = spawn(program, args, {
      cwd: this.folder,
      env: { ...inherited, COLUMNS: "120", ...env },
      stdio: ["pipe", "pipe", "pipe"],
      // A group of its own, so that whatever it starts ends with it.
      detached: true,
    });
    running.add(child);
    child.once("close", () => running.delete(child));
    return child;
  }

  /** As the page writes it, with the ids and ports of this session. */
  fillIn(text: string): string {
    return fillInNames(this.fillInPorts(text), this.known);
  }

  fillInPorts(text: string): string {
    return text.replace(/\b(127\.0\.0\.1|localhost):(\d{4})\b/g, (address, host: string, port: string) =>
      this.#ports.has(port) ? `${host}:${this.#ports.get(port)}` : address,
    );
  }

  async post(path: string, body: unknown): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    return (await fetch(this.#http + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  }

  writePageFile(name: string, text: string): void {
    mkdirSync(dirname(join(this.folder, name)), { recursive: true });
    // A file that names a port to listen on lets the system choose it; the ready line tells which.
    writeFileSync(join(this.folder, name), `${this.fillIn(text).replace(/("listen": "127\.0\.0\.1):\d+"/, '$1:0"')}\n`);
  }

  /** Runs it to its end in the shell of the page, which keeps its folder and its variables. */
  async runCommand(command: string): Promise<CommandEnd> {
    this.#commands += 1;
    const end = `${this.#outputFile}-${this.#commands}`;
    const filled = this.fillIn(await this.nameNewestRun(command));
    const script = `{\n${filled}\n} </dev/null >'${end}' 2>&1\necho $? >'${end}.tmp'; mv '${end}.tmp' '${end}.code'\n`;
    this.#shell.stdin?.write(script);
    const code = await pollUntil(`the end of ${command}`, async () => readIfThere(`${end}.code`));
    return { code: Number(code), output: readFileSync(end, "utf8") };
  }

  /** Pages write RUN where the reader puts the id of the run that they have just started. */
  async nameNewestRun(command: string): Promise<string> {
    if (!/\bRUN\b/.test(command)) return command;
    const response = await fetch(`${this.#http}/api/v1/runs?limit=1`, { headers: { authorization: `Bearer ${this.token}` } });
    const { items } = (await response.json()) as { items: { runId: string }[] };
    return command.replace(/\bRUN\b/, items[0]?.runId ?? "RUN");
  }

  /** Starts what a reader would leave running in a terminal of its own, and waits until it is ready, or until it printed something. */
  async leaveRunning(command: string): Promise<void> {
    if (/\bastra (scheduler|up)\b/.test(command)) await this.#stop(() => true);
    // Who starts a program on the same folder again has stopped the first one.
    const folderOf = (text: string): string | undefined => /--data-dir (\S+)/.exec(text)?.[1];
    await this.#stop((one) => folderOf(command) !== undefined && folderOf(one.command) === folderOf(command));
    const isProgram = /\bastra (scheduler|worker|up)\b/.test(command);
    const listen = /--listen 127\.0\.0\.1:(\d+)/.exec(command);
    const filled = this.fillIn(command).replace(/--listen 127\.0\.0\.1:\d+/, "--listen 127.0.0.1:0");
    const env = (await this.runCommand("printf '%s\\n' \"PATH=$PATH\"; pwd; env | grep ^ASTRA_ || true")).output
      .trim()
      .split("\n");
    const [path = "", folder = "", ...variables] = env;
    const settings = Object.fromEntries(
      [path, ...variables].map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    const child = this.#spawn("bash", ["--noprofile", "--norc", "-c", `cd '${folder}'\nexec ${filled.trim()}`], settings);
    let output = "";
    child.stdout?.on("data", (bytes: Buffer) => (output += bytes.toString("utf8")));
    child.stderr?.on("data", (bytes: Buffer) => (output += bytes.toString("utf8")));
    this.#left.push({ command, child, output: () => output });
    const sign = isProgram ? /^\{"ready":true.*\}$/m : /\S/;
    const ready = await pollUntil(`the first sign of ${command}\n`, async () => {
      if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}:\n${output}`);
      return sign.exec(output)?.[0];
    }).catch((cause: unknown) => {
      throw new Error(`${command} printed only\n${output}`, { cause });
    });
    if (isProgram) await this.#learnAddresses(ready, listen?.[1]);
  }

  async #learnAddresses(readyLine: string, listenPort: string | undefined): Promise<void> {
    const { http, ws } = JSON.parse(readyLine) as { http?: string; ws?: string };
    if (http === undefined || ws === undefined) return;
    this.#http = http;
    // Where a page does not say where it listens it is the default; a config file says so out of our sight, and https is only set there.
    const port = listenPort ?? (http.startsWith("https:") ? "9443" : "8080");
    this.#ports.set(port, new URL(http).port);
    await this.runCommand(`export ASTRA_URL='${http}' ASTRA_WORKER_SCHEDULER_WS_URL='${ws}'`);
  }

  /** What the programs that were left running have printed, until it has what `find` looks for. */
  async waitForOutput<T>(what: string, find: (output: string) => T | undefined): Promise<T> {
    return pollUntil(what, async () => find(this.#left.map((one) => one.output()).join("\n"))).catch((cause: unknown) => {
      throw new Error(
        `${what} did not come; the end of what was printed is\n${this.#left
          .map((one) => one.output())
          .join("\n")
          .slice(-4_000)}`,
        { cause },
      );
    });
  }

  async #stop(isMeant: (one: LeftRunning) => boolean): Promise<void> {
    for (const one of this.#left.filter(isMeant).reverse()) {
      this.#left.splice(this.#left.indexOf(one), 1);
      await withTimeout(endGroup(one.child, "SIGTERM"), "a program of the page to end");
    }
  }
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw thrown;
  }
}
