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
import type { Config } from "./config.ts";
import type { Log } from "./log.ts";
import { openSessionKeys, sessionKeysFile } from "./session-keys.ts";
import { compareTokens, devToken, readTokens, type Token } from "./token-files.ts";

export interface Credentials {
  /** For REST. */
  readonly authenticate: AuthenticateToken;
  /** For workers. */
  readonly gate: RefreshableAuthenticator;
  /** Looks at the files. `isSure`: they are as they should be, so that what is missing is revoked at once. */
  look(isSure: boolean): Promise<void>;
  /** Turns the ring of session keys if it is time. */
  turnKeys(): void;
}

export interface CredentialsOptions {
  readonly config: Config;
  readonly replica: string;
  readonly outside: DoorEnvironment;
  readonly log: Log;
}

/** Throws a StartRefusal where the session keys cannot be kept. */
export function openCredentials({ config, replica, outside: environment, log }: CredentialsOptions): Credentials {
  const tokenRegistry = createTokenRegistry(entriesOf(config.tokens));
  const zero = environment.clock.now() - environment.clock.monotonic();
  const keys = openSessionKeys({
    file: join(config.dataDir, sessionKeysFile),
    ageMs: config.sessionKeyAgeMs,
    lifeMs: config.sessionTokenMs,
    now: () => zero + environment.clock.monotonic(),
    log,
  });
  const gate = createWorkerAuthenticator({
    tokens: tokenRegistry,
    keys,
    audience: `${config.cluster}/${replica}`,
    sessionTokenMs: config.sessionTokenMs,
    environment,
    trustDomain: config.trustDomain,
    isCertificateRequired: (tenant) => config.tenants[tenant]?.isCertificateRequired ?? false,
  });
  const files = [...new Set(config.tokenSettings.flatMap(({ file }) => file ?? []))];
  const reader = createReader(files, log);
  let used = config.tokens;
  let missing: readonly Token[] = [];
  let lastProblems = "";

  return {
    authenticate: tokenRegistry.authenticate,
    gate,
    turnKeys: keys.turn,
    async look(isSure) {
      if (!(await reader.readAll())) return;
      const { tokens, problems } = readTokens(config.tokenSettings, { isDev: config.isDev, readFile: reader.text });
      const said = problems.join("\n");
      if (said !== lastProblems) for (const problem of problems) log.error({ problem }, "token.refused");
      lastProblems = said;
      const change = compareTokens(used, config.isDev ? [devToken, ...tokens] : tokens, { missing, isSure });
      missing = change.missing;
      if (change.added.length === 0 && change.removed.length === 0) return;
      used = change.tokens;
      tokenRegistry.replace(entriesOf(used));
      for (const { name, tenant } of change.added) log.warn({ audit: true, name, tenant }, "token.added");
      for (const { name, tenant } of change.removed) log.warn({ audit: true, name, tenant }, "token.revoked");
      gate.notifyTokensChanged();
    },
  };
}

const entriesOf = (tokens: readonly Token[]) =>
  tokens.map(({ secret, name, tenant, grants }) => ({ token: secret, user: name, tenant, grants }));

/** Texts of the token files as they were read last. One that is gone is empty; one that cannot be read just now stays as it was. */
function createReader(files: readonly string[], log: Log) {
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
