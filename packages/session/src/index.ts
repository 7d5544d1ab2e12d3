// Reliable streams that survive their sockets: windows, acks and resends of both ends, in three dialects. Pure.

export type { ResendPolicy } from "./dialect-rules.ts";
export { type DialectRules, dialectRules, fillerFrameType } from "./dialect-rules.ts";
export type { DeliveredFrame, DeliveryTag, ReceiveResult, ReceiveVerdict } from "./receive-window.ts";
export {
  type ReceivedFrameHeader,
  ReliableStream,
  type StreamCounts,
  type StreamSizes,
  type TimeoutResult,
} from "./reliable-stream.ts";
export type { OutgoingItem } from "./send-lane.ts";
export type { SentFrame } from "./send-window.ts";
