// The SDK for authors of node packages as a package that stands alone: `node scripts/publish/sdk-package.ts [folder]` compiles its sources, with the types
// of JSON written out in place of the private protocol package, into packages/sdk/dist or another folder.

import { join, resolve } from "node:path";
import { buildPublishedPackage } from "./published-package.ts";
import { repositoryRoot } from "../repository-files.ts";

const jsonModule = `// JSON as types.

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}
`;

/** Compiles the package into an emptied folder. */
export const buildSdk = (folder: string): void =>
  buildPublishedPackage(
    {
      workspace: "packages/sdk",
      description:
        "What authors of AstraFlow node packages import: types of handlers, errors, and a harness to test handlers without a scheduler.",
      exports: { ".": "index", "./testing": "testing" },
      compilerOptions: { lib: ["es2023"], types: ["node"] },
      rewrite: (file, text) => {
        if (file === "json.ts") return jsonModule;
        // Authors must be able to name the types, which the workspace has from the protocol package.
        return file === "index.ts" ? `${text}export type * from "./json.ts";\n` : text;
      },
    },
    folder,
  );

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(repositoryRoot, "packages/sdk/dist"));
  buildSdk(folder);
  console.log(`built ${folder}; pack it with: npm pack ${folder}`);
}
