// Many small requests at the same moment: every connection is open before the first of them sends, and each sends one request.

import { connect, type Socket } from "node:net";

export interface BurstRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly token: string;
  readonly body?: string;
}

/** How often each status came; 0: the connection ended without an answer. */
export type BurstAnswers = ReadonlyMap<number, number>;

export async function sendBurst(http: string, count: number, request: BurstRequest): Promise<BurstAnswers> {
  const { hostname, port } = new URL(http);
  const text = writeRequest(hostname, request);
  const sockets = await Promise.all(Array.from({ length: count }, () => openSocket(hostname, Number(port))));
  const answers = new Map<number, number>();
  await Promise.all(
    sockets.map(async (socket) => {
      const status = await askOnce(socket, text);
      answers.set(status, (answers.get(status) ?? 0) + 1);
    }),
  );
  return answers;
}

function writeRequest(host: string, { method, path, token, body }: BurstRequest): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${host}`,
    `authorization: Bearer ${token}`,
    "connection: close",
    ...(body === undefined ? [] : ["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`]),
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body ?? ""}`;
}

function openSocket(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => {
      socket.off("error", reject);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

/** The status of the answer; the rest of it is read and forgotten. */
function askOnce(socket: Socket, text: string): Promise<number> {
  return new Promise((resolve) => {
    let status = 0;
    socket.on("data", (bytes) => {
      if (status === 0) status = Number(bytes.toString("latin1", 9, 12));
    });
    // A connection that is cut off is a status of its own.
    socket.on("error", () => socket.destroy());
    socket.on("close", () => resolve(status));
    socket.write(text);
  });
}

export const countStatuses = (answers: BurstAnswers): string =>
  [...answers].map(([status, count]) => `${count} x ${status}`).join(", ");
