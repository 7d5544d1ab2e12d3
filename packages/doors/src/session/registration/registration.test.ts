import { Fault, type PkgCatalogPayload, readPayload } from "@astraflow/protocol";
import { sampleManifest } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";
import { Registration } from "./registration.ts";
import type { HandshakeIdentity } from "./worker-handshake.ts";

const bound: HandshakeIdentity = {
  tenant: "default",
  instance: "w-1",
  worker: "default/w-1",
  dialect: "v2",
  displayInfo: { name: "painter", version: "1.0.0", hostname: "box" },
  handshakeFrameId: "control.handshake-0",
  authenticated: { tenant: "default", user: "ann", credential: "ann", thumbprint: null },
  sessionKey: null,
  freshBootId: null,
  isProcessUnknown: true,
  isHandshakeNumbered: false,
};
const speaker = { tenant: "default", worker: "default/w-1", session: "s-1", dialect: "v2" } as const;
const heavy = { readme: "y".repeat(4 * 1024 * 1024) };
const ackRequested = { ack: { request: true } };

const registrationOf = (more: Record<string, unknown>): Registration => {
  const read = readPayload("v2", "control.register", registerPayload(more));
  if (read instanceof Fault) throw read;
  return new Registration(read, "v2", null);
};

describe("what is kept of a worker's introduction", () => {
  it("[D94] a registration keeps the description that the engine gets, not the manifests it was read from", () => {
    const { packages: _, ...rest } = registerPayload();
    const read = readPayload("v2", "control.register", {
      ...rest,
      manifests: [{ name: "a", version: "1.0.0", manifest: heavy }],
    });
    if (read instanceof Fault) throw read;
    const registration = new Registration(read, "v2", null);
    const [listed] = registration.buildJoin(bound, "s-1").about.packages;
    registration.replaceCatalog({
      packages: [{ name: "b", version: "2.0.0", status: "installed", manifest: heavy }],
    } as PkgCatalogPayload);

    expect(listed).toEqual({ name: "a", version: "1.0.0", status: "installed" });
    expect(registration.buildDescribe(bound, speaker).about.packages).toEqual([
      { name: "b", version: "2.0.0", status: "installed" },
    ]);
    expect(JSON.stringify(registration).length).toBeLessThan(2_000);
  });

  it("[D140] a registration names the manifest of each package by a digest that does not depend on the order of its keys, and heartbeats keep it", () => {
    const manifest = sampleManifest("demo", "1.0.0");
    const reversed = Object.fromEntries(Object.entries(manifest).reverse());
    const registered = (given: object) => {
      const packages = [{ name: "demo", version: "1.0.0", status: "installed" }];
      return registrationOf({ packages, manifests: [{ name: "demo", version: "1.0.0", manifest: given }] });
    };
    const digestOf = (registration: Registration) => registration.buildJoin(bound, "s-1").about.packages[0]?.manifest;
    const first = registered(manifest);

    const digest = digestOf(first);
    first.updateInstalled([]);
    first.updateInstalled([
      { name: "demo", version: "1.0.0", status: "installed" },
      { name: "new", version: "1.0.0", status: "installed" },
    ] as never);

    expect(digest).toMatch(/^[\w-]{22}$/);
    expect(digestOf(registered(reversed))).toBe(digest);
    expect(digestOf(registered({ ...manifest, description: "another" }))).not.toBe(digest);
    expect(first.buildDescribe(bound, speaker).about.packages).toEqual([
      { name: "demo", version: "1.0.0", status: "installed", manifest: digest },
      { name: "new", version: "1.0.0", status: "installed" },
    ]);
  });

  it("[D94] a registration keeps the running attempts it named until the join is stored, and no longer", () => {
    const running = Array.from({ length: 1_000 }, (_, n) => ({ task_id: `r.${n}`, fence: 1 }));
    const registration = registrationOf({ running });

    expect(registration.buildJoin(bound, "s-1").running).toHaveLength(1_000);
    registration.markJoined();

    expect(JSON.stringify(registration)).not.toContain("r.999");
    expect(registration.buildRejoin(bound, "s-1", [])).toMatchObject({ running: null, resumed: { unacked: [] }, boot: "boot-1" });
  });
});

describe("a worker that says too much of itself", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const tags = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`tag-${n}`, "t".repeat(100)]));
  const { capabilities } = registerPayload();

  it("[D94] a worker whose description is too large is reset before the engine gets it, at its first register and at a later one", async () => {
    fixture = await openDoorsFixture();
    const early = await fixture.connectWorker();
    early.sendFrame("control.handshake", handshakePayload(), ackRequested);
    early.sendFrame("control.register", registerPayload({ capabilities: { ...capabilities, tags } }), ackRequested);
    expect((await early.nextFrame("control.reset")).payload).toMatchObject({ code: "E.FRAME.TOO_LARGE" });
    expect(fixture.engine.commands).toEqual([]);

    const late = await fixture.openSession();
    late.sendFrame("control.register", registerPayload({ capabilities: { ...capabilities, tags } }), ackRequested);
    expect((await late.nextFrame("control.reset")).payload).toMatchObject({ code: "E.FRAME.TOO_LARGE" });
    await late.closed;
    expect(fixture.engine.commands.map((command) => command.type)).toEqual(["worker.join", "worker.leave"]);
  });
});
