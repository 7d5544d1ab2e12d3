import type { DispatchPayload, FeedbackPayload } from "@astraflow/protocol";
import { Fault, limits, readJson, readPayload } from "@astraflow/protocol";
import type { FeedbackInput } from "@astraflow/sdk";
import { describe, expect, it } from "vitest";
import { createAttempt } from "./attempt.ts";
import { FeedbackBuffer, readFeedbackText } from "./feedback.ts";

const attempt = createAttempt({ run_id: "r", task_id: "t", node_id: "n" } as DispatchPayload, 4, 0);

function sendFeedback(...inputs: FeedbackInput[]): FeedbackPayload[] {
  const drafts = new FeedbackBuffer();
  const texts = inputs.flatMap((input) => drafts.add(attempt, input));
  texts.push(drafts.take(attempt) ?? "null");
  return texts.map((text) => JSON.parse(text) as FeedbackPayload);
}

describe("feedback", () => {
  it("[W23] the feedback buffer keeps the newest stage, progress and message, and merges metrics and results", () => {
    const [merged] = sendFeedback(
      { stage: "a", progress: 0.2, message: "one", metrics: { x: 1 }, metadata: { results: { summary: "H" }, note: "n" } },
      { progress: 0.3, message: "two", metrics: { y: 2 }, metadata: { results: { count: 1 } } },
    );

    expect(merged).toEqual({
      run_id: "r",
      task_id: "t",
      fence: 4,
      stage: "a",
      progress: 0.3,
      message: "two",
      metrics: { x: 1, y: 2 },
      metadata: { note: "n", results: { summary: "H", count: 1 } },
    });
  });

  it("[W23] the feedback buffer turns what handlers send into valid feedback frames", () => {
    const [fit] = sendFeedback({
      stage: "",
      progress: 7,
      message: "m".repeat(limits.textCharsMax + 5),
      metrics: { good: 1, bad: Number.NaN },
      chunks: [
        { channel: "bad\nname", text: "x" },
        { channel: "browser", text: "y" },
      ],
    });

    expect(fit?.progress).toBe(1);
    expect(fit?.stage).toBeUndefined();
    expect(fit?.metrics).toEqual({ good: 1 });
    expect(fit?.chunks).toEqual([
      { channel: "log", text: "x", index: 0 },
      { channel: "browser", text: "y", index: 1 },
    ]);
    expect(readPayload("v2", "biz.exec.feedback", fit)).toMatchObject({ task_id: "t" });
  });

  it("[W23] the feedback buffer cuts long text into frames of bounded size and loses no character", () => {
    const text = "😀ab".repeat(20_000);

    const frames = sendFeedback({ chunks: [{ channel: "stdout", text }] });

    const chunks = frames.flatMap((frame) => frame.chunks ?? []);
    expect(chunks.map((chunk) => chunk.text).join("")).toBe(text);
    expect(chunks.map((chunk) => chunk.index)).toEqual(chunks.map((_, index) => index));
    for (const frame of frames) expect(Buffer.byteLength(JSON.stringify(frame))).toBeLessThanOrEqual(limits.feedbackBytesMax);
    for (const chunk of chunks) expect(chunk.text?.isWellFormed()).toBe(true);
  });

  it("[W157] the feedback buffer merges result patches as the scheduler would, and keeps apart two that one frame cannot express", () => {
    const deep = sendFeedback(
      { metadata: { results: { a: { x: 1 }, b: 1 } } },
      { metadata: { results: { a: { y: null }, b: null } } },
    );
    const apart = sendFeedback({ metadata: { results: { a: null } } }, { metadata: { results: { a: { y: 2 } } } });

    expect(deep.map(({ metadata }) => metadata?.["results"])).toEqual([{ a: { x: 1, y: null }, b: null }]);
    expect(apart.map(({ metadata }) => metadata?.["results"])).toEqual([{ a: null }, { a: { y: 2 } }]);
  });

  it("[W157] the feedback buffer cuts long binary data at byte boundaries, into chunks with consecutive numbers", () => {
    const bytes = Buffer.alloc(50_000, "pixels");

    const frames = sendFeedback({
      chunks: [{ text: "before" }, { channel: "custom", data_base64: bytes.toString("base64"), mime_type: "image/png" }],
    });

    const chunks = frames.flatMap((frame) => frame.chunks ?? []);
    expect(chunks.map(({ index }) => index)).toEqual(chunks.map((_, index) => index));
    const pieces = chunks.slice(1);
    expect(pieces.length).toBeGreaterThan(2);
    expect(Buffer.concat(pieces.map(({ data_base64 = "" }) => Buffer.from(data_base64, "base64")))).toEqual(bytes);
    expect(pieces.every(({ mime_type }) => mime_type === "image/png")).toBe(true);
  });

  it("[W201] the feedback buffer spreads metadata and metrics of many reports over frames that the scheduler can read", () => {
    const reports = Array.from({ length: 120 }, (_, index) => {
      const keys = Array.from({ length: 1_000 }, (_, key) => [`k${index}-${key}`, key]);
      return { metadata: Object.fromEntries(keys), metrics: { [`m${index}`]: index } };
    });

    const frames = sendFeedback(...reports);

    for (const frame of frames) expect(readJson(JSON.stringify(frame))).not.toBeInstanceOf(Fault);
    expect(frames.reduce((sum, { metadata = {} }) => sum + Object.keys(metadata).length, 0)).toBe(120_000);
    expect(Object.keys(Object.assign({}, ...frames.map(({ metrics }) => metrics)))).toHaveLength(120);
  });

  it("[W200] feedback is read as the scheduler will read it: what it would refuse is a fault, and odd small fields are left out", () => {
    const text = (input: unknown): string => JSON.stringify(input);
    const refused = [
      null,
      "text",
      [],
      { metrics: [] },
      { metadata: null },
      { chunks: {} },
      { chunks: ["a"] },
      { chunks: [{ mime_type: 1 }] },
    ];

    for (const input of refused) expect(readFeedbackText(text(input))).toMatchObject({ code: "E.FRAME.INVALID" });
    expect(readFeedbackText(undefined)).toMatchObject({ code: "E.FRAME.INVALID" });
    expect(readFeedbackText(text({ metadata: { constructor: {} } }))).toMatchObject({ code: "E.FRAME.INVALID" });
    const odd = readFeedbackText(
      text({ stage: 7, progress: "half", message: {}, metrics: { a: null, b: 1 }, chunks: [{ channel: "\n", text: 5, x: 1 }] }),
    );
    const [frame] = sendFeedback(odd as FeedbackInput);
    expect(frame).toEqual({ run_id: "r", task_id: "t", fence: 4, metrics: { b: 1 }, chunks: [{ channel: "log", index: 0 }] });
    expect(readPayload("v2", "biz.exec.feedback", frame)).not.toBeInstanceOf(Fault);
  });
});
