// The program of a Node host: runs the handlers of one package version. Started by spawn-host.ts, imported by no file.

import { writeSync } from "node:fs";
import { Socket } from "node:net";
import { captureOutput } from "../handlers/handler-output.ts";
import { FrameDecoder } from "./frame-stream.ts";
import { hostLimits, type ToHost } from "./host-frames.ts";
import { NodeHost } from "./node-host.ts";
import { startProcessorLimit } from "./processor-limit.ts";
import { createBlockingRequest } from "./remote-resources.ts";

/** Descriptors of docs/host-protocol.md. */
const [frameDescriptor, blockingDescriptor] = [3, 4];

const channel = new Socket({ fd: frameDescriptor });
const host = new NodeHost(
  {
    channel,
    request: createBlockingRequest(blockingDescriptor),
    now: () => performance.now(),
    wallClock: () => Date.now(),
    after(ms, call) {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    },
    defer: (call) => void setImmediate(call),
    limitProcessorTime: startProcessorLimit,
    exit: () => channel.end(() => process.exit(0)),
  },
  hostLimits.pendingFeedbackMax,
);
captureOutput((name, text) => host.reportOutput(name, text));
process.on("uncaughtException", (error: unknown) => {
  // The worker explains the end with the last line.
  const [stack, line] = error instanceof Error ? [error.stack ?? "", `${error.name}: ${error.message}`] : ["", String(error)];
  writeSync(2, `${stack}\n${line}\n`);
  process.exit(1);
});
// A handler that ends the process must not take the frames of others with it.
process.on("exit", () => host.flush());
const reader = new FrameDecoder();
channel.on("data", (bytes: Buffer) => {
  // The worker writes nothing else.
  for (const frame of reader.add(bytes)) host.handleFrame(frame as ToHost);
});
channel.on("close", () => process.exit(1));
channel.on("error", () => process.exit(1));
