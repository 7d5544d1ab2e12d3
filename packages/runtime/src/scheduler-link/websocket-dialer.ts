// The worker's socket: one at a time, dialled out, text in and text out. A simulator brings its own.

import type { Socket } from "node:net";
import { limits } from "@astraflow/protocol";
import WebSocket from "ws";
import type { WorkerEnvironment } from "../system/environment.ts";

/** The address of the last dial, or the one after it. */
export type DialTarget = "same" | "next";

export interface DialerEvents {
  connectionOpened(): void;
  messageReceived(text: string): void;
  /** The socket is gone, or never came up; `hint` where one address is the better next try. Said once per dial, unless it was hung up here. */
  connectionLost(reason: string, target?: DialTarget): void;
}

export interface SchedulerDialer {
  /** Opens a socket to the last address or to the next one; `opened` or `lost` must follow, never before this has returned. */
  dial(target: DialTarget): void;
  /** Lost silently where no socket is open. */
  send(text: string): void;
  /** Ends the current socket; no more events of it follow. */
  closeConnection(code: number, reason: string): void;
  /** Bytes that wait in the socket, where that is known. */
  bufferedBytes?(): number;
  /** Resolves once the last socket that was hung up is really gone, so that what it was given has left. */
  whenClosed(): Promise<void>;
}

/** What `wss:` needs beside the system's own authorities: texts in PEM. */
export interface TlsCredentials {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** How long the other end may take to answer a close before the socket is torn down. */
const closeWaitMs = 1_000;

/** A scheduler that hangs is left in time to reach the next before the lease ends; one that waits for its store answers pings. */
const livenessCheckMs = 1_000;
const checksPerPing = 5;
const silentChecksMax = 10;

export class WebSocketDialer implements SchedulerDialer {
  readonly #urls: readonly string[];
  readonly #events: DialerEvents;
  readonly #environment: Pick<WorkerEnvironment, "after" | "defer">;
  readonly #tls: () => TlsCredentials;
  #urlIndex = -1;
  #socket: WebSocket | undefined;
  #pendingClose: Promise<void> = Promise.resolve();

  /** `urls` are replicas of one scheduler. `tls` is read at each dial, so that a replaced certificate is used; it may throw. */
  constructor(
    urls: readonly string[],
    events: DialerEvents,
    environment: Pick<WorkerEnvironment, "after" | "defer">,
    { tls = () => ({}) }: { readonly tls?: () => TlsCredentials } = {},
  ) {
    this.#urls = urls;
    this.#events = events;
    this.#environment = environment;
    this.#tls = tls;
  }

  dial(target: DialTarget): void {
    if (target === "next" || this.#urlIndex < 0) this.#urlIndex = (this.#urlIndex + 1) % this.#urls.length;
    const url = this.#urls[this.#urlIndex] ?? "";
    const socket = this.#openSocket(url);
    if (socket instanceof Error) return this.#environment.defer(() => this.#events.connectionLost(socket.message));
    this.#socket = socket;
    let problem = "";
    // A scheduler that hangs would let the lease run out if it were asked first again.
    let whereNext: DialTarget = "same";
    let stopWatch = () => {};
    socket.on("upgrade", (response) => {
      stopWatch = this.#watchLiveness(socket, response.socket, (why) => {
        problem = why;
        whereNext = "next";
        socket.terminate();
      });
    });
    socket.on("open", () => this.#isCurrent(socket) && this.#events.connectionOpened());
    // Workers of the field also take binary messages that hold the same text, so a scheduler may send either.
    socket.on("message", (data) => this.#isCurrent(socket) && this.#events.messageReceived(String(data)));
    socket.on("error", (error) => {
      problem = error.message;
    });
    socket.on("close", (code, reason) => {
      stopWatch();
      if (!this.#isCurrent(socket)) return;
      this.#socket = undefined;
      this.#events.connectionLost(
        problem || `the connection was closed (${code}${reason.length > 0 ? ` ${String(reason)}` : ""})`,
        whereNext,
      );
    });
  }

  /** The other end's certificate must be that of the host in the address: nothing here switches that off. */
  #openSocket(url: string): WebSocket | Error {
    try {
      const tls = url.startsWith("wss:") ? { ...this.#tls(), minVersion: "TLSv1.2" as const } : {};
      // Compression costs ten times what it saves on small frames; it stays off.
      return new WebSocket(url, {
        perMessageDeflate: false,
        maxPayload: limits.frameToWorkerBytesMax,
        handshakeTimeout: 10_000,
        ...tls,
      });
    } catch (thrown) {
      // A certificate that cannot be read or makes no sense is a reason to try again later: somebody may be replacing it.
      return thrown instanceof Error ? thrown : new Error(String(thrown));
    }
  }

  bufferedBytes(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  send(text: string): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  closeConnection(code: number, reason: string): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    this.#socket = undefined;
    const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const cancel = this.#environment.after(closeWaitMs, () => socket.terminate());
    this.#pendingClose = gone.finally(cancel);
    socket.close(code, truncateCloseReason(reason));
  }

  whenClosed(): Promise<void> {
    return this.#pendingClose;
  }

  /** Any byte is a sign of life. Looks are counted, not milliseconds: a process that was stopped for a minute has looked once. */
  #watchLiveness(socket: WebSocket, stream: Socket, dead: (why: string) => void): () => void {
    let bytes = stream.bytesRead;
    let looks = 0;
    let silentLooks = 0;
    let cancel = () => {};
    const look = (): void => {
      looks++;
      silentLooks = stream.bytesRead === bytes ? silentLooks + 1 : 0;
      bytes = stream.bytesRead;
      if (silentLooks >= silentChecksMax)
        return dead(
          `nothing was received from the scheduler for ${(silentLooks * livenessCheckMs) / 1_000} s, not even answers to pings`,
        );
      if (looks % checksPerPing === 0 && socket.readyState === WebSocket.OPEN) socket.ping();
      cancel = this.#environment.after(livenessCheckMs, look);
    };
    cancel = this.#environment.after(livenessCheckMs, look);
    return () => cancel();
  }

  #isCurrent(socket: WebSocket): boolean {
    return this.#socket === socket;
  }
}

/** A close reason may have 123 bytes. */
function truncateCloseReason(reason: string): string {
  let cut = reason.slice(0, 123);
  while (Buffer.byteLength(cut) > 123) cut = cut.slice(0, -1);
  return cut;
}
