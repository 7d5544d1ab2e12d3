// Sessions that survive their sockets: windows, lanes, acks and repeats of both ends, in three dialects. Pure.
// This is the only entrance; sockets, frames' texts and their meaning live in doors and runtime.

export { type DialectRules, dialectRules, fillerFrameType } from "./dialect-rules.ts";
export type { DeliveredFrame, DeliveryTag, ReceiveResult, ReceiveVerdict } from "./receive-window.ts";
export {
  type ReceivedFrameHeader,
  ReliableStream,
  type StreamCounts,
  type StreamSizes,
  type TimeoutResult,
} from "./reliable-stream.ts";
export type { ResendPolicy } from "./resend-policy.ts";
export type { OutgoingItem } from "./send-lane.ts";
export type { SentFrame } from "./send-window.ts";
