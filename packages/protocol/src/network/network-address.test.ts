import { describe, expect, it } from "vitest";
import { classifyHost, classifyIpAddress } from "./network-address.ts";

describe("the kind of an address", () => {
  it.each([
    ["loopback", ["127.0.0.1", "127.255.255.255", "0.0.0.0", "0.1.2.3", "::1", "::", "0:0:0:0:0:0:0:1", "[::1]"]],
    ["private", ["10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255"]],
    ["private", ["198.18.0.1", "198.19.255.255", "fc00::1", "fdff::1", "fec0::1", "64:ff9b:1::1"]],
    ["link-local", ["169.254.169.254", "fe80::1", "febf::1", "fe80::1%eth0"]],
    ["loopback", ["::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::127.0.0.1", "2002:7f00:1::"]],
    ["private", ["::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::a00:1", "2002:c0a8:101::1"]],
    ["link-local", ["::ffff:a9fe:a9fe", "64:ff9b::169.254.169.254"]],
    [
      "reserved",
      ["192.0.2.1", "198.51.100.7", "203.0.113.1", "192.0.0.8", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"],
    ],
    ["reserved", ["ff02::1", "2001:db8::1", "2001::1", "3fff::1", "100::1", "4000::1", "5f00::1"]],
    [
      "public",
      ["8.8.8.8", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.0.1", "126.255.255.255", "128.0.0.0"],
    ],
    ["public", ["2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::", "223.255.255.255"]],
  ] as const)(
    "[C650] an address counts as %s by the network it is in, also where IPv6 stands for IPv4: %j",
    (kind, addresses) => {
      expect(addresses.map((one) => [one, classifyIpAddress(one)])).toEqual(addresses.map((one) => [one, kind]));
    },
  );

  it("[C650] a text that readers of addresses take for different ones counts as none", () => {
    for (const text of [
      "",
      "1.2.3",
      "127.1",
      "010.0.0.1",
      "0x7f.0.0.1",
      "256.1.1.1",
      "1.2.3.4.5",
      ":::",
      "1::2::3",
      "g::1",
      "1:2",
      "::1.2.3",
    ])
      expect([text, classifyIpAddress(text)]).toEqual([text, null]);
    expect(classifyIpAddress("1:2:3:4:5:6:7::8")).toBeNull();
  });

  it("[C650] a name of the own machine or the local network is not public, however it is written", () => {
    for (const name of ["localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain", ""])
      expect([name, classifyHost(name)]).toEqual([name, "loopback"]);
    for (const name of [
      "packages",
      "packages.",
      "printer.local",
      "metadata.google.internal",
      "a.lan",
      "router.home.arpa",
      "x.corp.",
    ])
      expect([name, classifyHost(name)]).toEqual([name, "private"]);
    for (const name of ["packages.example", "localhost.example", "local.example", "notlocal.example."])
      expect([name, classifyHost(name)]).toEqual([name, "public"]);
  });
});
