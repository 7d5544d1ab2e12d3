// What the apps do with settings beside reading them: secrets on a command line, addresses that only this machine reaches, freezing.

/**
 * The secret that `@FILE`, `-` for stdin, or the published token itself stand for; null: the argument would show a secret,
 * for everyone on the machine can read a command line.
 */
export function readSecretArgument(
  argument: string,
  sources: { readonly publicToken: string; readFile(path: string): string; readInput(): string },
): string | null {
  if (argument === sources.publicToken) return argument;
  if (argument === "-") return firstSecretLine(sources.readInput());
  return argument.startsWith("@") ? firstSecretLine(sources.readFile(argument.slice(1))) : null;
}

/** A token file of the scheduler holds one secret a line while one is being replaced; the first is the newest. Empty where there is none. */
export function firstSecretLine(text: string): string {
  const line = text.split("\n").find((one) => one.trim() !== "") ?? "";
  return line.trim();
}

/** By its spelling alone: a name that has to be resolved may be anything tomorrow. */
export const isLoopbackHost = (host: string): boolean => /^(localhost|::1|\[::1\]|127(\.\d{1,3}){3})$/.test(host);

/** A configuration that nobody changes. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
