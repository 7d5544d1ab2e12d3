// The configuration of schemathesis as a text: which requests it makes, with which ids, and which answers it takes for a refusal.

import type { SampleIds } from "./sample-data.ts";

export interface ComparisonOptions {
  readonly seed: number;
  /** Generated requests for each operation and phase. */
  readonly examples: number;
  readonly phases: readonly string[];
  /** Only paths that match. */
  readonly only?: string;
}

const allPhases = ["examples", "coverage", "fuzzing", "stateful"];
/** How often a path gets an id that exists; else one that is made up. */
const sampleShare = 0.7;
const requestSeconds = 20;

/** A request that its schema forbids may also be refused for something else that is wrong with it. */
const refusals = ["400", "401", "403", "404", "405", "406", "409", "412", "413", "415", "429", "5xx"];
/** A request that its schema allows may still be refused for what is stored, for its size, or because somebody was quicker. */
const acceptableRefusals = ["2xx", "3xx", "401", "403", "404", "409", "410", "412", "413", "416", "429", "5xx"];

export function writeToolConfiguration(
  options: ComparisonOptions & {
    readonly url: string;
    readonly token: string;
    readonly samples: SampleIds;
    readonly hooks: string;
  },
): string {
  const text = (value: unknown) => JSON.stringify(value);
  const dictionaries = Object.entries(options.samples);
  return [
    `seed = ${options.seed}`,
    `base-url = ${text(options.url)}`,
    `request-timeout = ${requestSeconds}`,
    "continue-on-failure = true",
    `hooks = ${text(options.hooks)}`,
    // A file of workflows is large, and slow to generate, even if it is as small as its schema allows.
    'suppress-health-check = ["data_too_large", "too_slow"]',
    "[headers]",
    `Authorization = ${text(`Bearer ${options.token}`)}`,
    "[generation]",
    `max-examples = ${options.examples}`,
    'database = "none"',
    ...dictionaries.flatMap(([name, values]) => [`[dictionaries.${name}]`, `values = ${text(values)}`]),
    "[parameters]",
    ...dictionaries.map(([name]) => `"path.${name}" = { dictionary = ${text(name)}, probability = ${sampleShare} }`),
    // These two are called by our own checks, in refusals.py.
    "[checks.negative_data_rejection]",
    "enabled = false",
    `expected-statuses = ${text(refusals)}`,
    "[checks.positive_data_acceptance]",
    "enabled = false",
    `expected-statuses = ${text(acceptableRefusals)}`,
    ...allPhases.flatMap((phase) => [`[phases.${phase}]`, `enabled = ${options.phases.includes(phase)}`]),
    // Their bodies are workflows, of which every limit is tried where one is saved; trying them here again would take longer than all the rest.
    "[[operations]]",
    'include-operation-id = ["importWorkflow", "replaceWorkflow"]',
    "phases.coverage.enabled = false",
    "",
  ].join("\n");
}
