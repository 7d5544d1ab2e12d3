import { describe, expect, it } from "vitest";
import { packageOriginProblem } from "./package-origin.ts";

/** Every spelling of a place that a stranger must not make a worker connect to. */
const refused = [
  "file:///etc/passwd",
  "https://user:secret@packages.example/a.zip",
  "FILE:/etc/passwd",
  "http://packages.example/a.zip",
  "ftp://packages.example/a.zip",
  "https://127.0.0.1/a",
  "https://127.0.0.1./a",
  "https://2130706433/a",
  "https://0x7f000001/a",
  "https://0x7f.1/a",
  "https://0177.0.0.1/a",
  "https://017700000001/a",
  "https://127.1/a",
  "https://0/a",
  "https://①②⑦.0.0.1/a",
  "https://%31%32%37.0.0.1/a",
  "https://packages.example@127.0.0.1/a",
  "https://packages.example:443@[::1]/a",
  "https://packages.example%2f@169.254.169.254/latest",
  "https://[::1]/a",
  "https://[0:0:0:0:0:0:0:1]/a",
  "https://[::ffff:127.0.0.1]/a",
  "https://[::ffff:7f00:1]/a",
  "https://[64:ff9b::a9fe:a9fe]/a",
  "https://[fd00::1]/a",
  "https://[fe80::1]/a",
  "https://10.1.2.3/a",
  "https://172.16.0.1/a",
  "https://192.168.1.1:8443/a",
  "https://100.64.0.1/a",
  "https://169.254.169.254/latest/meta-data",
  "https://2852039166/latest",
  "https://localhost/a",
  "https://LOCALHOST./a",
  "https://db.localhost:5432/a",
  "https://metadata.google.internal/a",
  "https://packages/a",
  "https://packages.example\\@127.0.0.1/a",
  "https://packages.example\t/a",
  "https://",
  "//packages.example/a",
  "packages.example/a",
];

describe("where packages may come from", () => {
  it.each(refused)("[C651] no package is installed from %s", (address) => {
    expect(packageOriginProblem(address, [])).toEqual(expect.any(String));
  });

  it("[C651] packages are installed from public https addresses", () => {
    for (const address of [
      "https://packages.example/a.zip",
      "https://packages.example:8443/a.zip?sig=1#x",
      "https://8.8.8.8/a",
      "https://[2606:4700::1111]/a",
    ])
      expect([address, packageOriginProblem(address, [])]).toEqual([address, null]);
  });

  it("[C651] an allowed origin opens that scheme, host and port and nothing else", () => {
    const allowed = ["http://10.1.2.3:8000", "https://localhost"];
    for (const address of ["http://10.1.2.3:8000/a", "https://localhost:443/a"])
      expect([address, packageOriginProblem(address, allowed)]).toEqual([address, null]);
    for (const address of [
      "http://10.1.2.3/a",
      "http://bob@10.1.2.3:8000/a",
      "https://10.1.2.3:8000/a",
      "http://10.1.2.4:8000/a",
      "http://localhost/a",
      "file:///a",
    ])
      expect([address, packageOriginProblem(address, allowed)]).toEqual([address, expect.any(String)]);
    expect(packageOriginProblem("file:///srv/packages/a.zip", ["file:"])).toBeNull();
  });
});
