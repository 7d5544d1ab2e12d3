// Sessions that survive their sockets: windows, lanes, acks and repeats of both ends, in three dialects. Pure.
// This is the only entrance; sockets, frames' texts and their meaning live in doors and runtime.

export { type DialectRules, dialectRules, voidType } from "./dialect-rules.ts";
export type { Outgoing } from "./lane.ts";
export type { Arrival, Delivered, Ticket, Verdict } from "./receive-window.ts";
export type { RetryPolicy } from "./retry.ts";
export type { Sent } from "./send-window.ts";
export { type ArrivedFrame, type Due, Stream, type StreamCounts, type StreamSizes } from "./stream.ts";
