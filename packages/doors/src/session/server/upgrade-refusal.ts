// Refusing an upgrade in plain HTTP: at that point nobody but us can answer on the raw socket.

import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Fault, faultCodes } from "@astraflow/protocol";

export function refuseUpgrade(socket: Duplex, why: Fault): void {
  const status = faultCodes[why.code].http;
  const body = JSON.stringify({ error: why.code, message: why.message });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}`,
    "Connection: close",
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  // The peer may be gone already, which changes nothing for us.
  socket.on("error", () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}
