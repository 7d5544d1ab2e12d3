// Compiles a package of the workspace as one that stands alone: its sources as JavaScript with types, and a manifest without private packages.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repositoryRoot } from "../repository-files.ts";

const compiler = join(repositoryRoot, "node_modules/typescript/bin/tsc");

export interface PublishedPackage {
  /** Folder in the workspace, such as `packages/client`. */
  readonly workspace: string;
  readonly description: string;
  readonly exports: Readonly<Record<string, string>>;
  /** Libraries and types that its sources may use. */
  readonly compilerOptions: { readonly lib: readonly string[]; readonly types: readonly string[] };
  /** What a source becomes; it may not import a private package any more. */
  rewrite(file: string, text: string): string;
  /** Sources that are made, by name. */
  readonly generated?: Readonly<Record<string, string>>;
}

const commonOptions = {
  target: "es2022",
  module: "nodenext",
  typeRoots: [join(repositoryRoot, "node_modules/@types")],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
  declaration: true,
  rootDir: ".",
  outDir: "out",
} as const;

/** Compiles the package into an emptied folder. */
export function buildPublishedPackage(published: PublishedPackage, folder: string): void {
  const { workspace, compilerOptions, generated = {} } = published;
  const sources = join(repositoryRoot, workspace, "src");
  const workFolder = mkdtempSync(join(tmpdir(), "astraflow-package-"));
  try {
    for (const file of readdirSync(sources).filter((name) => /(?<!\.test)\.ts$/.test(name)))
      writeFileSync(join(workFolder, file), published.rewrite(file, readFileSync(join(sources, file), "utf8")));
    for (const [file, text] of Object.entries(generated)) writeFileSync(join(workFolder, file), text);
    writeFileSync(join(workFolder, "package.json"), JSON.stringify({ type: "module" }));
    const configuration = { compilerOptions: { ...commonOptions, ...compilerOptions }, include: ["*.ts"] };
    writeFileSync(join(workFolder, "tsconfig.json"), JSON.stringify(configuration));
    const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", workFolder], { encoding: "utf8" });
    if (status !== 0) throw new Error(`${workspace} does not compile as a package of its own:\n${stdout}`);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const file of readdirSync(join(workFolder, "out"))) {
      const text = readFileSync(join(workFolder, "out", file), "utf8");
      // The compiler renames imports in what runs, but not in what declares its types.
      writeFileSync(join(folder, file), file.endsWith(".d.ts") ? text.replaceAll(/"(\.\/[\w-]+)\.ts"/g, '"$1.js"') : text);
    }
    writeFileSync(join(folder, "package.json"), `${JSON.stringify(packageManifest(published), null, 2)}\n`);
    cpSync(join(repositoryRoot, workspace, "README.md"), join(folder, "README.md"));
    cpSync(join(repositoryRoot, "LICENSE"), join(folder, "LICENSE"));
  } finally {
    rmSync(workFolder, { recursive: true, force: true });
  }
}

/** The manifest of the published package; the one in the workspace names its sources and is private. */
function packageManifest({ workspace, description, exports }: PublishedPackage): Record<string, unknown> {
  const read = (path: string) => JSON.parse(readFileSync(join(repositoryRoot, path), "utf8")) as Record<string, unknown>;
  const { name, version, license, type } = read(join(workspace, "package.json"));
  const entries = Object.entries(exports).map(([entry, file]) => [entry, { types: `./${file}.d.ts`, default: `./${file}.js` }]);
  return {
    name,
    version,
    description,
    license,
    type,
    engines: read("package.json")["engines"],
    sideEffects: false,
    exports: Object.fromEntries(entries) as Record<string, unknown>,
    types: `./${exports["."]}.d.ts`,
    files: ["*.js", "*.d.ts"],
  };
}
