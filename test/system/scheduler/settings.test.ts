import { writeFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import { expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, spawnAstra } from "../harness/processes.ts";
import { handshakeAndRegister, openRawWorker } from "../harness/raw-worker-socket.ts";

it("[O32] the workers of a tenant get the tenant's own heartbeat, lease and windows, and all others get the scheduler-wide settings", async () => {
  const folder = makeTemporaryFolder();
  const [config, secret] = [joinPath(folder, "config.json"), "a-long-enough-secret-1"];
  writeFileSync(
    config,
    JSON.stringify({ tenants: { acme: { heartbeat: 4_000, lease: 16_000, sendWindow: 7, recvWindow: 9 } }, recvWindow: 33 }),
  );
  writeFileSync(joinPath(folder, "token"), secret);
  const flags = ["--config", config, "--token", `fleet/acme=@${joinPath(folder, "token")}`, "--heartbeat", "5000"];
  const { ws } = await startScheduler({ flags });

  const own = await handshakeAndRegister(await openRawWorker(ws, { tenant: "acme" }), { mode: "token", token: secret });
  const plain = await handshakeAndRegister(await openRawWorker(ws), { mode: "token", token: "dev-token" });

  expect(own.payload).toMatchObject({ heartbeat_interval_ms: 4_000, lease_ms: 16_000, send_window: 7, recv_window: 9 });
  expect(plain.payload).toMatchObject({ heartbeat_interval_ms: 5_000, lease_ms: 30_000, send_window: 64, recv_window: 33 });
});

it("[O36] /metrics needs a token with the grant metrics or admin, and is open to all only with --dev", async () => {
  const folder = makeTemporaryFolder();
  const file = joinPath(folder, "token");
  const secret = "a-long-enough-secret-1";
  writeFileSync(file, secret);
  const dev = await startScheduler();
  const place = ["--listen", "127.0.0.1:0", "--data-dir", joinPath(folder, "data"), "--log-level", "warn"];
  const plain = joinPath(folder, "plain");
  writeFileSync(plain, "another-long-secret-2");
  const strict = spawnAstra(["scheduler", ...place, "--token", `ops:metrics=@${file}`, "--token", `fleet=@${plain}`]);
  const http = String((await strict.ready())["http"]);
  const ask = (at: string, token?: string) =>
    fetch(`${at}/metrics`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });

  expect((await ask(dev.http)).status).toBe(200);
  expect((await ask(http)).status).toBe(401);
  expect((await ask(http, "dev-token")).status).toBe(401);
  expect((await ask(http, "another-long-secret-2")).status).toBe(403);
  const numbers = await ask(http, secret);
  expect([numbers.status, await numbers.text()]).toEqual([200, expect.stringContaining("engine_turns")]);
});
