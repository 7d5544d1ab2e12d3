// A small package of Python code, and its files.

import type { ArchiveFile } from "../zip/write-zip.ts";

const sampleManifest = {
  schemaVersion: "1.0.0",
  name: "acme.tools",
  version: "1.2.3",
  description: "Tools of Acme",
  adapters: [{ name: "main", entrypoint: "acme.main:Adapter", capabilities: ["acme.greet"] }],
  python: { requires: ">=3.10,<4", dependencies: [] as string[] },
  nodes: [
    { type: "acme.greet", status: "published", category: "Text", label: "Greet", adapter: "main", handler: "greet", schema: {} },
  ],
};

export function samplePackage(manifest: object = {}, files: Record<string, string> = {}): ArchiveFile[] {
  const all = {
    "manifest.json": JSON.stringify({ ...sampleManifest, ...manifest }),
    "adapters/acme/__init__.py": "",
    "adapters/acme/main.py": "class Adapter:\n    pass\n",
    ...files,
  };
  return Object.entries(all).map(([name, content]) => ({ name, content: Buffer.from(content) }));
}
