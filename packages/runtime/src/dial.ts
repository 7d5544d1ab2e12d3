// The worker's socket: one at a time, dialled out, text in and text out. Real ones are WebSockets; a simulator brings its own.
// What the texts mean is the link's business.

import type { Socket } from "node:net";
import { limits } from "@astraflow/protocol";
import WebSocket from "ws";
import type { Outside } from "./outside.ts";

export interface DialEvents {
  opened(): void;
  received(text: string): void;
  /** The socket is gone, or never came up. Said once per dial, unless it was hung up here. */
  lost(reason: string): void;
}

/** A line to the scheduler that can be opened again and again. */
export interface Dialling {
  /** Opens a socket; `opened` or `lost` must follow, never before this has returned. */
  dial(): void;
  /** Lost silently where no socket is open. */
  send(text: string): void;
  /** Ends the current socket; nothing more is heard of it. */
  hangUp(code: number, reason: string): void;
  /** Resolves once the last socket that was hung up is really gone, so that what it was given has left. */
  closed(): Promise<void>;
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
  readonly #after: Outside["after"];
  #dials = 0;
  #socket: WebSocket | undefined;
  #closing: Promise<void> = Promise.resolve();

  /** Several addresses are those of one scheduler's replicas; each dial takes the next. */
  constructor(urls: readonly string[], events: DialEvents, outside: Pick<Outside, "after">) {
    this.#urls = urls;
    this.#events = events;
    this.#after = outside.after;
  }

  dial(): void {
    // Compression costs ten times what it saves on small frames; it stays off.
    const socket = new WebSocket(this.#urls[this.#dials++ % this.#urls.length] ?? "", {
      perMessageDeflate: false,
      maxPayload: limits.frameBytesMax,
      handshakeTimeout: 10_000,
    });
    this.#socket = socket;
    let problem = "";
    let stopWatch = () => {};
    socket.on("upgrade", (response) => {
      stopWatch = this.#watch(socket, response.socket, (why) => {
        problem = why;
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
      this.#events.lost(problem || `the connection was closed (${code}${reason.length > 0 ? ` ${String(reason)}` : ""})`);
    });
  }

  send(text: string): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
  }

  hangUp(code: number, reason: string): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    this.#socket = undefined;
    const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const cancel = this.#after(closeWaitMs, () => socket.terminate());
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
      cancel = this.#after(lookMs, look);
    };
    cancel = this.#after(lookMs, look);
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
