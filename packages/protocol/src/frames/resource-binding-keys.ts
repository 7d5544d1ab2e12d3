// The names under which a task's parameters hold what was granted of resources, maybe secret. Taken out of whatever goes back from a
// worker, at both ends of the wire. How they get in is the business of the session door.

const bindingKeys: ReadonlySet<string> = new Set(["__resourceBindings", "__resourceBindingErrors"]);
const bindingKeyPrefix = '"__resourceBinding';

const secretTypes: ReadonlySet<string> = new Set(["secret", "token", "api_key", "apikey", "key", "credential"]);

/** Whether what a package asks for under this type is a secret. */
export const isSecretType = (type: string): boolean => secretTypes.has(type.toLowerCase());

/** As JSON text, without bindings at any depth: a handler that hands its parameters on or back must not have its secrets stored. */
export function stringifyWithoutBindings(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  const dropBindings = (name: string, value: unknown): unknown => (bindingKeys.has(name) ? undefined : value);
  return text?.includes(bindingKeyPrefix) === true ? JSON.stringify(value, dropBindings) : (text as string);
}

/** The same, as data; the very same object where nothing is in it. */
export function withoutBindings<T>(value: T): T {
  const text = JSON.stringify(value) as string | undefined;
  return text?.includes(bindingKeyPrefix) === true ? (JSON.parse(stringifyWithoutBindings(value)) as T) : value;
}
