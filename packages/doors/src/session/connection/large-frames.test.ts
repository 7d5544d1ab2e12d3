import { limits } from "@astraflow/protocol";
import { createFakeEngine, createFakeEnvironment, sampleManifest } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";
import { encodeFrame, nextLoopTurn, RecordingSocket } from "../../testing/recording-socket.ts";
import { SessionServer } from "../server/session-server.ts";
import { type SessionLimits, sessionLimits } from "./session-limits.ts";

const large = "x".repeat(sessionLimits.largeFrameBytesMin);

/** A server whose pauses are counted, and end when the test lets them. */
function openServer(limits: Partial<SessionLimits> = {}) {
  const engine = createFakeEngine();
  const environment = createFakeEnvironment();
  const pauses: (() => void)[] = [];
  const yieldLoop = () => new Promise<void>((resolve) => pauses.push(resolve));
  const server = new SessionServer({
    engineClient: engine.client,
    authenticator: createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() }),
    environment: { ...environment, yieldLoop },
    metrics: createMetricsRegistry(),
    limits,
  });
  let pausesEnded = 0;
  return {
    engine,
    environment,
    /** A worker that has sent its handshake. */
    async connect(instance: string) {
      const socket = new RecordingSocket();
      const events = server.acceptSocket(socket);
      const greeting = handshakePayload();
      const worker = { ...greeting.worker, worker_instance_id: instance };
      const sender = { role: "worker", id: instance };
      const send = (type: string, payload: object, more: object = {}) =>
        events.message(encodeFrame(type, payload, { sender, ...more }), false);
      send("control.handshake", { ...greeting, worker });
      await nextLoopTurn();
      return { socket, events, send };
    },
    async endPause(): Promise<void> {
      pauses.shift()?.();
      pausesEnded += 1;
      await nextLoopTurn();
    },
    /** Ends all pauses, and says how many there were. */
    async endPauses(): Promise<number> {
      await nextLoopTurn();
      while (pauses.length > 0) await this.endPause();
      return pausesEnded;
    },
    get pausesNow() {
      return pauses.length;
    },
  };
}

const manifestsOf = (count: number, description: string) =>
  Array.from({ length: count }, (_, at) => ({
    name: `package-${at}`,
    version: "1.0.0",
    manifest: { ...sampleManifest(`package-${at}`, "1.0.0"), description },
  }));

const registerOf = (count: number, description: string) => {
  const { packages: _, ...rest } = registerPayload();
  return { ...rest, manifests: manifestsOf(count, description) };
};

describe("large frames of workers", () => {
  it("[D802] large frames of several workers are read one at a time, with a pause before each, after it is read and after each of its manifests", async () => {
    const server = openServer();
    const first = await server.connect("w-1");
    const second = await server.connect("w-2");

    first.send("control.register", registerOf(20, "d".repeat(40_000)));
    second.send("control.register", registerOf(20, "e".repeat(40_000)));
    await nextLoopTurn();
    const pausesAtOnce = server.pausesNow;
    const joinsBefore = server.engine.commands.length;
    const pauses = await server.endPauses();

    expect(pausesAtOnce).toBe(1);
    expect(joinsBefore).toBe(0);
    expect(pauses).toBeGreaterThan(2 * (2 + 20));
    const joins = server.engine.commands.filter((command) => command.type === "worker.join");
    expect(joins.map(({ worker }) => worker)).toEqual(["default/w-1", "default/w-2"]);
    for (const { about } of joins)
      expect(about.packages.map(({ manifest }) => manifest)).toEqual(Array(20).fill(expect.stringMatching(/^[\w-]{22}$/)));
  });

  it("[D802] what follows a large frame on its socket waits for it and is handled in order, and the socket is not read meanwhile", async () => {
    const server = openServer();
    const { send, socket } = await server.connect("w-1");
    send("control.register", registerPayload());
    await nextLoopTurn();
    const result = (task: string, text: string) => ({
      run_id: "r",
      task_id: task,
      status: "SUCCEEDED",
      result: { text },
      fence: 7,
    });

    send("biz.exec.result", result("r.1", large));
    send("biz.exec.result", result("r.2", large));
    send("biz.exec.result", result("r.3", ""));
    const before = server.engine.commands.filter((command) => command.type === "task.result").length;
    const callsBefore = [...socket.calls];
    await server.endPauses();

    expect(before).toBe(0);
    expect(callsBefore).toContain("pause");
    expect(socket.calls.at(-1)).toBe("resume");
    const results = server.engine.commands.filter((command) => command.type === "task.result");
    expect(results.map(({ task }) => task)).toEqual(["r.1", "r.2", "r.3"]);
  });

  it("[D802] a large frame whose socket closes while it waits or is read has no effect, and the next one is read", async () => {
    const server = openServer();
    const waiting = await server.connect("w-1");
    const interrupted = await server.connect("w-2");
    const last = await server.connect("w-3");
    for (const { send } of [waiting, interrupted, last]) send("control.register", registerOf(20, "f".repeat(40_000)));

    waiting.events.closed(1006);
    for (let pause = 0; pause < 5; pause += 1) await server.endPause();
    interrupted.events.closed(1006);
    await server.endPauses();

    expect(server.engine.commands.map((command) => "worker" in command && command.worker)).toEqual(["default/w-3"]);
  });

  it("[D801] a register of 40 packages with 4 MB is accepted, and a frame above 8 MiB is answered with its code", async () => {
    const server = openServer();
    const usual = await server.connect("w-1");
    const tooLarge = await server.connect("w-2");

    usual.send("control.register", registerOf(40, "g".repeat(100_000)));
    tooLarge.send("control.register", { ...registerPayload(), more: "x".repeat(limits.frameBytesMax) });
    await server.endPauses();

    expect(usual.socket.types).toContain("control.session.accept");
    expect(tooLarge.socket.types.at(-1)).toBe("control.reset");
    expect(server.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.reset", code: "E.FRAME.TOO_LARGE" }),
    );
  });

  it("[D890] a large frame is read in steps: the larger it is, the more pauses there are while it is read", async () => {
    const countPauses = async (length: number) => {
      const server = openServer();
      const { send } = await server.connect("w-1");
      send("control.register", registerPayload());
      await nextLoopTurn();
      const items = Array.from({ length }, (_, at) => ({ at, name: "x".repeat(100) }));
      send("biz.exec.result", { run_id: "r", task_id: "r.1", status: "SUCCEEDED", result: { items }, fence: 7 });
      const pauses = await server.endPauses();
      expect(server.engine.commands.at(-1)).toMatchObject({ type: "task.result", result: JSON.stringify({ items }) });
      return pauses;
    };

    const [one, six] = [await countPauses(7_500), await countPauses(45_000)];

    // A step has 256 Ki characters; a frame of 6 MB is scanned in 22 of them and parsed in as many.
    expect(one).toBeGreaterThan(2 * 3);
    expect(six).toBeGreaterThan(2 * 21);
  });

  it("[D890] where more large frames wait than the total allows, the session of a further one is reset as overloaded", async () => {
    const server = openServer({ largeFramesBytesMax: 1.5 * large.length });
    const first = await server.connect("w-1");
    const second = await server.connect("w-2");

    first.send("control.register", { ...registerPayload(), more: large });
    second.send("control.register", { ...registerPayload(), more: large });
    await nextLoopTurn();
    const typesAtOnce = second.socket.types;
    await server.endPauses();
    await nextLoopTurn();

    expect(typesAtOnce.at(-1)).toBe("control.reset");
    expect(server.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.reset", code: "E.OVERLOADED" }),
    );
    expect(first.socket.types).toContain("control.session.accept");
  });
});
