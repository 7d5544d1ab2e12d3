// All credentials of a running scheduler: tokens, session keys, the gate made of them, and the looking again at what may change on
// disk. What each means is in the files it is made of; the order in which things start and end is in scheduler.ts.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type AuthenticateToken,
  createTokenRegistry,
  createWorkerAuthenticator,
  type DoorEnvironment,
  type RefreshableAuthenticator,
} from "@astraflow/doors";
import type { Log } from "../platform/log.ts";
import type { SchedulerConfig } from "../settings/config.ts";
import { type AccessToken, compareTokens, devToken, readTokens } from "../settings/token-files.ts";
import { openSessionKeys, sessionKeysFile } from "./session-keys.ts";

export interface Credentials {
  /** For REST. */
  readonly authenticate: AuthenticateToken;
  /** For workers. */
  readonly workerAuthenticator: RefreshableAuthenticator;
  /** Looks at the files. `isSure`: they are as they should be, so that what is missing is revoked at once. */
  reloadTokens(isExplicit: boolean): Promise<void>;
  /** Turns the ring of session keys if it is time. */
  rotateKeys(): void;
}

export interface CredentialsOptions {
  readonly config: SchedulerConfig;
  readonly replica: string;
  readonly environment: DoorEnvironment;
  readonly log: Log;
}

/** Throws a StartupError where the session keys cannot be kept. */
export function openCredentials({ config, replica, environment, log }: CredentialsOptions): Credentials {
  const tokenRegistry = createTokenRegistry(toTokenEntries(config.tokens));
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
    authenticate: tokenRegistry.authenticate,
    workerAuthenticator,
    rotateKeys: keys.rotate,
    async reloadTokens(isExplicit) {
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

/** Texts of the token files as they were read last. One that is gone is empty; one that cannot be read just now stays as it was. */
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
    /** False while one of them could never be read: then nothing can be said about its tokens. */
    async readAll(): Promise<boolean> {
      await Promise.all(files.map(read));
      return files.every((path) => texts.has(path));
    },
    text: (path: string): string => texts.get(path) ?? "",
  };
}
