import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { parseCertificateSubject, parseUriNames, readPeerCertificate } from "./certificates.ts";

it("[D86] a plain socket has no peer certificate", () => {
  expect(readPeerCertificate(new PassThrough())).toBeNull();
});

it("[D86] the URI names of a certificate are parsed, and one with a comma inside is not split into two", () => {
  expect(parseUriNames("DNS:a.example, URI:spiffe://a/tenant/x, IP Address:0:0:0:0:0:0:0:1, othername:<unsupported>")).toEqual([
    "spiffe://a/tenant/x",
  ]);
  expect(parseUriNames(`URI:"spiffe://a/x, URI:spiffe://a/tenant/x", DNS:"b, URI:spiffe://a/tenant/y"`)).toEqual([
    "spiffe://a/x, URI:spiffe://a/tenant/x",
  ]);
  expect(parseUriNames("URI:spiffe://a/1, URI:spiffe://a/2")).toHaveLength(2);
  expect(parseUriNames("")).toEqual([]);
});

it("[D86] a certificate's list of names that cannot be parsed completely yields no names", () => {
  for (const broken of [`URI:"spiffe://a`, `URI:spiffe://a/x, "`, `URI:spiffe://a/x, URI:"\\q"`, "URI"])
    expect(parseUriNames(broken)).toEqual([]);
});

it("[D86] a worker certificate needs exactly one URI name, in the trust domain, for one worker or for its whole tenant", () => {
  const read = (...uris: string[]) => parseCertificateSubject({ uris }, "prod.example");

  expect(read("spiffe://prod.example/tenant/acme/worker/w-1")).toEqual({ tenant: "acme", instance: "w-1" });
  expect(read("spiffe://prod.example/tenant/acme")).toEqual({ tenant: "acme", instance: null });
  expect(read()).toContain("exactly one URI name");
  expect(read("spiffe://prod.example/tenant/acme", "spiffe://prod.example/tenant/other")).toContain("exactly one URI name");
  for (const foreign of [
    "spiffe://test.example/tenant/acme",
    "spiffe://prod.example.evil/tenant/acme",
    "spiffe://PROD.example/tenant/acme",
    "https://prod.example/tenant/acme",
  ])
    expect(read(foreign)).toContain("another trust domain");
  for (const odd of [
    "",
    "tenant",
    "tenant/",
    "tenant/a/",
    "tenant/a/worker",
    "tenant/a/worker/",
    "tenant/a%2Fb",
    "x/tenant/a",
    "tenant/a?b",
  ])
    expect(read(`spiffe://prod.example/${odd}`)).toContain("is not /tenant/");
});
