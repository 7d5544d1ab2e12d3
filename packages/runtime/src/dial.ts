// The worker's socket: one at a time, dialled out, text in and text out. Real ones are WebSockets; a simulator brings its own.
// What the texts mean is the link's business.

import type { Socket } from "node:net";
import { limits } from "@astraflow/protocol";
import WebSocket from "ws";
import type { DialHint } from "./link-ports.ts";
import type { Outside } from "./outside.ts";

export interface DialEvents {
  opened(): void;
  received(text: string): void;
  /** The socket is gone, or never came up; `hint` where one address is the better next try. Said once per dial, unless it was hung up here. */
  lost(reason: string, hint?: DialHint): void;
}

/** A line to the scheduler that can be opened again and again. */
export interface Dialling {
  /** Opens a socket to the last address or to the next one; `opened` or `lost` must follow, never before this has returned. */
  dial(hint: DialHint): void;
  /** Lost silently where no socket is open. */
  send(text: string): void;
  /** Ends the current socket; nothing more is heard of it. */
  hangUp(code: number, reason: string): void;
  /** Bytes that wait in the socket, where that is known. */
  buffered?(): number;
  /** Resolves once the last socket that was hung up is really gone, so that what it was given has left. */
  closed(): Promise<void>;
}

/** What `wss:` needs beside the system's own authorities: texts in PEM. */
export interface TlsFiles {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** How long the other end may take to answer a close before the socket is torn down. */
const closeWaitMs = 1_000;

/**
 * Whether the other end lives is another question than whether the lease was renewed. A scheduler that hangs must be left while there
 * is time to reach the next before the lease ends; one that only waits for its store answers pings and is stayed with.
 */
const lookMs = 1_000;
const looksPerPing = 5;
const silentLooksMax = 10;

export class Dialler implements Dialling {
  readonly #urls: readonly string[];
  readonly #events: DialEvents;
  readonly #outside: Pick<Outside, "after" | "soon">;
  readonly #tls: () => TlsFiles;
  #at = -1;
  #socket: WebSocket | undefined;
  #closing: Promise<void> = Promise.resolve();

  /**
   * Several addresses are those of one scheduler's replicas. `tls` is asked at each dial, so that a certificate that was replaced is
   * used from the next connection on; what it throws is why the dial failed.
   */
  constructor(
    urls: readonly string[],
    events: DialEvents,
    outside: Pick<Outside, "after" | "soon">,
    { tls = () => ({}) }: { readonly tls?: () => TlsFiles } = {},
  ) {
    this.#urls = urls;
    this.#events = events;
    this.#outside = outside;
    this.#tls = tls;
  }

  dial(hint: DialHint): void {
    if (hint === "next" || this.#at < 0) this.#at = (this.#at + 1) % this.#urls.length;
    const url = this.#urls[this.#at] ?? "";
    const socket = this.#open(url);
    if (socket instanceof Error) return this.#outside.soon(() => this.#events.lost(socket.message));
    this.#socket = socket;
    let problem = "";
    // A scheduler that hangs would let the lease run out if it were asked first again.
    let whereNext: DialHint = "same";
    let stopWatch = () => {};
    socket.on("upgrade", (response) => {
      stopWatch = this.#watch(socket, response.socket, (why) => {
        problem = why;
        whereNext = "next";
        socket.terminate();
      });
    });
    socket.on("open", () => this.#isCurrent(socket) && this.#events.opened());
    // Workers of the field also take binary messages that hold the same text, so a scheduler may send either.
    socket.on("message", (data) => this.#isCurrent(socket) && this.#events.received(String(data)));
    socket.on("error", (error) => {
      problem = error.message;
    });
    socket.on("close", (code, reason) => {
      stopWatch();
      if (!this.#isCurrent(socket)) return;
      this.#socket = undefined;
      this.#events.lost(
        problem || `the connection was closed (${code}${reason.length > 0 ? ` ${String(reason)}` : ""})`,
        whereNext,
      );
    });
  }

  /** The other end's certificate must be that of the host in the address: nothing here switches that off. */
  #open(url: string): WebSocket | Error {
    try {
      const tls = url.startsWith("wss:") ? { ...this.#tls(), minVersion: "TLSv1.2" as const } : {};
      // Compression costs ten times what it saves on small frames; it stays off.
      return new WebSocket(url, { perMessageDeflate: false, maxPayload: limits.frameBytesMax, handshakeTimeout: 10_000, ...tls });
    } catch (thrown) {
      // A certificate that cannot be read or makes no sense is a reason to try again later: somebody may be replacing it.
      return thrown instanceof Error ? thrown : new Error(String(thrown));
    }
  }

  buffered(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  send(text: string): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  hangUp(code: number, reason: string): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    this.#socket = undefined;
    const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const cancel = this.#outside.after(closeWaitMs, () => socket.terminate());
    this.#closing = gone.finally(cancel);
    socket.close(code, cutUtf8(reason));
  }

  closed(): Promise<void> {
    return this.#closing;
  }

  /**
   * Any byte is a sign of life, so a large frame on a slow line is one too. Looks are counted and not milliseconds: a process that was
   * itself stopped for a minute has looked once, and has not yet read what came meanwhile.
   */
  #watch(socket: WebSocket, stream: Socket, dead: (why: string) => void): () => void {
    let bytes = stream.bytesRead;
    let looks = 0;
    let silentLooks = 0;
    let cancel = () => {};
    const look = (): void => {
      looks++;
      silentLooks = stream.bytesRead === bytes ? silentLooks + 1 : 0;
      bytes = stream.bytesRead;
      if (silentLooks >= silentLooksMax)
        return dead(`the scheduler has not been heard for ${(silentLooks * lookMs) / 1_000} s and leaves pings unanswered`);
      if (looks % looksPerPing === 0 && socket.readyState === WebSocket.OPEN) socket.ping();
      cancel = this.#outside.after(lookMs, look);
    };
    cancel = this.#outside.after(lookMs, look);
    return () => cancel();
  }

  #isCurrent(socket: WebSocket): boolean {
    return this.#socket === socket;
  }
}

/** A close reason may have 123 bytes. */
function cutUtf8(reason: string): string {
  let cut = reason.slice(0, 123);
  while (Buffer.byteLength(cut) > 123) cut = cut.slice(0, -1);
  return cut;
}
