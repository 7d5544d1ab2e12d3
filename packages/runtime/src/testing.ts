// For the tests of packages and of programs that run a worker.

export { HostedPackages, type SeenOutcome } from "../test/host-harness.ts";
export { createSigningKey, PackageRepository, packageFiles } from "./testing/package-repository.ts";
export { writeWheel } from "./testing/python-index.ts";
