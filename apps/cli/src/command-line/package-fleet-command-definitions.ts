// The commands about packages on a scheduler and its workers: `packages publish`, `list`, `keys`, `install`, `uninstall`, `rollout`, `rollback`.

import { InvalidArgumentError } from "commander";
import { installPackage, uninstallPackage } from "../packages/install-commands.ts";
import { publishPackage } from "../packages/publish-command.ts";
import * as repository from "../packages/repository-commands.ts";
import * as rollouts from "../packages/rollout-commands.ts";
import { type CommandTable, parseInteger, repeatedOption } from "./command-table.ts";
import { buildOptions, tenantFlag } from "./package-command-definitions.ts";

const packageHelp = "name of the package";
const packageRefHelp = "name of the package, with @VERSION for one version";
const rolloutHelp = "id, or its unique beginning or end (default: the newest)";
const waitFlag = { "--wait": "wait until it has ended, and end with 1 if something failed" } as const;
const targetOptions = {
  "--worker <worker>": repeatedOption("a worker, by name or instance id"),
  "--pool <pool>": "every connected worker of this pool",
  "--all": "every connected worker",
  ...waitFlag,
} as const;

/** An upload of half a gigabyte takes longer than other requests. */
const publishWaitMs = 5 * 60_000;

function parseRatio(text: string): number {
  const value = /^(0|1|0?\.\d+|1\.0+)$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError("It must be a number from 0 to 1, such as 0.05.");
}

export const packageFleetCommands: CommandTable = {
  "packages publish": {
    kind: "change",
    waitMs: publishWaitMs,
    help: "publish an archive with the signature beside it, or a folder, which is packed first",
    examples: ["acme.tools-1.0.0.cwx", "tools --key key.pem --by ann@acme.example", "a.cwx --dry-run --json"],
    arguments: { "<path>": "a .cwx file, or the folder of a package" },
    options: {
      "--key <file>": "sign the packed folder with this private key in PEM",
      "--by <name>": "who signs",
      "--tenant <tenant>": tenantFlag,
      ...buildOptions,
    },
    run: publishPackage,
  },
  "packages list": {
    isPaged: true,
    help: "list packages, or the versions of one: their status and the workers that hold them",
    examples: ["astra packages list", "acme.tools", "acme.tools --output wide"],
    arguments: { "[package]": packageHelp },
    run: repository.listPackages,
  },
  "packages keys": {
    help: "list, add and remove the keys whose signatures the tenant trusts",
    examples: ["list", 'add release.pub --name "Release key"', "remove 9f3c"],
  },
  "packages keys list": {
    limits: { default: 100, max: 100 },
    help: "list the keys that the tenant trusts",
    examples: ["astra packages keys list", "--output wide", "--json"],
    run: repository.listPackageKeys,
  },
  "packages keys add": {
    kind: "change",
    help: "trust a public key for signatures of packages, of all or of some",
    examples: ["release.pub --name Release", 'r.pub --name Release --package "acme.*"', "r.pub --name Release --json"],
    arguments: { "<file>": "public ed25519 key in PEM, as openssl pkey -pubout writes it" },
    options: {
      "--name <name>": { help: "whose key it is", isRequired: true },
      "--package <pattern>": repeatedOption("what it may sign, by name or by its beginning with *"),
    },
    run: repository.addPackageKey,
  },
  "packages keys remove": {
    kind: "delete",
    alias: "rm",
    help: "trust a key no longer; what it signed stays installed",
    examples: ["9f3c", "Release --yes", "9f3c --dry-run"],
    arguments: { "<keyId>": "id or name, or its unique beginning" },
    run: repository.removePackageKey,
  },
  "packages install": {
    kind: "change",
    help: "install a published version on workers",
    examples: [
      "acme.tools --all",
      "acme.tools@1.2.0 --worker w-1 --worker w-2 --wait",
      "acme.tools@1.1.0 --pool gpu --allow-older",
    ],
    arguments: { "<package>": `${packageRefHelp} (default: the newest)` },
    options: { ...targetOptions, "--allow-older": "install it although a worker had a newer version" },
    run: installPackage,
  },
  "packages uninstall": {
    kind: "delete",
    help: "remove a version, or all versions of a package, from workers",
    examples: ["acme.tools@1.1.0 --all", "acme.tools --worker w-1 --yes --wait", "acme.tools@1.1.0 --pool gpu --dry-run"],
    arguments: { "<package>": `${packageRefHelp} (default: all versions)` },
    options: targetOptions,
    run: uninstallPackage,
  },
  "packages rollout": {
    help: "bring a version to the workers in phases, watched, with a way back",
    examples: ["start acme.tools@1.2.0", "show acme.tools", "stop acme.tools --rollback"],
  },
  "packages rollout start": {
    kind: "change",
    help: "bring a version to the workers in phases; failed tasks or installs take it back",
    examples: [
      "acme.tools@1.2.0 --wait",
      "acme.tools@1.2.0 --phase 1 --phase 100%",
      "acme.tools@1.2.0 --max-failures 3 --observe 300",
    ],
    arguments: { "<package>": "name and version: NAME@VERSION" },
    options: {
      "--pool <pool>": "only workers of this pool",
      "--phase <target>": repeatedOption("a phase, as a number of workers or a share such as 25% (default: 1, 25%, 100%)"),
      "--max-failures <n>": { help: "failed tasks of the version that are borne", parse: parseInteger(0, 1_000_000) },
      "--failure-ratio <share>": { help: "share of its tasks that may fail, from 0 to 1", parse: parseRatio },
      "--min-tasks <n>": { help: "finished tasks from which on the share counts", parse: parseInteger(1, 1_000_000) },
      "--observe <seconds>": { help: "how long a phase is watched, in seconds", parse: parseInteger(0, 604_800) },
      ...waitFlag,
    },
    run: rollouts.startRollout,
  },
  "packages rollout show": {
    help: "show how far a rollout is, worker by worker",
    examples: ["acme.tools", "acme.tools 7c1e", "acme.tools --json"],
    arguments: { "<package>": packageHelp, "[rollout]": rolloutHelp },
    run: rollouts.showRollout,
  },
  "packages rollout list": {
    isPaged: true,
    help: "list rollouts and rollbacks of a package, newest first",
    examples: ["acme.tools", "acme.tools --output wide", "acme.tools --json"],
    arguments: { "<package>": packageHelp },
    run: rollouts.listRollouts,
  },
  "packages rollout stop": {
    kind: "delete",
    help: "stop a rollout; workers keep what they have, or go back with --rollback",
    examples: ["acme.tools", "acme.tools --rollback --yes --wait", "acme.tools 7c1e --dry-run"],
    arguments: { "<package>": packageHelp, "[rollout]": rolloutHelp },
    options: { "--rollback": "take the version back too", ...waitFlag },
    run: rollouts.stopRollout,
  },
  "packages rollback": {
    kind: "delete",
    help: "go back to the version before, or to a named one, and withdraw the newer one",
    examples: ["acme.tools", "acme.tools --to 1.1.0 --yes --wait", "acme.tools --pool gpu --dry-run"],
    arguments: { "<package>": packageHelp },
    options: {
      "--to <version>": "the published version to go back to (default: the one before)",
      "--pool <pool>": "only workers of this pool; nothing is withdrawn",
      ...waitFlag,
    },
    run: rollouts.rollBackPackage,
  },
};
