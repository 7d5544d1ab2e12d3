// A form with a file (multipart/form-data), read as it comes in: small fields are kept, the file is handed on and never held whole.
// Only what a file's upload needs: no nested forms, no encodings of parts.

import { Fault, fault } from "@astraflow/protocol";

export interface FormFile {
  readonly filename: string;
  readonly mimeType: string | null;
  /** Ends where the form does, and fails where what follows the file is wrong: whoever keeps the bytes then keeps nothing. */
  readonly bytes: AsyncIterable<Buffer>;
}

export interface FormHandler<T> {
  /** The part `file`; `fields` are those that stood before it and, once its bytes have been read, all. */
  onFile(file: FormFile, fields: Readonly<Record<string, string>>): Promise<T>;
}

const formLimits = { headBytesMax: 8 * 1024, fieldBytesMax: 16 * 1024, fieldsMax: 16 } as const;

/** What `ears.file` made of the file. Throws where the form is not well formed, has no file, or has two. */
export async function readMultipartForm<T>(
  contentType: string | undefined,
  body: AsyncIterable<Buffer>,
  handler: FormHandler<T>,
): Promise<T> {
  const boundary = readBoundary(contentType);
  const partReader = createPartReader(body, Buffer.from(`\r\n--${boundary}`, "latin1"));
  const fields: Record<string, string> = {};
  const readField = async (name: string): Promise<void> => {
    if (Object.keys(fields).length >= formLimits.fieldsMax) throw invalidForm("the form has too many fields");
    fields[name] = await partReader.readFieldText(formLimits.fieldBytesMax);
  };
  const readPartHeaders = async () => parsePartHeaders(await partReader.readHeaderText(formLimits.headBytesMax));
  async function* bytes(): AsyncGenerator<Buffer> {
    yield* partReader.untilBoundary();
    while (await partReader.hasNextPart()) {
      const { name } = await readPartHeaders();
      if (name === "file") throw invalidForm("the form has two files; send one");
      await readField(name);
    }
  }

  for await (const _before of partReader.untilBoundary()) {
    // What stands before the first boundary means nothing.
  }
  while (await partReader.hasNextPart()) {
    const head = await readPartHeaders();
    if (head.name === "file")
      return handler.onFile({ filename: head.filename ?? "file", mimeType: head.mimeType, bytes: bytes() }, fields);
    await readField(head.name);
  }
  throw invalidForm('the form has no part named "file"');
}

export const isMultipart = (contentType: string | undefined): boolean =>
  contentType?.split(";")[0]?.trim().toLowerCase() === "multipart/form-data";

const invalidForm = (why: string) => fault("E.REQUEST.INVALID", why, { path: "body" });

/** The caller went away: nobody hears this, and it is no fault of ours. */
const throwBrokenOff = (cause: unknown): never => {
  if (cause instanceof Fault) throw cause;
  throw fault("E.REQUEST.INVALID", "the body broke off", { path: "body" }, cause);
};

export async function* emptyBytes(): AsyncGenerator<Buffer> {
  // For a request without a body.
}

/** A body that is the file itself. */
export async function* readRawBody(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* body;
  } catch (cause) {
    throwBrokenOff(cause);
  }
}

function readBoundary(contentType: string | undefined): string {
  if (!isMultipart(contentType)) throw fault("E.REQUEST.MEDIA", "send the file as multipart/form-data, in a part named file");
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType ?? "") ?? [];
  const boundary = quoted ?? plain ?? "";
  if (!/^[0-9A-Za-z'()+_,./:=? -]{1,70}$/.test(boundary)) throw invalidForm("the form's Content-Type names no boundary");
  return boundary;
}

interface PartHeaders {
  readonly name: string;
  readonly filename: string | null;
  readonly mimeType: string | null;
}

function parsePartHeaders(text: string): PartHeaders {
  const lines = new Map<string, string>();
  for (const line of text.split("\r\n").filter((one) => one !== "")) {
    const colon = line.indexOf(":");
    if (colon <= 0) throw invalidForm("a part of the form has a header that is none");
    lines.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  const disposition = lines.get("content-disposition") ?? "";
  const name = headerParameter(disposition, "name");
  if (!/^form-data\b/i.test(disposition) || name === null) throw invalidForm("a part of the form has no name");
  return { name, filename: readFilename(disposition), mimeType: lines.get("content-type") ?? null };
}

function headerParameter(header: string, name: string): string | null {
  const [, quoted, plain] = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, "i").exec(header) ?? [];
  // Browsers write a quote within a name as %22, others with a backslash.
  return quoted === undefined ? (plain ?? null) : quoted.replaceAll(/\\(["\\])/g, "$1").replaceAll("%22", '"');
}

/** The last step of a path that an old browser sent whole; never empty. */
function readFilename(disposition: string): string | null {
  const [, encoded] = /;\s*filename\*=utf-8''([^\s;]+)/i.exec(disposition) ?? [];
  const name = (encoded === undefined ? null : decodePercent(encoded)) ?? headerParameter(disposition, "filename");
  return name?.split(/[\\/]/).at(-1) || null;
}

function decodePercent(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    // A name that is not well encoded is not worth refusing a file for: its plain form is taken.
    return null;
  }
}

/** Bytes up to the next boundary, however they are cut into chunks. */
function createPartReader(body: AsyncIterable<Buffer>, boundary: Buffer) {
  const chunks = body[Symbol.asyncIterator]();
  // A form begins with its boundary without the line end that stands before every other.
  let buffered: Buffer = Buffer.from("\r\n", "latin1");
  let isInPart = true;

  const readMore = async (): Promise<void> => {
    const { done, value } = await chunks.next().catch(throwBrokenOff);
    if (done === true) throw invalidForm("the form ends before its last boundary");
    buffered = buffered.length === 0 ? value : Buffer.concat([buffered, value]);
  };
  async function* untilBoundary(): AsyncGenerator<Buffer> {
    while (isInPart) {
      const at = buffered.indexOf(boundary);
      // What may be the beginning of a boundary stays until more has come.
      const safe = at >= 0 ? at : Math.max(0, buffered.length - boundary.length + 1);
      const out = buffered.subarray(0, safe);
      buffered = buffered.subarray(at >= 0 ? at + boundary.length : safe);
      if (at >= 0) isInPart = false;
      if (out.length > 0) yield out;
      if (at < 0) await readMore();
    }
  }
  return {
    untilBoundary,
    /** After a boundary: another part, or the end. */
    async hasNextPart(): Promise<boolean> {
      while (buffered.length < 2) await readMore();
      if (buffered.subarray(0, 2).equals(Buffer.from("--"))) {
        // Nothing that follows means anything; it is read, so that the connection can go on.
        while ((await chunks.next().catch(throwBrokenOff)).done !== true);
        return false;
      }
      if (!buffered.subarray(0, 2).equals(Buffer.from("\r\n")))
        throw invalidForm("a boundary of the form is not followed by a line end");
      isInPart = true;
      return true;
    },
    async readHeaderText(bytesMax: number): Promise<string> {
      for (;;) {
        const end = buffered.indexOf("\r\n\r\n");
        if (end >= 0 && end <= bytesMax) {
          const text = buffered.subarray(2, Math.max(2, end)).toString("utf8");
          buffered = buffered.subarray(end + 4);
          return text;
        }
        if (buffered.length > bytesMax) throw invalidForm("a part of the form has headers that are too long");
        await readMore();
      }
    },
    async readFieldText(bytesMax: number): Promise<string> {
      const parts: Buffer[] = [];
      let size = 0;
      for await (const chunk of untilBoundary()) {
        size += chunk.length;
        if (size > bytesMax) throw invalidForm("a field of the form is too long");
        parts.push(chunk);
      }
      return Buffer.concat(parts).toString("utf8");
    },
  };
}
