// Before the system tests: builds the programs that they start, so that they always run the sources of now.

import { buildPrograms } from "../../../scripts/build.ts";

export default async function build(): Promise<void> {
  await buildPrograms();
}
