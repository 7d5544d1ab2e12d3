// Passwords of the first users, out of files and the environment. Used once, for a tenant that has no users; there is no default.

import { errorMessage, passwordLimits } from "@astraflow/protocol";
import type { SettingSources } from "@astraflow/settings";
import type { AdminPasswordSetting } from "./setting-readers.ts";

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
