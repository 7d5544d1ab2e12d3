// Wheels that are made on the spot, and an index that serves them as PEP 503 says: a test that asks a public one is slow and fails with the
// network.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { writeZip } from "@astraflow/archive";
import { sha256 } from "./package-repository.ts";

/** Writes a wheel of Python files and gives its line for a lock. */
export function writeWheel(folder: string, name: string, version: string, modules: Readonly<Record<string, string>>): string {
  mkdirSync(folder, { recursive: true });
  const info = `${name}-${version}.dist-info`;
  const files = {
    ...modules,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`,
    [`${info}/WHEEL`]: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
  };
  const record = [...Object.keys(files), `${info}/RECORD`].map((file) => `${file},,\n`).join("");
  const entries = Object.entries({ ...files, [`${info}/RECORD`]: record });
  const wheel = writeZip(entries.map(([file, text]) => ({ name: file, content: Buffer.from(text) })));
  writeFileSync(path.join(folder, wheelName(name, version)), wheel);
  return `${name}==${version} --hash=sha256:${sha256(wheel)}\n`;
}

const wheelName = (name: string, version: string): string => `${name}-${version}-py3-none-any.whl`;

export class PythonIndex {
  readonly requests: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Serves one wheel of a folder: its project's page at `/simple/<name>/`, and the file. */
  static async open(folder: string, name: string, version: string): Promise<PythonIndex> {
    const server = createServer();
    const index = new PythonIndex(server);
    const file = wheelName(name, version);
    const page = `<!DOCTYPE html><html><body><a href="/files/${file}">${file}</a></body></html>`;
    server.on("request", ({ url = "" }, response) => {
      index.requests.push(url);
      if (url === `/simple/${name}/`) response.setHeader("content-type", "text/html").end(page);
      else if (url === `/files/${file}`) response.end(readFileSync(path.join(folder, file)));
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return index;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/simple/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
