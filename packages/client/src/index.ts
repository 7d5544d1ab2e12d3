// The client's entrance.

export { type Client, type ClientOptions, createClient } from "./client.ts";
export type { ClientEventsOptions } from "./events.ts";
export { ApiFault, NoAnswer } from "./fault.ts";
export type { ClientEnvironment, RetryLimits } from "./http.ts";
export { allItems, type CallOptions, type RouteMethods } from "./methods.ts";
