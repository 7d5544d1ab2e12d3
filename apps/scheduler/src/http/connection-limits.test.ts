import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { ConnectionLimits } from "./connection-limits.ts";
import { bindServer } from "./http-server.ts";

class FakeSocket extends EventEmitter {
  isDestroyed = false;
  readonly remoteAddress: string;
  readonly remotePort: number;
  constructor(remoteAddress: string, remotePort: number) {
    super();
    this.remoteAddress = remoteAddress;
    this.remotePort = remotePort;
  }
  destroy(): void {
    this.isDestroyed = true;
    this.emit("close");
  }
}

function openLimits(connectionsMax: number, trustedProxies: readonly string[] = []) {
  const reported: number[] = [];
  const limits = new ConnectionLimits({ connectionsMax, trustedProxies, onRefused: (refused) => reported.push(refused) });
  let port = 1_000;
  const open = (address: string, count: number) =>
    Array.from({ length: count }, () => {
      const socket = new FakeSocket(address, port++);
      limits.admit(socket as unknown as Socket);
      return socket;
    });
  return {
    limits,
    reported,
    open,
    countOpen: (sockets: readonly FakeSocket[]) => sockets.filter((one) => !one.isDestroyed).length,
  };
}

describe("the limit of connections", () => {
  it("[O890] connections beyond the total are closed at once, and there is room again when others end", () => {
    const { limits, reported, open, countOpen } = openLimits(10);
    const first = open("10.0.0.1", 5);
    const second = open("10.0.0.2", 5);

    expect(countOpen(open("10.0.0.3", 3))).toBe(0);
    first[0]?.destroy();
    expect(countOpen(open("10.0.0.3", 3))).toBe(1);

    expect([countOpen(second), limits.open]).toEqual([5, 10]);
    expect(reported).toEqual([1, 2, 4]);
  });

  it.each(["10.0.0.1", "2001:db8::7", "::ffff:10.0.0.9"])(
    "[O890] one address (%s) may have half of the connections",
    (address) => {
      const { open, countOpen } = openLimits(10);

      expect(countOpen(open(address, 8))).toBe(5);
      expect(countOpen(open("10.9.9.9", 8))).toBe(5);
    },
  );

  it("[O890] addresses of one IPv6 network count as one", () => {
    const { open, countOpen } = openLimits(10);

    const sockets = Array.from({ length: 8 }, (_, at) => open(`2001:db8::${at}`, 1)).flat();

    expect(countOpen(sockets)).toBe(5);
  });

  it.each([
    ["127.0.0.1", []],
    ["::1", []],
    ["::ffff:127.0.0.1", []],
    ["10.0.0.5", ["10.0.0.5"]],
    ["10.7.0.5", ["10.0.0.0/8"]],
  ])("[O890] the callers behind a proxy at %s may have all of them", (address, proxies) => {
    const { open, countOpen } = openLimits(10, proxies);

    expect(countOpen(open(address, 12))).toBe(10);
  });

  it("[O890] a worker's socket leaves the count with its upgrade", () => {
    const { limits, open, countOpen } = openLimits(4);
    const [worker] = open("127.0.0.1", 4);

    limits.releaseUpgraded(worker as unknown as Socket);

    expect(countOpen(open("127.0.0.1", 2))).toBe(1);
    worker?.destroy();
    expect(limits.open).toBe(4);
  });

  it("[O890] the server closes a connection beyond its total without an answer and serves those that it has", async () => {
    const bound = await bindServer({ host: "127.0.0.1", port: 0 }, null, { connectionsMax: 2, trustedProxies: [] });
    const held = [connect(bound.port, "127.0.0.1"), connect(bound.port, "127.0.0.1")];
    await Promise.all(held.map((socket) => once(socket, "connect")));

    const further = connect(bound.port, "127.0.0.1");
    // Depending on the moment the other end sees an end or a reset.
    const seen = await new Promise<string>((resolve) => {
      further.on("error", () => resolve("closed"));
      further.on("close", () => resolve("closed"));
      further.on("data", (data) => resolve(String(data)));
    });
    held[0]?.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    const [answer] = await once(held[0] as Socket, "data");

    expect(seen).toBe("closed");
    expect(String(answer)).toMatch(/^HTTP\/1.1 503 /);
    for (const socket of held) socket.destroy();
    await bound.close();
  });
});
