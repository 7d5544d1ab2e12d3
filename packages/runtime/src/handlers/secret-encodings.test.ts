// Every encoding of every secret, cut at every place: what comes out in pieces is what comes out of the whole, and nothing of the secret.
import { describe, expect, it } from "vitest";
import { SecretMask } from "./secret-mask.ts";

/** With quotes, blanks, letters of one to four bytes, characters that URLs treat differently, and beginnings that repeat. */
const secrets = [
  'open-"sesame"/9',
  'pass "w\u00f6rt" \u{1f30a}+/',
  "(it's*mine!)~&=",
  "aabaabaac",
  ">>>>>>??????",
  "\u00ff\u00fe\u00ff\u00fb\u00ef\u00be\u00ff\u00ff",
];

const toPercents = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
const lowerPercents = (text: string): string => text.replace(/%../g, (one) => one.toLowerCase());
const toAsciiJson = (text: string): string =>
  [...JSON.stringify(text).slice(1, -1)]
    .flatMap((letter) => Array.from({ length: letter.length }, (_, at) => letter.charCodeAt(at)))
    .map((unit) => (unit < 128 ? String.fromCharCode(unit) : `\\u${unit.toString(16).padStart(4, "0")}`))
    .join("");

const encodings: Readonly<Record<string, (secret: string) => string>> = {
  plain: (secret) => secret,
  JSON: (secret) => JSON.stringify(secret).slice(1, -1),
  "JSON in ASCII": toAsciiJson,
  "a URL component": encodeURIComponent,
  "a URL component in lower case": (secret) => lowerPercents(encodeURIComponent(secret)),
  "a strict URL component": toPercents,
  "a strict URL component in lower case": (secret) => lowerPercents(toPercents(secret)),
  "a URL": encodeURI,
  "a form": (secret) => new URLSearchParams([["", secret]]).toString().slice(1),
  hex: (secret) => Buffer.from(secret).toString("hex"),
  "upper case hex": (secret) => Buffer.from(secret).toString("hex").toUpperCase(),
};

/** A mask may be used again: with what it held back its streams have ended. */
const maskOfAll = new SecretMask(secrets);

/** What becomes of a text that arrives in these pieces. */
function maskPieces(mask: SecretMask, pieces: readonly string[]): string {
  const masked = pieces.map((piece) => mask.maskStreamText("log", piece));
  return [...masked, ...mask.takeHeldChunks().map(({ text }) => text ?? "")].join("");
}

/** The text in two pieces, cut at every place, and in three, of which the middle one is short. */
function* cutsOf(text: string): Generator<string[]> {
  for (let at = 0; at <= text.length; at++) {
    yield [text.slice(0, at), text.slice(at)];
    for (const length of [1, 2, 5]) yield [text.slice(0, at), text.slice(at, at + length), text.slice(at + length)];
  }
}

describe("an encoded secret in pieces", () => {
  it.each(Object.keys(encodings))("[W189] a secret written as %s is masked wherever its text is cut", (name) => {
    const encode = encodings[name] as (secret: string) => string;
    for (const secret of secrets) {
      const text = `<${encode(secret)}><${encode(secret)}>`;
      expect(maskOfAll.maskText(text)).toBe("<***><***>");

      for (const pieces of cutsOf(text)) expect(maskPieces(maskOfAll, pieces)).toBe("<***><***>");
      expect(maskPieces(maskOfAll, [...text])).toBe("<***><***>");
    }
  });

  it.each(["base64", "base64url"] as const)(
    "[W189] a secret inside longer %s is masked at every offset, wherever its text is cut",
    (encoding) => {
      for (const secret of secrets)
        for (const before of ["", "x", "xy", "xyz"])
          for (const behind of ["", "x", "xy", "xyz"]) {
            const text = Buffer.from(`${before}${secret}${behind}`).toString(encoding);
            const whole = maskOfAll.maskText(text);
            // Characters at the edges hold bits of the neighbours as well; whole ones of the secret are gone.
            const first = Math.ceil((Buffer.byteLength(before) * 4) / 3);
            const last = Math.floor((Buffer.byteLength(before + secret) * 4) / 3);
            expect(whole.startsWith(`${text.slice(0, first)}***`)).toBe(true);
            expect([last, Math.ceil((Buffer.byteLength(before + secret) * 4) / 3)].map((at) => `***${text.slice(at)}`)).toContain(
              whole.slice(first),
            );

            for (const pieces of cutsOf(text)) expect(maskPieces(maskOfAll, pieces)).toBe(whole);
          }
    },
  );

  it("[W189] several secrets in several encodings are masked in one stream wherever it is cut twice", () => {
    const [one = "", other = ""] = secrets;
    const text = `${one}|${Buffer.from(other).toString("hex")}|${toPercents(one)}${other}`;
    const expected = "***|***|******";
    const mask = new SecretMask([one, other]);

    for (let first = 0; first <= text.length; first++)
      for (let second = first; second <= text.length; second++)
        expect(maskPieces(mask, [text.slice(0, first), text.slice(first, second), text.slice(second)])).toBe(expected);
  });

  it("[W189] a secret that repeats its own beginning is masked as a whole where two of them overlap", () => {
    for (const pieces of cutsOf("aabaabaabaabaac.aabaabaac")) {
      const clean = maskPieces(new SecretMask(["aabaabaac", "aabaabaab"]), pieces);
      expect(clean).toBe("***.***");
    }
    for (const pieces of cutsOf("ababababababa")) expect(maskPieces(new SecretMask(["abababab"]), pieces)).toBe("***a");
  });

  it("[W189] a secret is found behind any beginning of itself: every secret of two letters, one letter at a time", () => {
    const words = Array.from({ length: 256 }, (_, number) =>
      number.toString(2).padStart(8, "0").replaceAll("0", "a").replaceAll("1", "b"),
    );
    for (const word of words) {
      const mask = new SecretMask([word]);
      for (let length = 1; length < word.length; length++) {
        const text = `${word.slice(0, length)}${word}`;
        expect(maskPieces(mask, [...text])).toBe(mask.maskText(text));
      }
    }
  });

  it("[W189] a secret that is the beginning or the middle of another one leaves nothing of the longer one", () => {
    const nested = new SecretMask(["abcdefgh", "abcdefghijklm", "cdefghij"]);
    for (const text of ["abcdefghijklm", "abcdefghij", "xcdefghijabcdefghijklm"])
      for (const pieces of cutsOf(text)) {
        expect(maskPieces(nested, pieces)).toBe(nested.maskText(text));
        expect(maskPieces(nested, pieces)).not.toMatch(/[c-m]/);
      }
  });

  it("[W189] encoded secrets in bytes are masked wherever the bytes are cut into chunks of base64", () => {
    for (const secret of secrets.slice(0, 3)) {
      const mask = new SecretMask([secret]);
      for (const encode of Object.values(encodings)) {
        const encoded = encode(secret);
        const bytes = Buffer.from(`<${encoded}>`);
        for (let at = 0; at <= bytes.length; at++) {
          const chunks = [bytes.subarray(0, at), bytes.subarray(at)].map((part) => part.toString("base64"));
          const sent = chunks.flatMap((data) => mask.maskStreamBase64({ channel: "raw" }, data));
          const held = mask.takeHeldChunks().map((chunk) => chunk.data_base64 ?? "");
          const clean = Buffer.concat([...sent, ...held].map((data) => Buffer.from(data, "base64"))).toString();

          expect(clean).toMatch(/^<.*>$/s);
          for (let from = 0; from + 6 <= encoded.length; from++) expect(clean).not.toContain(encoded.slice(from, from + 6));
        }
      }
    }
  });

  it("[W189] of two secrets that overlap in base64 nothing is sent when only the first is there, wherever its text is cut", () => {
    const mask = new SecretMask(["abcdefghi", "defghijkl"]);
    for (const bytes of ["abcdefghijkxyz", "abcdefghixyz", "..abcdefghijxyz", "abcdefghi"]) {
      const text = Buffer.from(bytes).toString("base64");
      for (const pieces of [...cutsOf(text), [...text]]) {
        const sent = pieces.filter((piece) => piece !== "").flatMap((data) => mask.maskStreamBase64({ channel: "raw" }, data));
        const held = mask.takeHeldChunks().map((chunk) => chunk.data_base64 ?? "");
        const clean = Buffer.from([...sent, ...held].join(""), "base64").toString("latin1");

        expect(clean).not.toMatch(/abc|bcd|cde|def|efg|fgh|ghi/);
      }
    }
  });
});
