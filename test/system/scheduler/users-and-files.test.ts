import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil } from "../harness/processes.ts";

const password = "the first admin's password";
const login = async (http: string, username: string, secret: string): Promise<string> => {
  const response = await new SchedulerApi(http, "none").send("POST", "/api/v1/auth/login", { username, password: secret });
  if (response.status !== 200) throw new Error(`login answered ${response.status}: ${await response.text()}`);
  return ((await response.json()) as { accessToken: string }).accessToken;
};

describe("people and their files at a real scheduler", () => {
  it("[A91] [A85] [A107] the first admin, its token and a multipart upload survive kill -9 of the scheduler, and the audit records all of it", async () => {
    const file = join(makeTemporaryFolder(), "admin.password");
    writeFileSync(file, `${password}\n`);
    const first = await startScheduler({ flags: ["--admin-password-file", file] });
    const token = await login(first.http, "admin", password);
    const api = new SchedulerApi(first.http, token);
    const bytes = randomBytes(300_000);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const begun = await api.send("POST", "/api/v1/resources/uploads", {
      filename: "x.bin",
      sizeBytes: bytes.length,
      chunkSize: 100_000,
      sha256,
    });
    const { uploadId } = (await begun.json()) as { uploadId: string };
    const put = async (http: string, part: number): Promise<number> => {
      const response = await fetch(`${http}/api/v1/resources/uploads/${uploadId}/parts/${part}`, {
        method: "PUT",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/octet-stream" },
        body: bytes.subarray(part * 100_000, (part + 1) * 100_000),
      });
      await response.text();
      return response.status;
    };
    expect([await put(first.http, 2), await put(first.http, 0)]).toEqual([200, 200]);

    first.process.kill("SIGKILL");
    await first.process.ended;
    // Another password for the first user changes nothing: there is one.
    const env = { ASTRA_ADMIN_PASSWORD: "quite another password" };
    const { http, process } = await startScheduler({ dataDir: first.dataDir, env });
    const again = new SchedulerApi(http, token);

    expect(await again.get("/api/v1/users/me")).toMatchObject({ username: "admin", roles: ["admin"] });
    expect(await again.get(`/api/v1/resources/uploads/${uploadId}`)).toMatchObject({ completedParts: [0, 2], nextPart: 1 });
    expect(await put(http, 1)).toBe(200);
    const done = await again.send("POST", `/api/v1/resources/uploads/${uploadId}/complete`);
    const { downloadUrl } = (await done.json()) as { downloadUrl: string };
    const out = await again.send("GET", downloadUrl);
    expect(Buffer.from(await out.arrayBuffer()).equals(bytes)).toBe(true);
    await expect(login(http, "admin", env.ASTRA_ADMIN_PASSWORD)).rejects.toThrow("E.AUTH.CREDENTIALS");
    // A wrong password's entry is nobody's to wait for: it may come a moment later.
    const actions = await pollUntil("the entry of the wrong password", async () => {
      const { items } = await again.get<{ items: { action: string }[] }>("/api/v1/audit");
      return items[0]?.action === "auth.login.failure" ? items.map(({ action }) => action) : null;
    });
    expect(actions).toEqual(["auth.login.failure", "resource.create", "upload.create", "auth.login.success", "user.create"]);
    expect((await again.send("POST", "/api/v1/auth/logout")).status).toBe(204);
    expect((await again.send("GET", "/api/v1/users/me")).status).toBe(401);
    expect(first.process.stderr() + process.stderr()).not.toMatch(/first admin's|quite another|scrypt/);
  });
});
