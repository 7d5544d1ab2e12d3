// For the tests of programs that run a worker.

export { createSigningKey, PackageRepository, packageFiles } from "./testing/package-repository.ts";
