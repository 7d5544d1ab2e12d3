// A network that a test can break: what a client sends still reaches the server, and the answers never come back.

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** From now on nothing of the server's reaches anybody who is connected now. */
  dropReplies(): void;
  /** Ends the clients' side of what lost its answers; the server's side stays as it is until it is done. */
  closeClients(): void;
  stop(): Promise<void>;
}

export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<{ client: Socket; server: Socket; isMute: boolean }>();
  const listener = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    const pair = { client, server, isMute: false };
    pairs.add(pair);
    client.on("data", (data) => server.write(data));
    server.on("data", (data) => {
      if (!pair.isMute) client.write(data);
    });
    client.on("close", () => {
      if (!pair.isMute) server.destroy();
    });
    server.on("close", () => {
      pairs.delete(pair);
      client.destroy();
    });
    for (const socket of [client, server]) socket.on("error", () => socket.destroy());
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server has no port");
  return {
    port: address.port,
    dropReplies() {
      for (const pair of pairs) pair.isMute = true;
    },
    closeClients() {
      for (const pair of pairs) if (pair.isMute) pair.client.destroy();
    },
    async stop() {
      for (const { client, server } of pairs) {
        client.destroy();
        server.destroy();
      }
      listener.close();
      await once(listener, "close");
    },
  };
}
