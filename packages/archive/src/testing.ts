// What the tests of other packages need: packages that are signed, and archives in which something is wrong.

export { buildRawZip, type RawEntry, type RawZip } from "./testing/hostile-zip.ts";
export { createSigningKey, nodePackageFiles, type SigningKey, signBytes, signFiles } from "./testing/signed-package.ts";
export { createWheel, type SampleWheel } from "./testing/sample-wheel.ts";
