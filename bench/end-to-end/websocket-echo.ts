// The limit for the end-to-end bench: two processes that exchange JSON of 600 bytes over a plain WebSocket and parse and write it at both ends. Started by
// end-to-end-bench.ts as `server` or `client`; ends with the channel to its parent.

import type { AddressInfo } from "node:net";
import WebSocket, { WebSocketServer } from "ws";

/** What the client is asked for, and what it answers. */
export interface EchoRequest {
  readonly port: number;
  readonly inFlight: number;
  readonly ms: number;
}
export interface EchoResult {
  readonly trips: number;
  readonly ms: number;
}

const frameBytes = 600;

function serveEcho(): void {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => {
    socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as { seq: number };
      frame.seq += 1;
      socket.send(JSON.stringify(frame));
    });
  });
  server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
}

/** As many fields as a frame of ours has, filled up to its size. */
function makeFrame(): { seq: number } {
  const frame = {
    type: "biz.exec.dispatch",
    id: "01a1ddc8-94b3-7000-b16a-5ee01a6f063f.0#1794722273422",
    ts: "2026-01-05T09:00:00.000Z",
    tenant: "default",
    sender: { role: "scheduler", id: "scheduler-control" },
    seq: 0,
    ack: { request: true },
    payload: { run_id: "01a1ddc8-94b3-7000-b16a-5ee01a6f063f", parameters: {}, constraints: {}, filling: "" },
  };
  frame.payload.filling = "x".repeat(frameBytes - JSON.stringify(frame).length);
  return frame;
}

function runEchoClient(request: EchoRequest): void {
  const socket = new WebSocket(`ws://127.0.0.1:${request.port}`, { perMessageDeflate: false });
  let trips = 0;
  let from = 0;
  socket.on("open", () => {
    from = performance.now();
    for (let at = 0; at < request.inFlight; at++) socket.send(JSON.stringify(makeFrame()));
  });
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data)) as { seq: number };
    trips += 1;
    const ms = performance.now() - from;
    if (ms < request.ms) return socket.send(JSON.stringify(frame));
    // What is still under way is not counted.
    socket.removeAllListeners("message");
    socket.close();
    process.send?.({ trips, ms } satisfies EchoResult);
  });
}

process.on("disconnect", () => process.exit(0));
if (process.argv[2] === "server") serveEcho();
else process.on("message", (ask) => runEchoClient(ask as EchoRequest));
if (process.argv[2] === "client") process.send?.("ready");
