// The client's entrance.

export type { CallOptions, RouteMethods } from "./calls.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export type { ClientEventsOptions } from "./events.ts";
export type { ClientEnvironment, RetryLimits } from "./exchange.ts";
export { ApiFault, NoAnswer } from "./fault.ts";
export { allItems } from "./pages.ts";
