// The names under which a task's parameters hold what was granted of resources, maybe secret. Taken out of whatever goes back from a
// worker, at both ends of the wire. How they get in is the business of the session door.

const names: ReadonlySet<string> = new Set(["__resourceBindings", "__resourceBindingErrors"]);
const mark = '"__resourceBinding';

const secretTypes: ReadonlySet<string> = new Set(["secret", "token", "api_key", "apikey", "key", "credential"]);

/** Whether what a package asks for under this type is a secret. */
export const isSecretType = (type: string): boolean => secretTypes.has(type.toLowerCase());

/** As JSON text, without bindings at any depth: a handler that hands its parameters on or back must not have its secrets stored. */
export function unboundText(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  const unbound = (name: string, part: unknown): unknown => (names.has(name) ? undefined : part);
  return text?.includes(mark) === true ? JSON.stringify(value, unbound) : (text as string);
}

/** The same, as data; the very same object where nothing is in it. */
export function unbound<T>(value: T): T {
  const text = JSON.stringify(value) as string | undefined;
  return text?.includes(mark) === true ? (JSON.parse(unboundText(value)) as T) : value;
}
