// The value that a simulated node returns: a short text that depends on all its parameters and on nothing else, so that the workflow alone determines what
// every node must return.

/** Parameters that say how a handler behaves, where something lies, or who called: no input of the value. */
const isInputParameter = (name: string): boolean => name !== "sim" && name !== "kept" && !name.startsWith("__");

export function expectedNodeValue(name: string, params: Readonly<Record<string, unknown>>): string {
  const inputs = Object.keys(params)
    .filter(isInputParameter)
    .sort()
    .map((key) => [key, params[key]]);
  return `${name}:${hashText(JSON.stringify(inputs))}`;
}

/** FNV-1a in 32 bits: enough to tell values apart, and short. */
function hashText(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}
