// Loaded into a worker before anything else (`--import`): the worker does not announce `batch`, like deployed older workers, so every dispatch and every
// result has a frame of its own.

import { linkFeatures } from "@astraflow/runtime";

const announcedFeatures: string[] = linkFeatures as unknown as string[];
announcedFeatures.splice(announcedFeatures.indexOf("batch"), 1);
