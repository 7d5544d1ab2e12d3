import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { expect, it } from "vitest";
import { startPostgres } from "./postgres-server.ts";
import { findProgram } from "./server-folder.ts";

async function queryValue(url: string, text: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return Object.values((await client.query(text)).rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}

it("[S53] PostgreSQL test servers run side by side, sync, keep data and port over a restart, and leave nothing behind", async () => {
  const servers = await Promise.all([startPostgres(), startPostgres()]);
  const [first, second] = servers;
  const url = await first.createDatabase("kept");
  await queryValue(url, "CREATE TABLE t AS SELECT 7 AS n");
  const folder = String(await queryValue(url, "SHOW data_directory"));
  const pid = first.pid;
  await first.restart("immediate");

  expect(await queryValue(url, "SELECT n FROM t")).toBe(7);
  expect([await queryValue(url, "SHOW fsync"), await queryValue(second.url(), "SHOW synchronous_commit")]).toEqual(["on", "on"]);
  expect([first.port === second.port, first.pid === pid, existsSync(folder)]).toEqual([false, false, true]);
  for (const server of servers) await server.stop();
  expect(existsSync(folder)).toBe(false);
});

it("[S53] a PostgreSQL test server is ended and its folder removed when the process that started it is killed", async () => {
  const script = `
    import { startPostgres } from ${JSON.stringify(new URL("./postgres-server.ts", import.meta.url).href)};
    const server = await startPostgres();
    console.log(server.url() + " " + server.pid);
    setInterval(() => undefined, 1_000);
  `;
  const child = spawn(process.execPath, ["--no-warnings", "--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const [url, pid] = String(line).split(" ");
  const folder = String(await queryValue(String(url), "SHOW data_directory"));
  child.kill("SIGKILL");
  await once(child, "exit");

  await expect.poll(() => existsSync(folder) || existsSync(`/proc/${pid}`), { timeout: 20_000, interval: 20 }).toBe(false);
});

it("[S53] a missing test server program is reported with the package to install", () => {
  expect(() => findProgram("no-such-server", "no-such-package")).toThrow(/apt-get install no-such-package/);
});
