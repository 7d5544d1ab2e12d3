// A repository of packages on this machine for tests: an HTTP server, packages that are built and signed on the spot, and settings of an
// installer that may ask it.

import { createHash, generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type ArchiveFile, buildPackageArchive, type PrivateKey, readPrivateKey, signPackage } from "@astraflow/archive";
import type { PkgInstallPayload } from "@astraflow/protocol";
import { type InstallSettings, installLimits } from "../packages/install-settings.ts";

export const sha256 = (bytes: string | Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export function createSigningKey(): { readonly key: PrivateKey; readonly publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const key = readPrivateKey(privateKey.export({ format: "pem", type: "pkcs8" }).toString()) as PrivateKey;
  return { key, publicKey: publicKey.export({ format: "pem", type: "spki" }).toString() };
}

/** A package of one Node handler that returns its version. */
export function packageFiles(
  version: string,
  manifest: object = {},
  files: Readonly<Record<string, string>> = {},
): ArchiveFile[] {
  const all = {
    "manifest.json": JSON.stringify({
      schemaVersion: "1.0.0",
      name: "acme.tools",
      version,
      description: "Tools of Acme",
      adapters: [{ name: "main", runtime: "node", entrypoint: "main.mjs", capabilities: ["acme.greet"] }],
      node: { requires: ">=22" },
      nodes: [
        {
          type: "acme.greet",
          status: "published",
          category: "Text",
          label: "Greet",
          adapter: "main",
          handler: "greet",
          schema: {},
        },
      ],
      ...manifest,
    }),
    "main.mjs": `export const greet = () => ({ outputs: { version: ${JSON.stringify(version)} } });\n`,
    ...files,
  };
  return Object.entries(all).map(([name, content]) => ({ name, content: Buffer.from(content) }));
}

export class PackageRepository {
  readonly root: string;
  readonly packagesDir: string;
  readonly signing = createSigningKey();
  readonly files = new Map<string, Uint8Array | RequestListener>();
  readonly requests: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.root = mkdtempSync(path.join(tmpdir(), "repository-"));
    this.packagesDir = path.join(this.root, "packages");
  }

  static async open(): Promise<PackageRepository> {
    const server = createServer();
    const repository = new PackageRepository(server);
    server.on("request", (request, response) => repository.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return repository;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.root, { recursive: true, force: true });
  }

  settings(changes: Partial<InstallSettings> = {}): InstallSettings {
    return {
      tenant: "default",
      packagesDir: this.packagesDir,
      trustedKeys: [{ publicKey: this.signing.publicKey }],
      trustsRepository: false,
      allowsUnsigned: false,
      allowedOrigins: [this.origin],
      repositoryUrl: `${this.origin}/packages`,
      repositoryKeysUrl: `${this.origin}/package-keys`,
      hookPackages: [],
      hiddenPaths: [],
      python: { command: "python3" },
      npm: "npm",
      toolEnvironment: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      hosting: {
        hostsNode: true,
        python: "python3",
        env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
        execMode: "auto",
        parallelMax: 1,
        cancelGraceMs: 1_000,
      },
      limits: installLimits,
      ...changes,
    };
  }

  /** Publishes a signed package and gives the command that installs it. */
  publish(files: readonly ArchiveFile[], key: PrivateKey = this.signing.key): PkgInstallPayload {
    const claims = { tenant: "default", signedAt: "2026-01-02T03:04:05Z", signedBy: "Ann" };
    const { archive, signature } = signPackage(files, claims, key);
    const { name, version } = signature.package;
    const address = `/${name}-${version}.cwx`;
    this.files.set(address, archive);
    return {
      name,
      version,
      url: `${this.origin}${address}`,
      sha256: signature.sha256,
      signature: { key_id: signature.keyId, ed25519: signature.ed25519, signed_at: claims.signedAt, signed_by: claims.signedBy },
    };
  }

  publishUnsigned(files: readonly ArchiveFile[]): PkgInstallPayload {
    const { archive, manifest } = buildPackageArchive(files);
    this.files.set("/unsigned.cwx", archive);
    const { name, version } = manifest;
    return { name, version, url: `${this.origin}/unsigned.cwx`, sha256: sha256(archive) };
  }

  readonly #answer: RequestListener = (request, response) => {
    this.requests.push(`${request.url} ${request.headers.authorization ?? "-"}`);
    const file = this.files.get(request.url ?? "");
    if (typeof file === "function") file(request, response);
    else if (file === undefined) response.writeHead(404).end();
    else response.end(file);
  };
}
