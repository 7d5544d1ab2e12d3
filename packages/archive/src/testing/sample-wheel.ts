// Python wheels for tests: one that asks an index of the world is slow and fails with the network.

import { sha256Hex } from "../signature/content-digest.ts";
import { writeZip } from "../zip/write-zip.ts";

export interface SampleWheel {
  readonly file: string;
  readonly content: Buffer;
  readonly sha256: string;
}

/** A wheel of one module; `requires` are its own dependencies, `tag` is the system that it is for. */
export function createWheel(
  name: string,
  version: string,
  { requires = [], tag = "py3-none-any" }: { readonly requires?: readonly string[]; readonly tag?: string } = {},
): SampleWheel {
  const info = `${name}-${version}.dist-info`;
  const metadata = [
    "Metadata-Version: 2.1",
    `Name: ${name}`,
    `Version: ${version}`,
    ...requires.map((one) => `Requires-Dist: ${one}`),
  ];
  const files = {
    [`${name}.py`]: `version = "${version}"\n`,
    [`${info}/METADATA`]: `${metadata.join("\n")}\n`,
    [`${info}/WHEEL`]: `Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: ${tag}\n`,
    [`${info}/RECORD`]: `${name}.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`,
  };
  const content = writeZip(Object.entries(files).map(([path, text]) => ({ name: path, content: Buffer.from(text) })));
  return { file: `${name}-${version}-${tag}.whl`, content, sha256: sha256Hex(content) };
}
