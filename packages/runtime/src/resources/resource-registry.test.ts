import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { type ResourcePorts, type ResourceSettings, resourceDefaults } from "./resource.ts";
import { ResourceFiles } from "./resource-files.ts";
import { ResourceRegistry } from "./resource-registry.ts";

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

function open(
  settings: Partial<ResourceSettings> = {},
  root = mkdtempSync(path.join(tmpdir(), "resources-")),
  transferFile?: ResourcePorts["transferFile"],
) {
  roots.push(root);
  const workDir = path.join(root, "work", "a");
  mkdirSync(workDir, { recursive: true });
  const time = { now: 1_000_000 };
  const timers: { ms: number; call: () => void }[] = [];
  const reports: string[] = [];
  const notifications: string[] = [];
  const registry = new ResourceRegistry(
    {
      wallClock: () => time.now,
      after(ms, call) {
        timers.push({ ms, call });
        return () => {};
      },
      reportProblem: ({ message }) => reports.push(message),
      resourceReferenced: (id) => notifications.push(`announced ${id}`),
      resourceRemoved: (id, reason) => notifications.push(`${id} ${reason}`),
      ...(transferFile !== undefined && { transferFile }),
    },
    new ResourceFiles(path.join(root, "kept"), path.join(root, "work")),
    { ...resourceDefaults, workerName: "box", ...settings },
  );
  const makeFile = (name: string, text: string, dir = workDir) => {
    const file = path.join(dir, name);
    writeFileSync(file, text);
    return file;
  };
  return { registry, root, time, timers, reports, notifications, makeFile, kept: () => readdirSync(path.join(root, "kept")) };
}

describe("the resources of a worker", () => {
  it("[W160] a worker's resources are leased by name and released; leasing an unknown one fails as missing", () => {
    const { registry } = open();
    const session = { page: 1 };
    registry.register({ id: "s", type: "browser", scope: "run-1", value: session, sizeBytes: 10 });

    expect(registry.lease("s")).toMatchObject({ value: session, inUse: 1, state: "leased" });
    registry.release("s");
    registry.release("s");

    expect(registry.get("s")).toMatchObject({ inUse: 0, state: "idle", expiresAt: 1_000_000 + 3_600_000 });
    expect(() => registry.lease("t")).toThrow(expect.objectContaining({ code: "E.RESOURCE.MISSING" }));
    expect(registry.list({ scope: "run-1" })).toHaveLength(1);
    expect(registry.list({ type: "file" })).toEqual([]);
  });

  it("[W160] a worker's resources expire unless leased or touched; the check for that is scheduled only while there are any", () => {
    const { registry, time, timers } = open({ ttlMs: 100, gcIntervalMs: 60 });
    expect(timers).toEqual([]);
    const gone: string[] = [];
    for (const id of ["idle", "leased", "touched"])
      registry.register({ id, type: "x", onDrop: (reason) => void gone.push(`${id} ${reason}`) });
    registry.lease("leased");
    registry.touch("touched", time.now + 500);
    expect(timers).toHaveLength(1);

    time.now += 100;
    timers[0]?.call();
    expect(gone).toEqual(["idle expired"]);
    expect(registry.get("idle")).toBeUndefined();
    registry.release("leased");
    expect(registry.get("leased")).toBeUndefined();
    time.now += 500;
    timers.at(-1)?.call();

    expect(registry.size).toBe(0);
    expect(gone).toEqual(["idle expired", "leased expired", "touched expired"]);
    expect(timers).toHaveLength(2);
  });

  it("[W161] a resource file of an attempt is moved to the resource directory and removed with its entry; any other file stays in place", () => {
    const { registry, makeFile, root, kept } = open();
    const own = makeFile("picture.png", "pixels");
    const foreign = makeFile("model.bin", "weights", root);

    const picture = registry.registerFile("p", own, { metadata: { width: 3 } });
    registry.registerFile("m", foreign);
    expect(existsSync(own)).toBe(false);
    expect(readFileSync(picture.path ?? "", "utf8")).toBe("pixels");
    expect(kept()).toHaveLength(2);
    expect(registry.artifact("p")).toEqual({
      resource_id: "p",
      worker_name: "box",
      type: "file",
      size_bytes: 6,
      inline: false,
      expires_at: new Date(4_600_000).toISOString(),
      metadata: { width: 3 },
    });
    registry.drop("p");
    registry.drop("m");

    expect(kept()).toEqual([]);
    expect(existsSync(foreign)).toBe(true);
  });

  it("[W161] a worker's resource files survive the process; files without readable metadata do not", () => {
    const { registry, makeFile, root, kept } = open();
    registry.registerFile("p", makeFile("a", "one"), { scope: "s" });
    registry.registerJson("j", '{"a":1}');
    registry.registerFile("old", makeFile("b", "two"), { expiresAt: 1_000_001 });
    writeFileSync(path.join(root, "kept", "stray"), "x");

    const next = open({}, root);
    next.time.now = 2_000_000;
    next.registry.restoreFiles();

    expect(
      next.registry
        .list()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["j", "p"]);
    expect(next.registry.get("p")).toMatchObject({ scope: "s", sizeBytes: 3, createdAt: 1_000_000 });
    expect(next.registry.readJson("j")).toEqual({ a: 1 });
    expect(kept()).toHaveLength(4);
  });

  it("[W162] a worker evicts idle resources beyond the limit, least recently used first, and never one in use", () => {
    const { registry, time } = open({ memBytesMax: 100 });
    for (const id of ["a", "b", "c"]) {
      time.now++;
      registry.register({ id, type: "x", sizeBytes: 30 });
    }
    time.now++;
    registry.lease("a");
    registry.release("a");

    registry.register({ id: "d", type: "x", sizeBytes: 35 });
    expect(registry.list().map(({ id }) => id)).toEqual(["a", "c", "d"]);
    for (const id of ["a", "c", "d"]) registry.lease(id);

    expect(() => registry.register({ id: "e", type: "x", sizeBytes: 50 })).toThrow(
      expect.objectContaining({ code: "E.RESOURCE.FULL" }),
    );
    expect(registry.list()).toHaveLength(3);
  });

  it("[W162] the resources of a scope are removed together; one that is still leased is removed when it is released", () => {
    const { registry } = open();
    const gone: string[] = [];
    for (const id of ["a", "b"]) registry.register({ id, type: "x", scope: "s", onDrop: () => void gone.push(id) });
    registry.register({ id: "c", type: "x" });
    registry.lease("a");

    expect(registry.releaseScope("s")).toBe(2);
    expect(gone).toEqual(["b"]);
    expect(registry.get("a")).toBeUndefined();
    registry.register({ id: "a", type: "x" });
    registry.release("a");

    expect(gone).toEqual(["b", "a"]);
    expect(registry.list().map(({ id }) => id)).toEqual(["c", "a"]);
  });

  it("[W163] a worker's resources are reported as metrics, and not at all where there are none", () => {
    const { registry, time, makeFile } = open();
    expect(registry.metrics()).toEqual({});
    registry.register({ id: "m", type: "model", sizeBytes: 50 });
    registry.registerFile("f", makeFile("f", "12345"));
    registry.lease("m");
    time.now += 7_000;

    expect(registry.metrics()).toEqual({
      "resource.disk_bytes_in_use": 5,
      "resource.mem_bytes_in_use": 50,
      "resource.sessions_active": 1,
      "resource.eviction_candidates": 1,
      "resource.last_gc_seconds": 7,
    });
  });

  it("[W182] a resource that a result has named is reported with the reason when it is removed; others are not reported", () => {
    const { registry, time, notifications } = open({ ttlMs: 100, memBytesMax: 10 });
    for (const id of ["a", "b", "c", "unnamed"]) registry.register({ id, type: "model", scope: id, sizeBytes: 2 });
    for (const id of ["a", "b", "c"]) registry.artifact(id);
    registry.artifact("a");
    registry.lease("b");

    registry.drop("unnamed");
    registry.releaseScope("b");
    registry.register({ id: "c", type: "model", sizeBytes: 2 });
    time.now += 1;
    registry.register({ id: "large", type: "model", sizeBytes: 6 });
    expect(registry.referencedIds()).toEqual(["c"]);
    time.now += 100;
    registry.collectExpired();

    expect(notifications).toEqual(["announced a", "announced b", "announced c", "b released", "a evicted", "c expired"]);
  });

  it("[W182] resource files of an earlier process count as named by a result", () => {
    const { registry, root, makeFile } = open();
    registry.registerFile("f", makeFile("f.txt", "text"));

    registry.registerFile("old", makeFile("old.txt", "text"), { expiresAt: 1 });
    const again = open({}, root);
    again.registry.restoreFiles();

    expect(again.registry.referencedIds()).toEqual(["f"]);
    again.registry.drop("f");
    expect(again.notifications).toEqual(["f released"]);
  });

  it("[W1052] a file that is being stored is leased until it is, and its artifact says where it is from then on, also after a restart", async () => {
    const stored = { resourceId: "f1", downloadUrl: "/f1", filename: "a.txt", sizeBytes: 3, sha256: "00" };
    const transfer = Promise.withResolvers<typeof stored>();
    const { registry, root, makeFile, time } = open({}, undefined, () => transfer.promise);
    registry.registerFile("a", makeFile("a.txt", "abc"), { expiresAt: 1_000_100 });
    const upload = registry.upload("a");

    time.now = 1_000_200;
    registry.collectExpired();
    const during = registry.get("a")?.inUse;
    registry.touch("a", 2_000_000);
    transfer.resolve(stored);

    expect(await upload).toEqual(stored);
    expect(during).toBe(1);
    expect(registry.artifact("a")).toMatchObject({ metadata: { stored } });
    const { registry: next } = open({}, root);
    next.restoreFiles();
    expect(next.get("a")).toMatchObject({ inUse: 0, metadata: { stored } });
  });

  it("[W1052] a file of another worker is fetched once, kept like an own one, and makes room for itself", async () => {
    let fetched = 0;
    const { registry, makeFile, notifications } = open({ diskBytesMax: 10 }, undefined, async (transfer) => {
      if (transfer.type !== "download") throw new Error("not asked for");
      fetched++;
      expect(transfer.bytesMax).toBe(10);
      writeFileSync(transfer.path, "12345678");
      return { resourceId: transfer.resourceId, downloadUrl: "/f", filename: "f", sizeBytes: 8, sha256: "00" };
    });
    registry.registerFile("own", makeFile("a.txt", "abc"));
    registry.artifact("own");

    const first = await registry.download("f1");
    const second = await registry.download("f1", { scope: "run" });

    expect(first).toMatchObject({ id: "file f1", type: "file", sizeBytes: 8 });
    expect(readFileSync(String(second.path), "utf8")).toBe("12345678");
    expect(fetched).toBe(1);
    expect(notifications).toContain("own evicted");
  });

  it("[W1052] what is no file, is not here, or has no way to the scheduler cannot be stored", async () => {
    const { registry, makeFile } = open();
    registry.register({ id: "page", type: "page", value: {} });
    registry.registerFile("a", makeFile("a.txt", "abc"));

    await expect(registry.upload("page")).rejects.toMatchObject({ code: "E.PARAMS.INVALID" });
    await expect(registry.upload("nothing")).rejects.toMatchObject({ code: "E.RESOURCE.MISSING" });
    await expect(registry.upload("a")).rejects.toThrow("start it with a token");
    expect(registry.get("page")?.inUse).toBe(0);
    expect(registry.get("a")?.inUse).toBe(0);
  });

  it("[W1055] the report of what is kept changes with what is added and removed, not with leases and lifetimes, and lists the latest 64", () => {
    const { registry } = open();
    registry.register({ id: "a", type: "page", sizeBytes: 5 });
    const before = registry.report();

    registry.lease("a");
    registry.touch("a", 9_000_000);
    expect(registry.report()).toEqual(before);
    expect(before).toMatchObject({ count: 1, items: [{ resource_id: "a", type: "page", size_bytes: 5 }] });
    registry.release("a");
    for (let at = 0; at < 70; at++) registry.register({ id: `b${at}`, type: "model" });
    const many = registry.report();
    for (let at = 0; at < 70; at++) registry.drop(`b${at}`);

    expect(many).toMatchObject({ count: 71 });
    expect(many.items).toHaveLength(64);
    expect(many.items.at(-1)).toMatchObject({ resource_id: "b69" });
    expect(many.hash).not.toBe(before.hash);
    expect(registry.report()).toEqual(before);
  });
});
