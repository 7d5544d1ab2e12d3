import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSecretMask, maskFeedback, maskOutcome, SecretMask } from "./secret-mask.ts";

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

  it("[W189] the secret mask finds secrets as they are, in JSON, in URLs, in hex and in base64", () => {
    const bytes = Buffer.from(secret);
    const others = [
      bytes.toString("hex"),
      bytes.toString("hex").toUpperCase(),
      `a=${new URLSearchParams({ secret }).toString()}`,
    ];
    for (const text of others) expect(mask().maskText(text).replace("a=secret=", "")).toBe("***");
    expect(mask("pässwörter").maskText("p\\u00e4ssw\\u00f6rter")).toBe("***");
    const base64 = Buffer.from(secret).toString("base64");
    const masked = [secret, JSON.stringify({ secret }), `?key=${encodeURIComponent(secret)}&`, base64].map((text) =>
      mask().maskText(text),
    );

    expect(masked.slice(0, 3)).toEqual(["***", '{"secret":"***"}', "?key=***&"]);
    expect(masked[3]).toMatch(/^\*{3}=*$/);
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

  it("[W189] the secret mask leaves no eight characters of a secret in base64 or base64url, whatever stands before and behind it", () => {
    for (const encoding of ["base64", "base64url"] as const)
      for (let before = 0; before < 6; before++)
        for (let behind = 0; behind < 4; behind++) {
          const text = Buffer.from(`${"x".repeat(before)}${secret}${"y".repeat(behind)}`).toString(encoding);
          const clean = mask().maskText(text);
          expect(clean).toContain("***");
          // At the edges a character may hold bits of the secret and of its neighbour.
          expect(clean.replace("***", "").length).toBeLessThanOrEqual(
            Math.ceil((before * 4) / 3) + Math.ceil((behind * 4) / 3) + 4,
          );
        }
  });

  it("[W189] several secrets that contain or overlap each other are masked in pieces exactly as in the whole text, wherever it is cut", () => {
    const letters = fc.constantFrom("a", "b", "c");
    const word = fc.string({ unit: letters, minLength: 8, maxLength: 12 });
    const cuts = fc.array(fc.nat(80), { maxLength: 6 });
    const texts = (words: readonly string[]) =>
      fc.array(fc.oneof(fc.constantFrom(...words), fc.string({ unit: letters, maxLength: 6 })), { maxLength: 6 });

    fc.assert(
      fc.property(
        fc.array(word, { minLength: 1, maxLength: 3 }).chain((words) => fc.tuple(fc.constant(words), texts(words), cuts)),
        ([words, parts, at]) => {
          const text = parts.join("");
          const whole = new SecretMask(words).maskText(text);
          const ends = [...at.map((cut) => Math.min(cut, text.length)), text.length].sort((a, b) => a - b);
          const pieces = ends.map((end, index) => text.slice(index === 0 ? 0 : ends[index - 1], end));
          expect(stream(new SecretMask(words), pieces)).toBe(whole);
          expect(stream(new SecretMask(words), [...text])).toBe(whole);
          for (const one of words) expect(whole).not.toContain(one);
        },
      ),
      { numRuns: 1_000, seed: 14 },
    );
    const nested = new SecretMask(["abcdefgh", "abcdefghijkl"]);
    expect(stream(nested, ["abcdefgh", "ijkl", "abcdefgh", "x"])).toBe("******x");
  });

  it("[W189] secrets in data_base64 are masked wherever the bytes or the base64 text are cut, and other bytes stay the same", () => {
    const secrets = [secret, "second-secret!"];
    const bytes = Buffer.from(`head ${secret} middle second-secret! tail`);
    const send = (one: SecretMask, chunks: readonly string[]) => [
      ...chunks.flatMap((data) => one.maskStreamBase64({ channel: "raw" }, data)),
      ...one.takeHeldChunks().map((chunk) => chunk.data_base64 ?? ""),
    ];
    const decode = (chunks: readonly string[]) =>
      Buffer.concat(chunks.map((data) => Buffer.from(data, "base64"))).toString("latin1");

    for (let cut = 0; cut <= bytes.length; cut++) {
      const parts = [bytes.subarray(0, cut), bytes.subarray(cut)];
      for (const encoding of ["base64", "base64url"] as const) {
        const sent = send(
          new SecretMask(secrets),
          parts.map((part) => part.toString(encoding)),
        );
        expect(decode(sent)).toMatch(/^head [^o]{1,20} middle [^s]{1,20} tail$/);
      }
    }
    const text = bytes.toString("base64");
    for (let cut = 0; cut <= text.length; cut++) {
      const sent = send(new SecretMask(secrets), [text.slice(0, cut), text.slice(cut)]).join("");
      for (const one of secrets) expect(Buffer.from(sent, "base64").toString("latin1")).not.toContain(one);
    }
    const single = send(new SecretMask(secrets), [...text]).join("");
    for (const one of secrets) expect(Buffer.from(single, "base64").toString("latin1")).not.toContain(one);
    expect(send(mask(), ["AAEC/w==", "_-8"])).toEqual(["AAEC/w==", "_-8"]);
  });

  it("[W189] the secret mask covers names and values of metrics, and channels and kinds of chunks", () => {
    const clean = maskFeedback(new SecretMask([secret, "12345678"]), {
      metrics: { [secret]: 1, code: 12_345_678, loss: 2 },
      chunks: [{ channel: secret, text: "a", mime_type: secret }],
    });

    expect(clean).toEqual({
      metrics: { "***": 1, code: "***", loss: 2 },
      chunks: [{ channel: "***", text: "a", mime_type: "***" }],
    });
  });
});
