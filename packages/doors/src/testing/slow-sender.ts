// A caller that sends its request slowly, as an attacker does who wants to hold connections: byte by byte, on a raw socket.

import { once } from "node:events";
import { connect } from "node:net";

export interface SlowSender {
  send(text: string): void;
  /** Resolves with everything received once that contains the text. */
  receive(text: string): Promise<string>;
  /** Resolves with everything received when the server has ended the connection. */
  readonly closed: Promise<string>;
  destroy(): void;
}

export interface SlowRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What Content-Length promises. */
  readonly bodyBytes: number;
}

export async function openSlowSender(port: number, host = "127.0.0.1"): Promise<SlowSender> {
  const socket = connect({ port, host });
  let received = "";
  let notify = (): void => undefined;
  socket.setEncoding("latin1").on("data", (text: string) => {
    received += text;
    notify();
  });
  // A server that ends the connection while we still send shows as an error; its close is all that counts.
  socket.on("error", () => socket.destroy());
  const closed = new Promise<string>((resolve) => void socket.once("close", () => resolve(received)));
  await once(socket, "connect");
  return {
    send: (text) => void socket.write(text, "latin1"),
    receive: (text) =>
      new Promise((resolve, reject) => {
        notify = () => void (received.includes(text) && resolve(received));
        closed.then(() => reject(new Error(`the connection ended after: ${received}`)), reject);
        notify();
      }),
    closed,
    destroy: () => socket.destroy(),
  };
}

/** The head of a request, and no byte of its body. Resolves when the server waits for that body. */
export async function beginSlowRequest(
  port: number,
  { method, path, headers = {}, bodyBytes }: SlowRequest,
): Promise<SlowSender> {
  const sender = await openSlowSender(port);
  const fields = { host: "127.0.0.1", "content-type": "application/json", "content-length": bodyBytes, ...headers };
  const lines = Object.entries({ ...fields, expect: "100-continue" }).map(([name, value]) => `${name}: ${value}`);
  sender.send(`${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  await sender.receive("100 Continue");
  return sender;
}
