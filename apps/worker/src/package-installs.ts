// What this worker installs at its scheduler's command, put together from its settings.

import { accessSync, constants } from "node:fs";
import path from "node:path";
import { errorMessage } from "@astraflow/protocol";
import {
  createDirectory,
  createPackageManager,
  type HostingSettings,
  installLimits,
  type PackageManager,
  type PackageManagerOptions,
} from "@astraflow/runtime";
import type { TokenFile } from "./identity/credential-files.ts";
import type { WorkerConfig } from "./settings/config.ts";

export interface PackageInstallOptions extends Pick<PackageManagerOptions, "environment" | "boot" | "log"> {
  readonly config: WorkerConfig;
  readonly token: TokenFile;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hosting: HostingSettings;
}

/** What pip and npm may see: programs, proxies, certificates and their own settings; never the worker's. */
const toolVariables =
  /^(PATH|HOME|LANG|LC_ALL|TMPDIR|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|PIP_.*|NPM_CONFIG_.*)$/i;

/** Undefined: nothing can be installed, because no key is trusted and unsigned packages are not allowed, or for want of a folder. */
export function createPackageInstalls(options: PackageInstallOptions): PackageManager | undefined {
  const { config, env, token, environment, boot, log, hosting } = options;
  const { trustedKeys, trustsRepository, allowsUnsigned, origins, hookPackages, wheelsDir } = config.packageInstalls;
  if (trustedKeys.length === 0 && !trustsRepository && !allowsUnsigned) return undefined;
  const packagesDir = path.resolve(config.packagesDir);
  if (!isWritable(packagesDir, log)) return undefined;
  // The scheduler's session door and its API are one server.
  const schedulerOrigins = config.urls.map((url) => new URL(url.replace(/^ws/, "http")).origin);
  const apiUrl = schedulerOrigins[0] === undefined ? null : `${schedulerOrigins[0]}/api/v1`;
  const tools = Object.entries(env).filter(
    (entry): entry is [string, string] => toolVariables.test(entry[0]) && entry[1] !== undefined,
  );
  return createPackageManager({
    environment,
    boot,
    log,
    authorization: () => {
      const [origin] = schedulerOrigins;
      const { auth } = token;
      return origin === undefined || auth.token === undefined ? undefined : { origin, value: `Bearer ${auth.token}` };
    },
    settings: {
      tenant: config.tenant,
      packagesDir,
      trustedKeys,
      trustsRepository,
      allowsUnsigned,
      allowedOrigins: [...schedulerOrigins, ...origins],
      repositoryUrl: apiUrl === null ? null : `${apiUrl}/packages`,
      repositoryKeysUrl: apiUrl === null ? null : `${apiUrl}/package-keys`,
      hookPackages,
      hiddenPaths: [config.dataDir, packagesDir, config.tokenFile, config.tls.key].flatMap((place) =>
        place === undefined ? [] : [path.resolve(place)],
      ),
      python: { command: config.hosts.python, ...(wheelsDir !== undefined && { wheelsDir: path.resolve(wheelsDir) }) },
      npm: "npm",
      toolEnvironment: Object.fromEntries(tools),
      hosting,
      limits: installLimits,
    },
  });
}

function isWritable(dir: string, log: PackageManagerOptions["log"]): boolean {
  try {
    createDirectory(dir);
    accessSync(dir, constants.W_OK);
    return true;
  } catch (cause) {
    const message = `no packages are installed at the scheduler's command: ${dir} cannot be written`;
    log({ level: "warn", event: "package", message, details: { cause: errorMessage(cause) } });
    return false;
  }
}
