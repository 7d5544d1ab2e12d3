// Values of the query of a request.

import { fault } from "@astraflow/protocol";

type Query = Readonly<Record<string, string>>;

export function readBoolean(query: Query, name: string): boolean | null {
  const text = query[name];
  if (text === undefined) return null;
  if (text === "true" || text === "false") return text === "true";
  throw fault("E.REQUEST.INVALID", `query.${name} must be true or false`, { path: `query.${name}` });
}

export function readNumber(query: Query, name: string, unit: number): number | null {
  const text = query[name];
  if (text === undefined) return null;
  if (/^[0-9]{1,9}(\.[0-9]{1,6})?$/.test(text)) return Number(text) * unit;
  throw fault("E.REQUEST.INVALID", `query.${name} must be a number, 0 or more`, { path: `query.${name}` });
}
