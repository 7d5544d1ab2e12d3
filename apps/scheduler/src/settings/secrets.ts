// The secrets of tokens and the passwords of first users, out of files and the environment. Token files may change while the scheduler runs.

import { errorMessage, type Permission, passwordLimits } from "@astraflow/protocol";
import { allGrants } from "@astraflow/services";
import type { SettingSources } from "@astraflow/settings";
import type { AdminPasswordSetting, TokenSetting } from "./setting-readers.ts";

export interface AccessToken {
  readonly name: string;
  readonly tenant: string;
  readonly grants: readonly Permission[];
  readonly secret: string;
}

/** No secret at all: it is printed in the documentation, so it opens nothing outside of --dev. */
export const devToken: AccessToken = { name: "dev", tenant: "default", grants: allGrants, secret: "dev-token" };

/** Shorter than this a secret can be guessed over the network in the life of an installation. */
const secretCharsMin = 16;

/** More secrets under one name than any rotation needs; each costs every stranger's guess a comparison. */
const secretsPerFileMax = 16;

export interface TokenReadResult {
  readonly tokens: readonly AccessToken[];
  /** One sentence each. No secret is ever in one. */
  readonly problems: readonly string[];
}

/** The good ones and what is wrong with the others. `readFile` throws where it cannot. */
export function readTokens(
  given: readonly TokenSetting[],
  { isDev, readFile }: { readonly isDev: boolean; readFile(path: string): string },
): TokenReadResult {
  const problems: string[] = [];
  const tokens: AccessToken[] = [];
  for (const one of given) {
    for (const secret of readSecrets(one, readFile, problems)) {
      const token = { name: one.name, tenant: one.tenant, grants: one.grants, secret };
      const problem = findTokenProblem(token, tokens, isDev);
      if (problem === null) tokens.push(token);
      else problems.push(problem);
    }
  }
  return { tokens, problems };
}

function findTokenProblem({ name, secret }: AccessToken, before: readonly AccessToken[], isDev: boolean): string | null {
  if (before.some((other) => other.secret === secret))
    return `The token "${name}" has the same secret as another one; give each its own.`;
  if (isDev) return null;
  if (secret === devToken.secret)
    return `The token "${name}" is the well-known dev-token, which works only with --dev; make a secret, for example: openssl rand -hex 32.`;
  if (secret.length < secretCharsMin)
    return `The token "${name}" has fewer than ${secretCharsMin} characters and could be guessed; make one with: openssl rand -hex 32.`;
  return null;
}

function readSecrets(given: TokenSetting, readFile: (path: string) => string, problems: string[]): readonly string[] {
  if (given.file === null) return given.secret === null ? [] : [given.secret];
  let text: string;
  try {
    text = readFile(given.file);
  } catch (cause) {
    problems.push(
      `The file of token "${given.name}" cannot be read (${errorMessage(cause)}); correct the path after --token ${given.name}=@.`,
    );
    return [];
  }
  const lines = text.split("\n").flatMap((line) => line.trim() || []);
  const good = lines.filter((line) => !/\s/.test(line)).slice(0, secretsPerFileMax);
  if (good.length === 0 || good.length < lines.length)
    problems.push(
      `The file ${given.file} of token "${given.name}" must hold one secret without spaces and nothing else, or one a line while it is being replaced.`,
    );
  return good;
}

/** What a look at the files makes of the tokens in use. */
export interface TokenChange {
  readonly tokens: readonly AccessToken[];
  readonly added: readonly AccessToken[];
  readonly removed: readonly AccessToken[];
  /** Missing for the first time: revoked if they are missing at the next look too. */
  readonly missing: readonly AccessToken[];
}

/**
 * New secrets are good at once. One that is gone is revoked when two looks agree, or when somebody says that the files are as they
 * should be: a file that is just being written is empty for a moment, and that must not log a fleet out.
 */
export function compareTokens(
  used: readonly AccessToken[],
  seen: readonly AccessToken[],
  { missing, isSure: isExplicit }: { readonly missing: readonly AccessToken[]; readonly isSure: boolean },
): TokenChange {
  const gone = used.filter((token) => !includesToken(seen, token));
  const removed = isExplicit ? gone : gone.filter((token) => includesToken(missing, token));
  const suspected = gone.filter((token) => !includesToken(removed, token));
  const added = seen.filter((token) => !includesToken(used, token));
  return { tokens: [...seen, ...suspected.filter((token) => !sharesSecret(seen, token))], added, removed, missing: suspected };
}

const includesToken = (tokens: readonly AccessToken[], { name, tenant, secret }: AccessToken): boolean =>
  tokens.some((one) => one.secret === secret && one.name === name && one.tenant === tenant);

const sharesSecret = (tokens: readonly AccessToken[], { secret }: AccessToken): boolean =>
  tokens.some((one) => one.secret === secret);

/** Used once, for a tenant that has no users; there is no default. */
export interface AdminPassword {
  readonly tenant: string;
  readonly password: string;
}

const adminPasswordVariable = "ASTRA_ADMIN_PASSWORD";

/** The good ones and what is wrong with the others. No password is ever in a sentence. */
export function readAdminPasswords(
  given: readonly AdminPasswordSetting[],
  { env, readFile }: Pick<SettingSources, "env" | "readFile">,
): { readonly admins: readonly AdminPassword[]; readonly problems: readonly string[] } {
  const admins: AdminPassword[] = [];
  const problems: string[] = [];
  const add = (tenant: string, password: string, from: string): void => {
    const { charsMin, charsMax } = passwordLimits;
    if (password.length < charsMin || password.length > charsMax)
      problems.push(
        `${from} must hold a password of ${charsMin} to ${charsMax} characters; make one with: openssl rand -base64 18.`,
      );
    else if (admins.some((one) => one.tenant === tenant))
      problems.push(`The first user of tenant "${tenant}" is given two passwords; keep one.`);
    else admins.push({ tenant, password });
  };
  const fromEnvironment = env[adminPasswordVariable] ?? "";
  if (fromEnvironment !== "") add("default", fromEnvironment, adminPasswordVariable);
  for (const { tenant, file } of given) {
    const text = readPasswordFile(file, readFile, problems);
    // A line end at the end is the editor's, not the password's.
    if (text !== null) add(tenant, text.replace(/\r?\n$/, ""), `The file ${file} of --admin-password-file`);
  }
  return { admins, problems };
}

function readPasswordFile(file: string, readFile: SettingSources["readFile"], problems: string[]): string | null {
  try {
    return readFile(file);
  } catch (cause) {
    problems.push(`The file ${file} of --admin-password-file cannot be read (${errorMessage(cause)}); correct the path.`);
    return null;
  }
}
