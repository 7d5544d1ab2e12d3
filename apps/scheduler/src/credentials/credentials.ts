// All credentials of a running scheduler: tokens, session keys and the authenticators made of them, and reloading the token files.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createWorkerAuthenticator, TokenRegistry } from "@astraflow/doors";
import type { ServiceEnvironment } from "@astraflow/services";
import type { Log } from "../platform/log.ts";
import type { SchedulerConfig } from "../settings/config.ts";
import { type AccessToken, compareTokens, devToken, readTokens } from "../settings/secrets.ts";
import { openSessionKeys, sessionKeysFile } from "./session-keys.ts";

export type Credentials = ReturnType<typeof openCredentials>;

export interface CredentialsOptions {
  readonly config: SchedulerConfig;
  readonly replica: string;
  readonly environment: ServiceEnvironment;
  readonly log: Log;
}

/** Throws a StartupError if the session keys cannot be written. */
export function openCredentials({ config, replica, environment, log }: CredentialsOptions) {
  const tokenRegistry = new TokenRegistry(toTokenEntries(config.tokens));
  const zero = environment.clock.now() - environment.clock.monotonic();
  const keys = openSessionKeys({
    file: join(config.dataDir, sessionKeysFile),
    ageMs: config.sessionKeyAgeMs,
    lifeMs: config.sessionTokenMs,
    now: () => zero + environment.clock.monotonic(),
    log,
  });
  const workerAuthenticator = createWorkerAuthenticator({
    tokens: tokenRegistry,
    keys,
    audience: `${config.cluster}/${replica}`,
    sessionTokenMs: config.sessionTokenMs,
    environment,
    trustDomain: config.trustDomain,
    isCertificateRequired: (tenant) => config.tenants[tenant]?.isCertificateRequired ?? false,
  });
  const files = [...new Set(config.tokenSettings.flatMap(({ file }) => file ?? []))];
  const reader = createTokenFileReader(files, log);
  let used = config.tokens;
  let missing: readonly AccessToken[] = [];
  let lastProblems = "";

  return {
    /** For REST. */
    authenticate: tokenRegistry.authenticate,
    /** For workers. */
    workerAuthenticator,
    /** Rotates the session keys if it is time. */
    rotateKeys: keys.rotate,
    /** Reads the token files again. If the user asked for it explicitly, missing tokens are revoked at once. */
    async reloadTokens(isExplicit: boolean): Promise<void> {
      if (!(await reader.readAll())) return;
      const { tokens, problems } = readTokens(config.tokenSettings, { isDev: config.isDev, readFile: reader.text });
      const problemText = problems.join("\n");
      if (problemText !== lastProblems) for (const problem of problems) log.error({ problem }, "token.refused");
      lastProblems = problemText;
      const change = compareTokens(used, config.isDev ? [devToken, ...tokens] : tokens, { missing, isSure: isExplicit });
      missing = change.missing;
      if (change.added.length === 0 && change.removed.length === 0) return;
      used = change.tokens;
      tokenRegistry.replace(toTokenEntries(used));
      for (const { name, tenant } of change.added) log.warn({ audit: true, name, tenant }, "token.added");
      for (const { name, tenant } of change.removed) log.warn({ audit: true, name, tenant }, "token.revoked");
      workerAuthenticator.notifyTokensChanged();
    },
  };
}

const toTokenEntries = (tokens: readonly AccessToken[]) =>
  tokens.map(({ secret, name, tenant, grants }) => ({ token: secret, user: name, tenant, grants }));

/** The last texts of the token files. A deleted file is empty; one that cannot be read keeps its last text. */
function createTokenFileReader(files: readonly string[], log: Log) {
  const texts = new Map<string, string>();
  const failing = new Set<string>();
  const read = async (path: string): Promise<void> => {
    try {
      texts.set(path, await readFile(path, "utf8"));
      failing.delete(path);
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code;
      if (code === "ENOENT") return void texts.set(path, "");
      if (!failing.has(path)) log.error({ file: path, problem: String(cause) }, "token.unread");
      failing.add(path);
    }
  };
  return {
    /** False while one of them has never been read: then its tokens are unknown. */
    async readAll(): Promise<boolean> {
      await Promise.all(files.map(read));
      return files.every((path) => texts.has(path));
    },
    text: (path: string): string => texts.get(path) ?? "",
  };
}
