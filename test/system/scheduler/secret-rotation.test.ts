import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler, type TestScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, runAstra, spawnAstra } from "../harness/processes.ts";
import { handshakeAndRegister, openRawWorker, type RawWorkerSocket } from "../harness/raw-worker-socket.ts";

const oldSecret = "the-old-secret-0123456789";
const newSecret = "the-new-secret-0123456789";

async function startWithTokenFile(flags: readonly string[] = []): Promise<{ scheduler: TestScheduler; file: string }> {
  const file = joinPath(makeTemporaryFolder(), "fleet.token");
  writeFileSync(file, `${oldSecret}\n`);
  return { scheduler: await startScheduler({ flags: ["--token", `fleet=@${file}`, ...flags] }), file };
}

const statusWithToken = async ({ http }: TestScheduler, token: string): Promise<number> =>
  (await new SchedulerApi(http, token).send("GET", "/api/v1/workers")).status;

async function joinWithToken({ ws }: TestScheduler, token: string, instance: string) {
  const socket = await openRawWorker(ws, { instance });
  return { bare: socket, accept: await handshakeAndRegister(socket, { mode: "token", token }, instance) };
}

/** The code that a live session received at its end. */
async function waitForRevocation(socket: RawWorkerSocket): Promise<unknown> {
  const reset = await socket.nextFrame("control.reset");
  await socket.closed;
  return reset.payload["code"];
}

describe("tokens that change under a running scheduler", () => {
  it("[O33] a token's secret is replaced without a restart: both are valid in between, then callers and live sessions with the old one are refused", async () => {
    const { scheduler, file } = await startWithTokenFile();
    const { bare: early } = await joinWithToken(scheduler, oldSecret, "w-old");
    expect(await statusWithToken(scheduler, newSecret)).toBe(401);

    writeFileSync(file, `${oldSecret}\n${newSecret}\n`);
    await pollUntil("the new secret", async () => (await statusWithToken(scheduler, newSecret)) === 200);
    const { bare: late } = await joinWithToken(scheduler, newSecret, "w-new");
    expect([await statusWithToken(scheduler, oldSecret), early.isOpen(), late.isOpen()]).toEqual([200, true, true]);

    writeFileSync(file, `${newSecret}\n`);
    const code = await waitForRevocation(early);

    expect(code).toBe("E.AUTH.INVALID_TOKEN");
    expect([await statusWithToken(scheduler, oldSecret), await statusWithToken(scheduler, newSecret)]).toEqual([401, 200]);
    expect(late.isOpen()).toBe(true);
    expect(scheduler.process.stderr()).toMatch(/"audit":true,"name":"fleet".*"token\.revoked"/);
    expect(scheduler.process.stderr()).not.toMatch(new RegExp(`${oldSecret}|${newSecret}`));
  });

  it("[O33] SIGHUP applies the removal of a token file at once, and a disconnected session cannot return with its session token", async () => {
    const { scheduler, file } = await startWithTokenFile();
    const { bare: live } = await joinWithToken(scheduler, oldSecret, "w-1");
    const { bare: away, accept } = await joinWithToken(scheduler, oldSecret, "w-2");
    away.terminate();
    await away.closed;

    rmSync(file);
    scheduler.process.kill("SIGHUP");
    const code = await waitForRevocation(live);

    expect(code).toBe("E.AUTH.INVALID_TOKEN");
    expect(await statusWithToken(scheduler, oldSecret)).toBe(401);
    expect(await statusWithToken(scheduler, "dev-token")).toBe(200);
    const back = await openRawWorker(scheduler.ws, { instance: "w-2" });
    const { session_id, session_token } = accept.payload;
    back.sendFrame("control.resume", { session_id, session_token, last_seen_seq: -1 });
    const reset = await back.nextFrame("control.reset");
    expect(["E.AUTH.INVALID_TOKEN", "E.SESSION.UNKNOWN"]).toContain(reset.payload["code"]);
    await back.closed;
  });
});

describe("a worker that lives through a rotation", () => {
  it("[W144] a worker is disconnected with the old secret and rejoins with the secret its file has by then, in the same process", async () => {
    const { scheduler, file } = await startWithTokenFile();
    const worker = spawnAstra([
      "worker",
      "--token",
      `@${file}`,
      "--url",
      scheduler.ws,
      "--data-dir",
      joinPath(makeTemporaryFolder(), "worker"),
    ]);
    await worker.ready();
    const sessions = (): number => worker.stderr().split('"event":"ready"').length - 1;
    expect(sessions()).toBe(1);

    writeFileSync(file, `${newSecret}\n${oldSecret}\n`);
    await pollUntil("the new secret", async () => (await statusWithToken(scheduler, newSecret)) === 200);
    writeFileSync(file, `${newSecret}\n`);
    await pollUntil("its second session", async () => sessions() === 2);

    expect(worker.stderr()).toContain("E.AUTH.INVALID_TOKEN");
    expect(worker.stderr()).not.toMatch(new RegExp(`${oldSecret}|${newSecret}`));
  });
});

describe("session keys that change under a running scheduler", () => {
  const keysOf = ({ dataDir }: TestScheduler): { kid: string }[] =>
    JSON.parse(readFileSync(joinPath(dataDir, "session-keys.json"), "utf8")).keys;
  const kidOf = (token: unknown): unknown =>
    JSON.parse(Buffer.from(String(token).split(".")[0] ?? "", "base64url").toString()).kid;

  it("[O34] after a key rotation a session token under the previous key still resumes, new tokens use the new key, and the old key is removed", async () => {
    const { scheduler } = await startWithTokenFile(["--session-key-age", "2000", "--session-token", "10000"]);
    const { bare: socket, accept } = await joinWithToken(scheduler, oldSecret, "w-1");
    const first = kidOf(accept.payload["session_token"]);

    await pollUntil("the next key", async () => keysOf(scheduler).at(-1)?.kid !== first);
    socket.terminate();
    const back = await openRawWorker(scheduler.ws, { instance: "w-1" });
    const { session_id, session_token } = accept.payload;
    back.sendFrame("control.resume", { session_id, session_token, last_seen_seq: -1 });
    const { payload } = await back.nextFrame("control.session.accept");

    expect(payload).toMatchObject({ resumed: true, session_id });
    expect(kidOf(payload["session_token"])).not.toBe(first);
    expect(statSync(joinPath(scheduler.dataDir, "session-keys.json")).mode & 0o777).toBe(0o600);
    await pollUntil("the end of the first key", async () => keysOf(scheduler).every(({ kid }) => kid !== first));
    expect(back.isOpen()).toBe(true);
  });

  it("[O34] a scheduler that cannot store its session keys exits with 2 and reports why", async () => {
    const dataDir = joinPath(makeTemporaryFolder(), "data");
    mkdirSync(joinPath(dataDir, "session-keys.json"), { recursive: true });

    const end = await runAstra(["scheduler", "--dev", "--listen", "127.0.0.1:0", "--data-dir", dataDir, "--log-level", "error"]);

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(/^error E\.CONFIG\.INVALID: .*session-keys\.json cannot be written .*--data-dir\.\ndocs: .*\n$/);
  });
});
