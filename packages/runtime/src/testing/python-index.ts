// Wheels that are made on the spot, and an index that serves them as PEP 503 says: a test that asks a public one is slow and fails with the
// network.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createWheel } from "@astraflow/archive/testing";

/** Writes a wheel of Python files and gives its line for a lock. */
export function writeWheel(folder: string, name: string, version: string, modules: Readonly<Record<string, string>>): string {
  mkdirSync(folder, { recursive: true });
  const { file, content, sha256 } = createWheel(name, version, { modules });
  writeFileSync(path.join(folder, file), content);
  return `${name}==${version} --hash=sha256:${sha256}\n`;
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
