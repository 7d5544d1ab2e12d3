import { describe, expect, it } from "vitest";
import { type FormFile, readMultipartForm } from "./multipart-form.ts";

const media = 'multipart/form-data; boundary="x-1"';

async function* inCuts(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text, "latin1");
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
const read = async (text: string, size = text.length, contentType = media) =>
  readMultipartForm(contentType, inCuts(text, size), async ({ filename, mimeType, bytes }: FormFile, fields) => {
    const chunks: Buffer[] = [];
    for await (const chunk of bytes) chunks.push(chunk);
    return { filename, mimeType, text: Buffer.concat(chunks).toString("latin1"), fields: { ...fields } };
  });

const part = (head: string, body: string): string => `--x-1\r\n${head}\r\n\r\n${body}\r\n`;
const field = part('Content-Disposition: form-data; name="provider"', "db");
const file = (body: string, name = "a.txt") =>
  part(`Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: text/plain`, body);
const long = part('content-disposition: form-data; name="a"', "y".repeat(20_000));
const end = "--x-1--\r\n";

describe("a form with a file", () => {
  // What looks like a boundary and is none.
  const tricky = "one\r\n--x-\r\n\r\n--x\r-1\r\n--two--x-1\n--x-1";

  it("[A101] a multipart form is read however its bytes are split, and text that looks like a boundary stays in the file", async () => {
    const text = `preamble\r\n${field}${file(tricky)}${end}epilogue`;
    for (let size = 1; size <= 40; size += 1)
      expect(await read(text, size)).toEqual({
        filename: "a.txt",
        mimeType: "text/plain",
        text: tricky,
        fields: { provider: "db" },
      });
  });

  it("[A340] a multipart form may have fields after its file, which are known once the file's bytes are read", async () => {
    for (let size = 1; size <= 40; size += 1)
      expect(await read(`${file("a")}${field}${end}`, size)).toMatchObject({ text: "a", fields: { provider: "db" } });
  });

  it("[A101] a multipart form may have an empty file, or a file of line breaks only", async () => {
    expect(await read(file("") + end, 3)).toMatchObject({ text: "" });
    expect(await read(file("\r\n\r\n") + end, 3)).toMatchObject({ text: "\r\n\r\n" });
  });

  it.each([
    ['name="file"; filename="C:\\\\dir\\\\up.txt"', "up.txt"],
    ['name="file"; filename="../../etc/passwd"', "passwd"],
    ['name="file"; filename="a%22b.txt"', 'a"b.txt'],
    ['name="file"; filename="x"; filename*=UTF-8\'\'%E2%82%AC.txt', "\u20ac.txt"],
    ['name="file"; filename="x.txt"; filename*=UTF-8\'\'%E2%82', "x.txt"],
    ['name="file"', "file"],
    ['name="file"; filename=""', "file"],
    ["name=file; filename=plain.txt", "plain.txt"],
  ])("[A101] a multipart form names its file according to the part header %s", async (head, filename) => {
    expect(await read(part(`content-disposition: form-data; ${head}`, "x") + end)).toMatchObject({ filename, mimeType: null });
  });

  it.each([
    ["without a file", field + end, media],
    ["with two files", file("a") + file("b") + end, media],
    ["with a field after its file that is too long", file("a") + long + end, media],
    ["that ends too early", file("a"), media],
    ["whose boundary never comes", "abc", media],
    ["with a part without a name", part("content-disposition: form-data", "x") + end, media],
    ["with a header that is none", part("nonsense", "x") + end, media],
    ["with endless headers", part(`x: ${"y".repeat(10_000)}`, "x") + end, media],
    ["with a field that is too long", long + file("a") + end, media],
    [
      "with too many fields",
      Array.from({ length: 17 }, (_, n) => part(`content-disposition: form-data; name="f${n}"`, "x")).join("") + end,
      media,
    ],
    ["with noise after a boundary", "--x-1 oops\r\n\r\n", media],
    ["without a boundary", file("a") + end, "multipart/form-data"],
    ["with a boundary that cannot be one", file("a") + end, `multipart/form-data; boundary="${"x".repeat(71)}"`],
  ])("[A101] a multipart form %s is refused", async (_, text, contentType) => {
    await expect(read(text, 7, contentType)).rejects.toMatchObject({ code: "E.REQUEST.INVALID" });
  });

  it("[A101] a form of another media type than multipart is refused", async () => {
    await expect(read(file("a") + end, 9, "application/json")).rejects.toMatchObject({ code: "E.REQUEST.MEDIA" });
  });
});
