// Limits the size of feedback before it goes to the engine, and marks it where something was cut off. Pure.

import { type FeedbackPayload, limits, type OutputChunk, omitUndefined } from "@astraflow/protocol";

type FeedbackBody = Omit<FeedbackPayload, "run_id" | "task_id" | "fence">;

export type LimitedFeedback = FeedbackBody & { readonly truncated?: true };

/** `bytes`: of the whole frame. */
export function limitFeedback(feedback: FeedbackBody, bytes: number): LimitedFeedback {
  const data = { ...feedback, ...(feedback.chunks !== undefined && { chunks: feedback.chunks.flatMap(normalizeChunk) }) };
  return bytes <= limits.feedbackBytesMax ? data : truncateFeedback(data);
}

/** Text or bytes, not both; bytes that are not base64 are dropped. */
function normalizeChunk(chunk: OutputChunk): OutputChunk[] {
  const { text, data_base64, ...rest } = chunk;
  if (data_base64 === undefined) return [chunk];
  if (text !== undefined) return [{ ...rest, text }];
  return /^[A-Za-z0-9+/_-]*={0,2}$/.test(data_base64) ? [chunk] : [];
}

/** Keeps the small fields and as many chunks, in their order, as fit, and marks the rest as truncated. */
function truncateFeedback(data: FeedbackBody): LimitedFeedback {
  const { stage, progress, message, chunks = [], metrics, metadata } = data;
  let bytesLeft: number = limits.feedbackBytesMax;
  const fits = (value: unknown): boolean => {
    const bytes = Buffer.byteLength(JSON.stringify(value) ?? "");
    if (bytes > bytesLeft) return false;
    bytesLeft -= bytes;
    return true;
  };
  const smallFields = omitUndefined({
    stage,
    progress,
    message: message?.slice(0, 4_096),
    metrics: fits(metrics) ? metrics : undefined,
    metadata: fits(metadata) ? metadata : undefined,
  });
  const includedChunks: OutputChunk[] = [];
  for (const chunk of chunks) {
    // Only text can be cut: bytes would be corrupt. What follows a cut chunk would be out of order.
    const whole = fits(chunk) ? chunk : truncateChunk(chunk, bytesLeft);
    if (whole !== null) includedChunks.push(whole);
    if (whole !== chunk) break;
  }
  return { ...smallFields, ...(includedChunks.length > 0 && { chunks: includedChunks }), truncated: true };
}

/** A character may take six bytes in JSON. */
function truncateChunk({ text, data_base64: _, ...rest }: OutputChunk, roomBytes: number): OutputChunk | null {
  const chars = Math.floor((roomBytes - JSON.stringify(rest).length) / 6);
  return text === undefined || chars < 1 ? null : { ...rest, text: text.slice(0, chars) };
}
