// A pgbouncer in transaction mode before a test's server: every transaction of a client may run on another session.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { PostgresServer } from "./postgres-server.ts";
import { findProgram, freePort, makeServerFolder } from "./server-folder.ts";

export interface Pgbouncer {
  readonly port: number;
  url(database: string): string;
  stop(): Promise<void>;
}

const startMsMax = 10_000;

export async function startPgbouncer(server: PostgresServer): Promise<Pgbouncer> {
  const program = findProgram("pgbouncer", "pgbouncer");
  const folder = makeServerFolder("astra-pgbouncer-");
  const port = await freePort();
  const config = join(folder.path, "pgbouncer.ini");
  const users = join(folder.path, "users.txt");
  writeFileSync(users, `"${server.user}" "${server.password}"\n`);
  // Few sessions for many clients, so that two transactions of one client rarely meet the same one.
  writeFileSync(
    config,
    `[databases]
* = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${users}
pool_mode = transaction
default_pool_size = 12
max_client_conn = 200
server_round_robin = 1
pidfile = ${join(folder.path, "pgbouncer.pid")}
`,
  );
  for (const file of [config, users]) folder.chownToServer(file);
  const child = spawn(program, [config], { ...folder.identity, cwd: folder.path, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text: string) => {
    log = (log + text).slice(-4_000);
  });
  const gone = once(child, "exit");
  child.unref();
  (child.stderr as unknown as { unref(): void }).unref();
  try {
    await waitUntilAccepting(port, Date.now() + startMsMax, () => child.exitCode !== null);
  } catch (error) {
    await folder.remove();
    throw new Error(`pgbouncer did not start: ${log}`, { cause: error });
  }
  return {
    port,
    url: (database) => `postgres://${server.user}:${server.password}@127.0.0.1:${port}/${database}`,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        child.ref();
        child.kill("SIGQUIT");
        await gone;
      }
      await folder.remove();
    },
  };
}

/** Its log does not show when it listens, so connections are tried. */
async function waitUntilAccepting(port: number, until: number, isGone: () => boolean): Promise<void> {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const [outcome] = await Promise.race([once(socket, "connect").then(() => [null]), once(socket, "error")]);
    socket.destroy();
    if (outcome === null || outcome === undefined) return;
    if (isGone() || Date.now() > until) throw outcome;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
