// What every answer of the REST door must be, whatever was asked: one of the route's own answers, or one of its own refusals in one sentence.

import { type FaultCode, faultCodes, type Route, type RouteName, routes } from "@astraflow/protocol";
import Schema from "typebox/schema";
import type { TestResponse } from "./rest-fixture.ts";

/** Refusals of the door itself, before a route is reached. */
const doorFaults: readonly string[] = ["E.ROUTE.UNKNOWN", "E.ROUTE.METHOD"];

export const routeNames = Object.keys(routes) as RouteName[];
export const routeOf = (name: RouteName): Route => routes[name];

/** What is wrong with an answer; empty: nothing. */
export function findAnswerProblems(name: RouteName, response: TestResponse, isDoorFine = false): string[] {
  const { status, body } = response;
  const route = routeOf(name);
  if (status < 400) return schemaProblems(route, response);
  const code = String(body?.error);
  const found: string[] = [];
  if (status >= 500) found.push(`${status} is nobody's fault but ours`);
  const isListed = (route.faults as readonly string[]).includes(code) || (isDoorFine && doorFaults.includes(code));
  if (!isListed) found.push(`${code} is not among the faults of ${name}`);
  if (code in faultCodes && faultCodes[code as FaultCode].http !== status) found.push(`${code} is not ${status}`);
  if (typeof body?.requestId !== "string") found.push("no requestId");
  return [...found, ...messageProblems(body?.message)].map((why) => `${why} (${JSON.stringify(body).slice(0, 400)})`);
}

/** One sentence for people: short, whole, without innards. */
function messageProblems(message: unknown): string[] {
  if (typeof message !== "string" || message.length === 0) return ["no message"];
  const found: string[] = [];
  if (message.length > 400) found.push(`a message of ${message.length} characters`);
  if (/undefined|\[object|NaN|\n\s+at |node_modules|SQLITE|TypeError|RangeError/.test(message))
    found.push("innards in the message");
  if (/[\u0000-\u001f\u007f]/.test(message)) found.push("control characters in the message");
  if (/[.!]\s*$/.test(message)) found.push("ends with a full stop");
  return found;
}

function schemaProblems(route: Route, { status, body }: TestResponse): string[] {
  const response = status === route.status ? (route.response ?? null) : route.also?.[status];
  if (response === undefined) return [`answered ${status}, and its row says ${route.status}`];
  if (response === null) return [];
  const [isFine, problems] = Schema.Errors(response as never, body);
  return isFine ? [] : [`answered what its schema refuses: ${JSON.stringify(problems.slice(0, 2))}`];
}
