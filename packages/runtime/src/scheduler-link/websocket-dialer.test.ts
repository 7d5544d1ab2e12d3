import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { WebSocketDialer } from "./websocket-dialer.ts";

const endings: (() => void)[] = [];
afterEach(() => {
  for (const end of endings.splice(0)) end();
});

/** A real socket to a real server, and a clock that the test moves by one timer. */
async function connect(manner: { autoPong: boolean }) {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, ...manner });
  endings.push(() => server.close());
  await once(server, "listening");
  const timers = new Set<() => void>();
  const opened = Promise.withResolvers<void>();
  const lost = Promise.withResolvers<[reason: string, hint: string | undefined]>();
  const events = {
    connectionOpened: opened.resolve,
    messageReceived: () => undefined,
    connectionLost: (...how: [string, string?]) => lost.resolve([how[0], how[1]]),
  };
  const dialer = new WebSocketDialer([`ws://127.0.0.1:${(server.address() as AddressInfo).port}`], events, {
    after(_ms, call) {
      timers.add(call);
      return () => timers.delete(call);
    },
    defer: setImmediate,
  });
  endings.push(() => dialer.closeConnection(1000, "done"));
  const connection = once(server, "connection") as Promise<[WebSocket]>;
  dialer.dial("next");
  const [peer] = await connection;
  endings.push(() => peer.terminate());
  await opened.promise;
  const fire = () => {
    const due = [...timers];
    timers.clear();
    for (const call of due) call();
  };
  return { dialler: dialer, peer, connectionLost: lost.promise, fire, timers };
}

it("[W66] the worker pings a scheduler that hangs, and drops the connection with the reason after ten seconds of silence", async () => {
  const { peer, connectionLost: lost, fire, timers } = await connect({ autoPong: false });
  const pinged = once(peer, "ping");

  for (let second = 1; second <= 9; second++) fire();
  await pinged;
  expect(timers.size).toBe(1);
  fire();

  expect(await lost).toEqual(["nothing was received from the scheduler for 10 s, not even answers to pings", "next"]);
  expect(timers.size).toBe(0);
});

it("[W66] the worker keeps the connection to a scheduler that sends nothing but answers pings", async () => {
  const { peer, connectionLost: lost, fire } = await connect({ autoPong: true });
  let isLost = false;
  void lost.then(() => {
    isLost = true;
  });

  for (let ping = 1; ping <= 6; ping++) {
    const pinged = once(peer, "ping");
    for (let second = 1; second <= 5; second++) fire();
    await pinged;
    // Once our own ping is answered, the worker has read the pong before it.
    const read = once(peer, "pong");
    peer.ping();
    await read;
  }

  expect(isLost).toBe(false);
});

it("[W66] the dialer no longer watches a socket that it has closed", async () => {
  const { dialler: dialer, timers } = await connect({ autoPong: true });

  dialer.closeConnection(1000, "done");
  await dialer.whenClosed();

  expect(timers.size).toBe(0);
});
