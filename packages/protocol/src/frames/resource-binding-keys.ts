// The parameters with granted resources, which may be secrets: they are removed from everything that a worker sends back.

const bindingKeys: ReadonlySet<string> = new Set(["__resourceBindings", "__resourceBindingErrors"]);
const bindingKeyPrefix = '"__resourceBinding';

const secretTypes: ReadonlySet<string> = new Set(["secret", "token", "api_key", "apikey", "key", "credential"]);

export const isSecretType = (type: string): boolean => secretTypes.has(type.toLowerCase());

/** As JSON text, without bindings at any depth: a handler may return its parameters, and its secrets must not be stored. */
export function stringifyWithoutBindings(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  const dropBindings = (name: string, value: unknown): unknown => (bindingKeys.has(name) ? undefined : value);
  return text?.includes(bindingKeyPrefix) === true ? JSON.stringify(value, dropBindings) : (text as string);
}

export function withoutBindings<T>(value: T): T {
  const text = JSON.stringify(value) as string | undefined;
  return text?.includes(bindingKeyPrefix) === true ? (JSON.parse(stringifyWithoutBindings(value)) as T) : value;
}
