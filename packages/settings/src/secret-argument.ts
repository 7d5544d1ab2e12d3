// Secrets on a command line: everyone on the machine can read it, so only the place of a secret may stand there.

/** The secret that `@FILE`, `-` for stdin, or the published token itself stand for; null: the argument would show a secret. */
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
