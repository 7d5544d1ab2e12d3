// The client's entrance.

export type { CallOptions, Calls } from "./calls.ts";
export { type Client, type ClientOptions, createClient } from "./client.ts";
export type { EventsOptions } from "./events.ts";
export type { Outside, RetryLimits } from "./exchange.ts";
export { ApiFault, NoAnswer } from "./fault.ts";
export { allItems } from "./pages.ts";
