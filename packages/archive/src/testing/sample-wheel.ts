// Python wheels for tests: one that asks an index of the world is slow and fails with the network.

import { sha256Hex } from "../signature/content-digest.ts";
import { writeZip } from "../zip/write-zip.ts";

export interface SampleWheel {
  readonly file: string;
  readonly content: Buffer;
  readonly sha256: string;
}

interface WheelParts {
  /** Its own dependencies. */
  readonly requires?: readonly string[];
  /** The system that it is for. */
  readonly tag?: string;
  /** Python files by their names; without them, one module of the wheel's name. */
  readonly modules?: Readonly<Record<string, string>>;
}

export function createWheel(name: string, version: string, parts: WheelParts = {}): SampleWheel {
  const { requires = [], tag = "py3-none-any", modules = { [`${name}.py`]: `version = "${version}"\n` } } = parts;
  const info = `${name}-${version}.dist-info`;
  const dependencies = requires.map((one) => `Requires-Dist: ${one}\n`).join("");
  const files = {
    ...modules,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n${dependencies}`,
    [`${info}/WHEEL`]: `Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: ${tag}\n`,
  };
  const record = [...Object.keys(files), `${info}/RECORD`].map((file) => `${file},,\n`).join("");
  const entries = Object.entries({ ...files, [`${info}/RECORD`]: record });
  const content = writeZip(entries.map(([file, text]) => ({ name: file, content: Buffer.from(text) })));
  return { file: `${name}-${version}-${tag}.whl`, content, sha256: sha256Hex(content) };
}
