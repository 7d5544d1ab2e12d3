import { describe, expect, it } from "vitest";
import { createSecretMask, maskFeedback, maskOutcome, type SecretMask } from "./secret-mask.ts";

const secret = 'open-"sesame"/9f2c';
const bound = (value: unknown, key = "door") => ({ __resourceBindings: { [key]: { resourceId: "r", value } } }) as never;
const mask = (value = secret): SecretMask => createSecretMask(bound(value)) as SecretMask;

/** What becomes of a stream that arrives in these pieces. */
function stream(one: SecretMask, pieces: readonly string[]): string {
  const masked = pieces.map((piece) => one.maskStreamText("log", piece));
  return [...masked, ...one.takeHeldChunks().map(({ text }) => text ?? "")].join("");
}

describe("secrets in what a handler says", () => {
  it("[W189] the secret mask exists only where there are secrets: values of eight characters or more that were granted as secrets", () => {
    expect(createSecretMask({})).toBeNull();
    expect(createSecretMask(bound("short"))).toBeNull();
    expect(createSecretMask(bound(undefined))).toBeNull();
    expect(createSecretMask(bound(12_345_678))).toBeNull();
    expect(createSecretMask(bound(secret), new Set(["door"]))).toBeNull();
    expect(createSecretMask(bound(secret), new Set(["window"]))).not.toBeNull();
  });

  it("[W189] the secret mask finds secrets as they are, in JSON, in URLs and in base64", () => {
    const base64 = Buffer.from(secret).toString("base64");
    const masked = [secret, JSON.stringify({ secret }), `?key=${encodeURIComponent(secret)}&`, base64].map((text) =>
      mask().maskText(text),
    );

    expect(masked.slice(0, 3)).toEqual(["***", '{"secret":"***"}', "?key=***&"]);
    expect(masked[3]).toMatch(/^\*{3}=*$/);
    expect(Buffer.from(mask().maskBase64(Buffer.from(`a ${secret} b`).toString("base64")), "base64").toString()).toBe("a *** b");
    expect(mask().maskBase64("AAEC/w==")).toBe("AAEC/w==");
  });

  it("[W189] the secret mask finds secrets wherever a stream is cut, and loses nothing else of the stream", () => {
    const text = `before ${secret}${secret} ope open-"ses and after, open-`;

    for (let at = 0; at <= text.length; at++)
      expect(stream(mask(), [text.slice(0, at), text.slice(at)])).toBe('before ****** ope open-"ses and after, open-');
    expect(stream(mask(), [...text])).toBe('before ****** ope open-"ses and after, open-');
    expect(stream(mask("aabaabaac"), [..."aabaabaabaac aab"])).toBe("aab*** aab");
  });

  it("[W189] the secret mask holds back only text that may be the start of a secret, for each channel separately", () => {
    const one = mask();

    expect(one.maskStreamText("log", "a line\nop")).toBe("a line\n");
    expect(one.maskStreamText("llm", "en-")).toBe("en-");
    expect(one.maskStreamText("log", "tions")).toBe("options");
    expect(one.takeHeldChunks()).toEqual([]);
  });

  it("[W189] the secret mask covers messages, stages, metadata and chunks; numbers stay, and feedback left without content is not sent", () => {
    const metadata = { results: { deep: [secret, 1, null] }, [secret]: true };
    const input = { stage: secret, message: `is ${secret}`, progress: 0.5, metrics: { loss: 2 }, metadata };

    expect(maskFeedback(mask(), input)).toEqual({
      stage: "***",
      message: "is ***",
      progress: 0.5,
      metrics: { loss: 2 },
      metadata: { results: { deep: ["***", 1, null] }, "***": true },
    });
    const one = mask();
    expect(maskFeedback(one, { chunks: [{ channel: "llm", text: "open" }] })).toBeNull();
    expect(maskFeedback(one, { chunks: [{ channel: "llm", text: "ly" }] })).toEqual({
      chunks: [{ channel: "llm", text: "openly" }],
    });
    expect(maskFeedback(one, { chunks: [], stage: "s" })).toEqual({ stage: "s" });
  });

  it("[W189] the secret mask covers results, metadata, artifacts and errors, and returns an outcome without secrets unchanged", () => {
    const plain = { type: "result", status: "SUCCEEDED", result: { a: 1 }, durationMs: 1 } as const;
    expect(maskOutcome(mask(), plain)).toBe(plain);

    const held = { ...plain, result: { secret, n: 12_345_678 }, metadata: { secret } };
    expect(maskOutcome(mask(), held)).toEqual({
      ...plain,
      result: { secret: "***", n: 12_345_678 },
      metadata: { secret: "***" },
    });
    expect(maskOutcome(mask("12345678"), held)).toMatchObject({ result: { secret, n: "***" } });
    expect(maskOutcome(mask("SUCCEEDED"), { ...held, result: { is: "SUCCEEDED" } })).toMatchObject({
      status: "SUCCEEDED",
      result: { is: "***" },
    });
    const error = { type: "error", code: "E.RUNNER.FAILURE", message: `no: ${secret}`, where: "worker.runner" } as const;
    expect(maskOutcome(mask(), error)).toEqual({ ...error, message: "no: ***" });
  });
});
