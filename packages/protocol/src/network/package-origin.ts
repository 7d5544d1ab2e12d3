// Where a package may be installed from: public https addresses, and the origins that the configuration allows. Without that, whoever may install
// packages could make workers read files of their machines and call services that only their network reaches.

import { classifyHost } from "./network-address.ts";

/** Stands for `file:` in a list of allowed origins: such addresses have no origin of their own. */
export const fileOrigin = "file:";

/**
 * Why nothing may be installed from there, as the end of a sentence; null where it may. The host is judged as it is written: a worker has to judge
 * the address that a name resolves to once more, and that of every redirect.
 */
export function packageOriginProblem(address: string, allowedOrigins: readonly string[]): string | null {
  // Readers of URLs disagree about these: what is judged here must be what the worker connects to.
  if (/[\\\s\p{Cc}]/u.test(address) || !URL.canParse(address))
    return "is not a URL that every reader understands in the same way";
  const { protocol, hostname, origin, username, password } = new URL(address);
  // It would be kept in the command, shown to whoever reads it, and it makes a host look like another.
  if (username !== "" || password !== "") return "holds a user name or password";
  const allowed = protocol === "file:" ? fileOrigin : origin;
  if (allowedOrigins.includes(allowed)) return null;
  if (protocol !== "https:") return `begins with ${protocol}, but packages are installed over https`;
  const kind = classifyHost(hostname);
  return kind === "public" ? null : `leads to ${hostname}, which is ${kind === "reserved" ? "no public" : `a ${kind}`} address`;
}
