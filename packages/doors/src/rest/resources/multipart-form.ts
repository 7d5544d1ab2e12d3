// A form with a file (multipart/form-data), parsed as it arrives: small fields are collected, the file is passed on as a stream.

import type { Readable } from "node:stream";
import { Fault, fault } from "@astraflow/protocol";
import { Dicer } from "@fastify/busboy";

export interface FormFile {
  readonly filename: string;
  readonly mimeType: string | null;
  /** Ends with the form, and fails if what follows the file is invalid, so that a caller does not keep the bytes of an invalid form. */
  readonly bytes: AsyncIterable<Buffer>;
}

/** Called with the part `file`. `fields` has the fields before it and, once its bytes have been read, all of them. */
export type FormFileHandler<T> = (file: FormFile, fields: Readonly<Record<string, string>>) => Promise<T>;

const formLimits = { headBytesMax: 8 * 1024, fieldBytesMax: 16 * 1024, fieldsMax: 16 } as const;

/** Returns what `onFile` made of the file. Throws if the form is invalid, has no file, or has two. */
export const readMultipartForm = <T>(
  contentType: string | undefined,
  body: AsyncIterable<Buffer>,
  onFile: FormFileHandler<T>,
): Promise<T> => new FormReader(readBoundary(contentType), onFile).read(body);

class FormReader<T> {
  readonly #dicer: Dicer;
  readonly #onFile: FormFileHandler<T>;
  readonly #fields: Record<string, string> = {};
  readonly #fieldsRead: Promise<void>[] = [];
  readonly #failure = Promise.withResolvers<never>();
  readonly #finished = Promise.withResolvers<void>();
  #part: Readable | null = null;
  #file: Promise<T> | null = null;

  constructor(boundary: string, onFile: FormFileHandler<T>) {
    this.#onFile = onFile;
    // The parser cuts longer headers; the margin lets us see that they are too long. Its types do not know this option.
    const config = { boundary, maxHeaderSize: 2 * formLimits.headBytesMax };
    this.#dicer = new Dicer(config);
    this.#dicer.on("error", () => this.#fail(invalidForm("the form ends before its last boundary")));
    this.#dicer.on("finish", () => this.#finished.resolve());
    this.#dicer.on("part", (part: Readable) => {
      this.#part = part;
      part.on("error", () => undefined); // reported by whoever destroyed it
      // A part without complete headers has no data: it is read to its end, so that this is noticed.
      const failWithoutHeader = (): void => this.#fail(invalidForm("a part of the form has invalid headers"));
      part.once("end", failWithoutHeader).resume();
      part.once("header", (header: RawHeaders) => {
        part.off("end", failWithoutHeader).pause();
        try {
          this.#startPart(part, parsePartHeaders(header));
        } catch (why) {
          this.#fail(why);
        }
      });
    });
  }

  async read(body: AsyncIterable<Buffer>): Promise<T> {
    this.#feed(body).catch((why: unknown) => this.#fail(why));
    try {
      await this.#end();
      await Promise.all(this.#fieldsRead);
    } catch (why) {
      await this.#file; // fails with the same error, or with its own
      throw why;
    }
    if (this.#file === null) throw invalidForm('the form has no part named "file"');
    return this.#file;
  }

  /** The body is read to its end, so that the connection can be used again, but never closed here. */
  async #feed(body: AsyncIterable<Buffer>): Promise<void> {
    const chunks = body[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await chunks.next().catch(throwBrokenOff);
      if (done === true) break;
      await Promise.race([this.#failure.promise, new Promise((resolve) => this.#dicer.write(value, resolve))]);
    }
    this.#dicer.end();
  }

  #end(): Promise<void> {
    return Promise.race([this.#failure.promise, this.#finished.promise]);
  }

  #fail(why: unknown): void {
    this.#failure.reject(why);
    this.#part?.destroy(why as Error);
  }

  #startPart(part: Readable, { name, filename, mimeType }: PartHeaders): void {
    if (name !== "file") return this.#readField(name, part);
    if (this.#file !== null) throw invalidForm("the form has two files; send one");
    const file = { filename: filename ?? "file", mimeType, bytes: this.#readFile(part) };
    // The fields before the file have been parsed, but their streams deliver them a little later.
    this.#file = Promise.all(this.#fieldsRead).then(() => this.#onFile(file, this.#fields));
    this.#file.catch((why: unknown) => this.#fail(why));
  }

  async *#readFile(part: Readable): AsyncGenerator<Buffer> {
    try {
      yield* part;
    } catch (why) {
      // The parser has its own error for a part that breaks off; ours says what is wrong with the form.
      await this.#end();
      throw why;
    }
    await this.#end();
    await Promise.all(this.#fieldsRead);
  }

  #readField(name: string, part: Readable): void {
    if (this.#fieldsRead.length >= formLimits.fieldsMax) throw invalidForm("the form has too many fields");
    const chunks: Buffer[] = [];
    let size = 0;
    part.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > formLimits.fieldBytesMax) this.#fail(invalidForm("a field of the form is too long"));
      else chunks.push(chunk);
    });
    part.resume();
    const read = Promise.withResolvers<void>();
    part.once("close", read.resolve);
    part.once("end", () => {
      this.#fields[name] = Buffer.concat(chunks).toString("utf8");
      read.resolve();
    });
    this.#fieldsRead.push(read.promise);
  }
}

const invalidForm = (why: string) => fault("E.REQUEST.INVALID", why, { path: "body" });

/** The client went away, so nobody gets this answer. */
const throwBrokenOff = (cause: unknown): never => {
  if (cause instanceof Fault) throw cause;
  throw fault("E.REQUEST.INVALID", "the body broke off", { path: "body" }, cause);
};

/** A body that is the file itself. */
export async function* readRawBody(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* body;
  } catch (cause) {
    throwBrokenOff(cause);
  }
}

function readBoundary(contentType: string | undefined): string {
  if (!/^\s*multipart\/form-data\s*(;|$)/i.test(contentType ?? ""))
    throw fault("E.REQUEST.MEDIA", "send the file as multipart/form-data, in a part named file");
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType ?? "") ?? [];
  const boundary = quoted ?? plain ?? "";
  if (!/^[0-9A-Za-z'()+_,./:=? -]{1,70}$/.test(boundary)) throw invalidForm("the form's Content-Type names no boundary");
  return boundary;
}

/** By lowercase name; each byte of a value is one character. */
type RawHeaders = Readonly<Record<string, readonly string[]>>;

interface PartHeaders {
  readonly name: string;
  readonly filename: string | null;
  readonly mimeType: string | null;
}

function parsePartHeaders(headers: RawHeaders): PartHeaders {
  const valueOf = (name: string): string | undefined => {
    const value = headers[name]?.at(-1);
    return value === undefined ? undefined : Buffer.from(value, "latin1").toString("utf8");
  };
  const chars = Object.entries(headers).reduce((sum, [name, values]) => sum + name.length + values.join("").length, 0);
  if (chars > formLimits.headBytesMax) throw invalidForm("a part of the form has headers that are too long");
  const disposition = valueOf("content-disposition") ?? "";
  const name = headerParameter(disposition, "name");
  if (!/^form-data\b/i.test(disposition) || name === null) throw invalidForm("a part of the form has no name");
  return { name, filename: readFilename(disposition), mimeType: valueOf("content-type") ?? null };
}

function headerParameter(header: string, name: string): string | null {
  const [, quoted, plain] = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, "i").exec(header) ?? [];
  // Browsers write a quote within a name as %22, others with a backslash.
  return quoted === undefined ? (plain ?? null) : quoted.replaceAll(/\\(["\\])/g, "$1").replaceAll("%22", '"');
}

/** The last step of the path that some browsers send; never empty. */
function readFilename(disposition: string): string | null {
  const [, encoded] = /;\s*filename\*=utf-8''([^\s;]+)/i.exec(disposition) ?? [];
  const name = (encoded === undefined ? null : decodePercent(encoded)) ?? headerParameter(disposition, "filename");
  return name?.split(/[\\/]/).at(-1) || null;
}

function decodePercent(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    // A badly encoded name is no reason to refuse a file: its plain form is used.
    return null;
  }
}
