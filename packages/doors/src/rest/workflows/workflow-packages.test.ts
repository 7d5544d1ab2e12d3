import type { WorkflowPackageSummary } from "@astraflow/protocol";
import { sampleChain } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const at = { workflowId: sampleChain.id };
const key = (word: string) => ({ "idempotency-key": word });

describe("workflows published as packages", () => {
  let bench: WorkflowFixture;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    await bench.save({
      metadata: { name: "Über Nacht: 1", description: "what it does", tags: ["night"] },
      previewImage: "data:p",
    });
  });
  const publish = (body: object, headers = {}, as = "ann") =>
    bench.callRoute("publishWorkflow", { as, params: at, body, headers });
  const show = (packageId: string, as = "ann") => bench.callRoute("getWorkflowPackage", { as, params: { packageId } });
  const drop = (packageId: string, as = "ann") => bench.callRoute("deleteWorkflowPackage", { as, params: { packageId } });
  const clone = (packageId: string, body: object | undefined, as = "bob", headers = {}) =>
    bench.callRoute("cloneWorkflowPackage", { as, params: { packageId }, body, headers });

  it("[A48] a published workflow becomes a package of its own, described by the workflow unless the request gives other values", async () => {
    const { status, body } = await publish({ version: "1.0.0", changelog: "first" });

    expect(status).toBe(201);
    expect((await show(body.packageId)).body).toMatchObject({
      id: body.packageId,
      slug: "uber-nacht-1",
      displayName: "Über Nacht: 1",
      visibility: "private",
      summary: "what it does",
      tags: ["night"],
      ownerId: "ann",
      previewImage: "data:p",
      versions: [{ id: body.versionId, version: "1.0.0", changelog: "first", publisherId: "ann" }],
      asOf: 2,
    });
  });

  it("[A380] latestVersion of a workflow package is its newest version as an object, with the package's picture, in the list and in the detail", async () => {
    await publish({ version: "1.0.0", changelog: "first" });
    const { body } = await publish({ version: "1.1.0", changelog: "second" });

    const { items } = (await bench.callRoute("listWorkflowPackages", { as: "ann" })).body;
    const { latestVersion } = (await show(body.packageId)).body;
    expect(latestVersion).toEqual({
      id: body.versionId,
      version: "1.1.0",
      publishedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      changelog: "second",
      publisherId: "ann",
      previewImage: "data:p",
    });
    expect(items).toMatchObject([{ id: body.packageId, latestVersion }]);
  });

  it("[A48] publishing a workflow again adds a version to its package, newest first; a version that exists is refused with 409", async () => {
    const first = await publish({ version: "1.0.0" });
    const second = await publish({ version: "1.1.0", displayName: "Nights", visibility: "public", slug: "nights" });

    expect(second.body.packageId).toBe(first.body.packageId);
    expect(await publish({ version: "1.0.0" })).toMatchObject({ status: 409, body: { error: "E.VERSION.EXISTS" } });
    expect(await publish({ version: "1.0.0", packageId: first.body.packageId })).toMatchObject({ status: 409 });
    expect((await show(first.body.packageId)).body).toMatchObject({
      displayName: "Nights",
      slug: "nights",
      latestVersion: { version: "1.1.0" },
    });
    const versions = await bench.callRoute("listWorkflowPackageVersions", {
      as: "bob",
      params: { packageId: first.body.packageId },
    });
    expect(versions.body.items.map(({ version }: { version: string }) => version)).toEqual(["1.1.0", "1.0.0"]);
    expect(versions.body.asOf).toBe(3);
  });

  it("[A48] a workflow is published into another package only by that package's owner or an admin", async () => {
    const { body } = await publish({ version: "1.0.0", visibility: "public" });
    const id = "99999999-9999-4999-8999-000000000001";
    await bench.save({ id }, "bob");
    const into = (packageId: string, as = "bob") =>
      bench.callRoute("publishWorkflow", { as, params: { workflowId: id }, body: { version: "2.0.0", packageId } });

    expect(await into(body.packageId)).toMatchObject({ status: 403, body: { error: "E.AUTH.FORBIDDEN" } });
    expect(await into("99999999-9999-4999-8999-00000000dead")).toMatchObject({ status: 404 });
    expect(await into("no id")).toMatchObject({ status: 404 });
    expect(await publish({ version: "2.0.0" }, {}, "bob")).toMatchObject({ status: 404 });
    expect(await into(body.packageId, "eve")).toMatchObject({ status: 201 });
    expect((await show(body.packageId)).body.ownerId).toBe("ann");
  });

  it("[A35] a workflow is published as a package once under an Idempotency-Key", async () => {
    const first = await publish({ version: "1.0.0" }, key("p"));
    const again = await publish({ version: "1.0.0" }, key("p"));

    expect([again.status, again.body, again.headers["idempotent-replayed"]]).toEqual([201, first.body, "true"]);
    expect(await publish({ version: "1.0.1" }, key("p"))).toMatchObject({
      status: 409,
      body: { error: "E.IDEMPOTENCY.MISMATCH" },
    });
  });

  it("[A49] workflow packages are listed if public, internal or the caller's own, and filtered by owner, visibility and search text", async () => {
    const saved = async (n: number, as: string, visibility: string, displayName: string) => {
      const id = `99999999-9999-4999-8999-00000000000${n}`;
      await bench.save({ id }, as);
      bench.environment.advance(10);
      await bench.callRoute("publishWorkflow", {
        as,
        params: { workflowId: id },
        body: { version: "1", visibility, displayName },
      });
    };
    await saved(1, "ann", "private", "a secret");
    await saved(2, "ann", "internal", "b house");
    await saved(3, "bob", "public", "c open");
    await saved(4, "bob", "private", "d secret");
    const names = async (as: string, query: Record<string, string> = {}) =>
      (await bench.callRoute("listWorkflowPackages", { as, query })).body.items.map(
        (one: WorkflowPackageSummary) => one.displayName,
      );

    expect(await names("ann")).toEqual(["c open", "b house", "a secret"]);
    expect(await names("vic")).toEqual(["c open", "b house"]);
    expect(await names("eve")).toEqual(["d secret", "c open", "b house", "a secret"]);
    expect(await names("mallory")).toEqual([]);
    expect(await names("ann", { owner: "me" })).toEqual(["b house", "a secret"]);
    expect(await names("ann", { owner: "bob" })).toEqual(["c open"]);
    expect(await names("bob", { visibility: "private" })).toEqual(["d secret"]);
    expect(await names("eve", { search: "secr", owner: "ann" })).toEqual(["a secret"]);
    const first = await bench.callRoute("listWorkflowPackages", { as: "vic", query: { limit: "1" } });
    const second = await bench.callRoute("listWorkflowPackages", {
      as: "vic",
      query: { limit: "1", cursor: first.body.nextCursor },
    });
    expect([first, second].map(({ body }) => body.items[0].displayName)).toEqual(["c open", "b house"]);
  });

  it("[A50] every route answers another user's private workflow package as one that does not exist", async () => {
    const { body } = await publish({ version: "1.0.0" });
    const { packageId } = body;
    const params = { packageId };

    for (const as of ["bob", "mallory"]) {
      const responses = [
        await show(packageId, as),
        await drop(packageId, as),
        await clone(packageId, {}, as),
        await bench.callRoute("listWorkflowPackageVersions", { as, params }),
      ];
      for (const one of responses)
        expect([one.status, one.body.error, one.body.message]).toEqual([
          404,
          "E.NOT_FOUND",
          `there is no workflow package ${packageId}`,
        ]);
    }
  });

  it("[A50] a workflow package cannot be deleted by a user who does not own it, and reappears when something is published into it", async () => {
    const { body } = await publish({ version: "1.0.0", visibility: "public" });
    const { packageId } = body;

    expect(await drop(packageId, "bob")).toMatchObject({ status: 403, body: { error: "E.AUTH.FORBIDDEN" } });
    expect(await drop(packageId)).toMatchObject({ status: 204, body: null });
    expect(await show(packageId)).toMatchObject({ status: 404 });
    expect(await drop(packageId)).toMatchObject({ status: 404 });
    expect((await bench.callRoute("listWorkflowPackages")).body.items).toEqual([]);
    expect(await publish({ version: "1.0.0" })).toMatchObject({ status: 409, body: { error: "E.VERSION.EXISTS" } });
    expect(await publish({ version: "1.0.1" })).toMatchObject({ status: 201 });
    expect((await show(packageId)).body.versions).toHaveLength(2);
  });

  it("[A51] a workflow package is cloned as a workflow of the caller, from the newest version unless one is named", async () => {
    const first = await publish({ version: "1.0.0", visibility: "internal" });
    await bench.save({ metadata: { name: "later" } });
    await publish({ version: "2.0.0" });
    const { packageId, versionId } = first.body;
    const cloned = async (body: object | undefined) => {
      const response = await clone(packageId, body);
      expect(response.status).toBe(201);
      return (await bench.callRoute("getWorkflow", { as: "bob", params: { workflowId: response.body.workflowId } })).body;
    };

    expect((await cloned(undefined)).metadata).toMatchObject({ name: "later", ownerId: "bob", originId: sampleChain.id });
    expect((await cloned({ version: "1.0.0" })).metadata.name).toBe("Über Nacht: 1");
    expect((await cloned({ versionId })).metadata.name).toBe("Über Nacht: 1");
    expect((await cloned({ versionId, workflowName: "mine" })).metadata.name).toBe("mine");
    expect(await clone(packageId, { version: "9" })).toMatchObject({ status: 404 });
    expect(await clone(packageId, { version: "2.0.0", versionId })).toMatchObject({ status: 404 });
    expect((await bench.callRoute("listWorkflows", { as: "bob" })).body.items).toHaveLength(4);
  });

  it("[A35] a workflow package is cloned once under an Idempotency-Key", async () => {
    const { body } = await publish({ version: "1.0.0", visibility: "internal" });
    const one = await clone(body.packageId, {}, "bob", key("c"));
    const two = await clone(body.packageId, {}, "bob", key("c"));

    expect(two.body).toEqual(one.body);
    expect((await clone(body.packageId, {}, "bob")).body.workflowId).not.toBe(one.body.workflowId);
  });

  it.each([
    [{}, "body"],
    [{ version: "" }, "body.version"],
    [{ version: "1/2" }, "body.version"],
    [{ version: 1 }, "body.version"],
    [{ version: "1", slug: "Not A Slug" }, "body.slug"],
    [{ version: "1", visibility: "secret" }, "body.visibility"],
    [{ version: "1", tags: "one" }, "body.tags"],
  ])("[A56] publishing a workflow as a package is refused if the request is invalid: %j", async (body, path) => {
    expect(await publish(body)).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", details: { path } } });
  });
});
