// What database servers of tests need of the machine: the program, a free port, a user that is not root, and a folder that is
// removed, with whatever still runs in it, even when the test process is killed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** For `spawn`: as whom a server runs. Empty where we are an ordinary user already. */
export type ServerIdentity = { uid: number; gid: number } | Record<string, never>;

export interface ServerFolder {
  readonly path: string;
  readonly identity: ServerIdentity;
  /** Gives a file in the folder to whom the server runs as. */
  chownToServer(file: string): void;
  remove(): Promise<void>;
}

const postgresVersionsFolder = "/usr/lib/postgresql";
const otherProgramFolders = ["/usr/local/bin", "/usr/sbin", "/opt/homebrew/bin"];

/** Where a program is; throws an error that names what to install. */
export function findProgram(name: string, packageName: string): string {
  const versions = existsSync(postgresVersionsFolder) ? readdirSync(postgresVersionsFolder) : [];
  const newestFirst = versions
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(postgresVersionsFolder, version, "bin"));
  for (const folder of [...newestFirst, ...(process.env.PATH ?? "").split(delimiter), ...otherProgramFolders])
    if (folder !== "" && existsSync(join(folder, name))) return join(folder, name);
  throw new Error(
    `${name} was not found in ${postgresVersionsFolder}/*/bin, PATH or ${otherProgramFolders.join(", ")}; install it: apt-get install ${packageName}`,
  );
}

export async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") throw new Error("a TCP server has no port");
  return address.port;
}

/**
 * Reads until its input ends, which is when we are gone, however we went. Then it ends the server that the pid file names and
 * removes the folder. SIGQUIT is a postmaster's crash on demand: it takes its children along.
 */
const cleanupScript = `
  cat >/dev/null
  for file in data/postmaster.pid pgbouncer.pid; do
    if [ -f "$1/$file" ]; then kill -QUIT "$(head -n 1 "$1/$file")" 2>/dev/null; fi
  done
  tries=0
  while ! rm -rf "$1" 2>/dev/null && [ $tries -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
`;

export function makeServerFolder(prefix: string): ServerFolder {
  const identity = serverIdentity();
  const path = mkdtempSync(join(tmpdir(), prefix));
  const own = (file: string) => {
    if ("uid" in identity) chownSync(file, identity.uid, identity.gid);
  };
  own(path);
  const guard = spawn("sh", ["-c", cleanupScript, "guard", path], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  guard.unref();
  (guard.stdin as unknown as { unref(): void }).unref();
  return {
    path,
    identity,
    chownToServer: own,
    async remove() {
      rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
      guard.stdin.end();
    },
  };
}

/** Servers refuse to run as root; the packages that bring them also bring a user for it. */
function serverIdentity(): ServerIdentity {
  if (process.getuid?.() !== 0) return {};
  for (const line of readFileSync("/etc/passwd", "utf8").split("\n")) {
    const [name, , uid, gid] = line.split(":");
    if (name === "postgres" && uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error("PostgreSQL refuses to run as root and there is no user postgres; make one: adduser --system --group postgres");
}
