// Starts a child host and carries its frames. What they mean, and what to do when it ends, is package-host.ts.

import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { killProcessGroup } from "../system/child-processes.ts";
import { MessageBatcher } from "../system/message-batcher.ts";
import { encodeFrames, FrameDecoder } from "./frame-stream.ts";
import { type FromHost, hostLimits, readHostFrame, type ToHost } from "./host-frames.ts";

/** A program that speaks the host protocol. */
export interface HostCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

export interface HostHandle {
  /** Of the process and of its group; undefined where it could not be started. */
  readonly pid: number | undefined;
  send(frame: ToHost): void;
  /** SIGTERM to the group, SIGKILL after the grace. Why: for whoever asks how it ended. */
  terminate(why: string): void;
  /** SIGKILL to the group. */
  kill(why: string): void;
}

export interface HostListener {
  frameReceived(frame: FromHost): void;
  outputReceived(channel: "stdout" | "stderr", text: string): void;
  /** It is gone, and why. Called once, after its last frames. */
  hostExited(reason: string): void;
}

export interface HostProcessPorts {
  after(ms: number, call: () => void): () => void;
  defer(call: () => void): void;
}

/** Grandchildren may hold the pipes of a host that has ended; they are killed, and not waited for longer than this. */
const pipeCloseWaitMs = 1_000;
/** Descriptor of the frames. Not 0 and 1: an adapter, or a program that it starts, may print. The second is for calls that block their host. */
const [frameChannel, blockingChannel] = [3, 4];

export function spawnHost(command: HostCommand, listener: HostListener, ports: HostProcessPorts): HostHandle {
  const { file, args, env, cwd } = command;
  // A group of its own: whatever its adapters start is reached through it.
  const child = spawn(file, [...args], { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"] });
  return new ChildHost(child, listener, ports);
}

class ChildHost implements HostHandle {
  readonly #child: ChildProcess;
  readonly #listener: HostListener;
  readonly #ports: HostProcessPorts;
  readonly #outgoing: MessageBatcher<ToHost>;
  readonly #channel: Duplex;
  readonly #blockingChannel: Duplex;
  /** Requests that their host waits for with everything else standing still. */
  readonly #blockingRequests = new Set<number>();
  #endReason: string | null = null;
  /** Of the kill after the grace, or of the wait for the pipes. */
  #cancelTimer = () => {};
  #hasExited = false;
  #isReported = false;

  constructor(child: ChildProcess, listener: HostListener, ports: HostProcessPorts) {
    this.#child = child;
    this.#listener = listener;
    this.#ports = ports;
    this.#channel = child.stdio[frameChannel] as Duplex;
    this.#blockingChannel = child.stdio[blockingChannel] as Duplex;
    this.#outgoing = new MessageBatcher((frames) => this.#write(this.#channel, frames), ports.defer);
    this.#readFrames(this.#channel, false);
    this.#readFrames(this.#blockingChannel, true);
    for (const channel of ["stdout", "stderr"] as const) this.#readOutput(channel, child[channel] as Readable);
    child.on("error", (cause) => this.#handleExit(`it cannot be started: ${cause.message}`));
    child.on("exit", (code, signal) => this.#handleExit(describeExit(code, signal)));
    child.on("close", () => this.#report());
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  send(frame: ToHost): void {
    if (this.#hasExited) return;
    if (frame.type === "answer" && this.#blockingRequests.delete(frame.request)) this.#write(this.#blockingChannel, [frame]);
    else this.#outgoing.add(frame);
  }

  terminate(why: string): void {
    if (this.#endReason !== null || this.#hasExited) return;
    this.#endReason = why;
    this.#outgoing.flush();
    this.#signal("SIGTERM");
    this.#cancelTimer = this.#ports.after(hostLimits.terminationGraceMs, () => this.#signal("SIGKILL"));
  }

  kill(why: string): void {
    if (this.#hasExited) return;
    this.#endReason ??= why;
    this.#signal("SIGKILL");
  }

  #signal(signal: "SIGTERM" | "SIGKILL"): void {
    if (this.pid !== undefined) killProcessGroup(this.pid, signal);
  }

  #write(channel: Duplex, frames: readonly ToHost[]): void {
    if (this.#hasExited || channel.destroyed) return;
    channel.write(encodeFrames(frames));
    if (channel.writableLength > hostLimits.pendingBytesMax)
      this.kill(`it does not read: more than ${hostLimits.pendingBytesMax} bytes wait for it`);
  }

  #readFrames(channel: Duplex, isBlocking: boolean): void {
    const reader = new FrameDecoder();
    let isBroken = false;
    channel.on("data", (bytes: Buffer) => {
      if (isBroken) return;
      try {
        for (const value of reader.add(bytes)) {
          const frame = readHostFrame(value);
          if (typeof frame === "string") throw new Error(frame);
          if (isBlocking && frame.type === "request") this.#blockingRequests.add(frame.request);
          this.#listener.frameReceived(frame);
        }
      } catch (thrown) {
        isBroken = true;
        this.kill(`it broke the host protocol: ${(thrown as Error).message}`);
      }
    });
    // The exit of the process says more than its broken pipe.
    channel.on("error", () => channel.destroy());
  }

  #readOutput(channel: "stdout" | "stderr", stream: Readable): void {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => this.#listener.outputReceived(channel, text));
    stream.on("error", () => stream.destroy());
  }

  #handleExit(reason: string): void {
    if (this.#hasExited) return;
    this.#hasExited = true;
    this.#cancelTimer();
    this.#endReason ??= reason;
    // What it has started must not outlive it, nor hold its pipes.
    this.#signal("SIGKILL");
    if (this.pid === undefined) this.#report();
    else this.#cancelTimer = this.#ports.after(pipeCloseWaitMs, () => this.#report());
  }

  #report(): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#cancelTimer();
    for (const stream of this.#child.stdio) stream?.destroy();
    this.#listener.hostExited(this.#endReason ?? "it ended");
  }
}

function describeExit(code: number | null, signal: string | null): string {
  if (signal === "SIGXCPU") return "it used up its processor time";
  return signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`;
}
