// The commands of package authors: `packages new`, `dev`, `build`, `sign` and `verify`.

import { buildPackage } from "../packages/build-command.ts";
import { developPackage } from "../packages/dev-command.ts";
import { createPackage, signArchiveFile, verifyArchiveFile } from "../packages/package-commands.ts";
import { packageRuntimes } from "../packages/package-template.ts";
import type { CommandTable } from "./command-table.ts";

export const tenantFlag = {
  help: "the tenant the archive is signed for; * is every tenant that trusts the key",
  default: "default",
} as const;

/** How a folder becomes an archive. */
export const buildOptions = {
  "--python <program>": {
    help: "the Python whose pip writes requirements.txt where it does not pin python.dependencies",
    default: "python3",
  },
  "--wheels <folder>": "take the dependencies from a folder of wheels instead of an index",
  "--relock": "write requirements.txt anew although it fits",
  "--include-node-modules": "pack node_modules too",
} as const;

export const packageCommands: CommandTable = {
  packages: {
    help: "make node packages, publish them and bring them to workers",
    examples: ["new tools --name acme.tools", "publish tools --key key.pem --by Ann", "install acme.tools --all"],
  },
  "packages new": {
    isOffline: true,
    help: "write the folder of a new package with one node",
    examples: ["tools --name acme.tools", "tools --runtime node", "acme.tools --json"],
    arguments: { "<folder>": "a folder that does not exist yet" },
    options: {
      "--name <name>": "name of the package (default: that of the folder)",
      "--runtime <runtime>": { help: "what its code is written in", choices: packageRuntimes, default: "python" },
    },
    runLocally: createPackage,
  },
  "packages dev": {
    help: "run a package from its folder, and load it again at every save",
    examples: ["tools", "tools --name ann-dev", "tools --url http://127.0.0.1:9000"],
    arguments: { "<folder>": "the folder with manifest.json" },
    options: { "--name <name>": "name of the worker that runs it (default: dev- and the folder)" },
    runLocally: developPackage,
  },
  "packages build": {
    isOffline: true,
    help: "check a package, pin its Python dependencies and write its archive",
    examples: ["tools", "tools --out dist/tools.cwx", "tools --wheels ./wheels --json"],
    arguments: { "<folder>": "the folder with manifest.json" },
    options: {
      "--out <file>": "the archive (default: NAME-VERSION.cwx)",
      ...buildOptions,
    },
    runLocally: buildPackage,
  },
  "packages sign": {
    isOffline: true,
    help: "sign an archive: fills the manifest's signature and writes ARCHIVE.sig",
    examples: [
      "acme.tools-1.0.0.cwx --key key.pem --by ann@acme.example",
      "a.cwx --key key.pem --by Ann --tenant acme",
      "a.cwx --key key.pem --by Ann --json",
    ],
    arguments: { "<archive>": "the .cwx file" },
    options: {
      "--key <file>": { help: "private key in PEM, as openssl genpkey -algorithm ed25519 writes it", isRequired: true },
      "--by <name>": { help: "who signs", isRequired: true },
      "--tenant <tenant>": tenantFlag,
    },
    runLocally: (context, input: Parameters<typeof signArchiveFile>[1]) =>
      signArchiveFile({ ...context, now: () => Date.now() }, input),
  },
  "packages verify": {
    isOffline: true,
    help: "check an archive as a worker would, and its signature",
    examples: ["acme.tools-1.0.0.cwx", "acme.tools-1.0.0.cwx --key public.pem", "a.cwx --key public.pem --json"],
    arguments: { "<archive>": "the .cwx file" },
    options: { "--key <file>": "public key in PEM that must have signed it", "--tenant <tenant>": tenantFlag },
    runLocally: verifyArchiveFile,
  },
};
