// Loaded into a worker before anything else (`--import`): one that does not announce `batch`, as the workers of the field do not, so
// that every dispatch and every result travels in a frame of its own.

import { linkFeatures } from "@astraflow/runtime";

const announcedFeatures: string[] = linkFeatures as unknown as string[];
announcedFeatures.splice(announcedFeatures.indexOf("batch"), 1);
