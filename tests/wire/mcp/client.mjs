// client.mjs PACKAGES PERDURE: the official clients, both generations, over stdio, HTTP, and stdio to a server, doing what users of them do. TAP.
import assert from 'node:assert/strict';
import { call, connect, finish, home, kinds, overBridge, overHttp, overStdio, parse, serve, test, until } from './harness.mjs';

// ---- what each of them does ----

async function tools(s) {
  const { tools: list } = await s.client.listTools();
  assert.ok(list.length > 40, `${list.length} tools`);
  for (const tool of list) {
    assert.match(tool.name, /^[a-z_]+$/);
    assert.equal(tool.title.replaceAll('.', '_'), tool.name);
    for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
      assert.equal(typeof tool.annotations[hint], 'boolean', `${tool.name} ${hint}`);
    assert.equal(tool.inputSchema.type, 'object');
    assert.equal(tool.outputSchema.type, 'object');
  }
  assert.ok(!list.some((tool) => tool.name === 'approvals_approve'), 'the operator\'s are not offered');
}

async function state(s) {
  const set = await call(s, 'state_persistent_set', { key: 'plan', value: { step: 1 } });
  assert.deepEqual(set.structuredContent, { version: 1, previous_version: 0 });
  assert.deepEqual(parse(set), set.structuredContent);
  const got = await call(s, 'state.persistent.get', { key: 'plan' });
  assert.deepEqual(got.structuredContent.value, { step: 1 });
  await call(s, 'state_session_set', { key: 'note', value: 'kept' });
  assert.equal((await call(s, 'state_session_get', { key: 'note' })).structuredContent.value, 'kept');
  const { session_id } = (await call(s, 'session_begin', {})).structuredContent;
  assert.equal((await call(s, 'state_session_get', { key: 'note', session_id })).structuredContent.found, false);
}

async function errors(s) {
  const lost = await call(s, 'state_shared_set', { key: 'k', value: 1, expected_version: 7 });
  assert.equal(lost.isError, true);
  assert.equal(parse(lost).error.code, 'VersionConflict');
  assert.equal(parse(lost).error.recovery[0].action, 'retry');
  const wrong = await call(s, 'state_persistent_get', {});
  assert.equal(parse(wrong).error.code, 'InvalidInput');
  await assert.rejects(call(s, 'no_such_tool', {}));
  const locked = await call(s, 'vault_status', {});
  assert.equal(locked.structuredContent.unlocked, false);
}

async function resources(s) {
  await call(s, 'state_persistent_set', { key: 'a/b c', value: [1, 2] });
  const { resources: list } = await s.client.listResources();
  const uri = list.find((r) => r.name === 'a/b c').uri;
  assert.equal(uri, 'state://persistent/a/b%20c');
  assert.equal((await s.client.readResource({ uri })).contents[0].text, '[1,2]');
  await assert.rejects(s.client.readResource({ uri: 'state://persistent/none' }));
  const { resourceTemplates } = await s.client.listResourceTemplates();
  assert.deepEqual(resourceTemplates.map((t) => t.uriTemplate).sort(),
    ['state://commits/{id}', 'state://persistent/{key}', 'state://shared/{key}', 'state://threads/{id}']);
  const done = await s.client.complete({ ref: { type: 'ref/resource', uri: 'state://persistent/{key}' }, argument: { name: 'key', value: 'a/' } });
  assert.deepEqual(done.completion.values, ['a/b c']);
}

async function prompt(s) {
  assert.deepEqual((await s.client.listPrompts()).prompts.map((p) => p.name), ['briefing']);
  const { messages } = await s.client.getPrompt({ name: 'briefing', arguments: { detail_level: 'summary' } });
  assert.match(messages[0].content.text, /You are the agent 'ada'/);
}

// One notice a commit, for what was subscribed to and nothing else; none after unsubscribing.
async function watch(s) {
  const uri = 'state://shared/board';
  await call(s, 'state_shared_set', { key: 'board', value: 0, expected_version: 0 });
  const listening = s.isModern ? await s.client.listen({ resourceSubscriptions: [uri] }) : await s.client.subscribeResource({ uri });
  for (let version = 1; version <= 5; version++) {
    await call(s, 'state_shared_set', { key: 'board', value: version, expected_version: version });
    await call(s, 'state_persistent_set', { key: 'other', value: version });
  }
  await until('five notices', () => s.told.length >= 5);
  if (s.isModern) await listening.close();
  else await s.client.unsubscribeResource({ uri });
  await call(s, 'state_shared_set', { key: 'board', value: 'more', expected_version: 6 });
  await new Promise((done) => setTimeout(done, 400)); // nothing is to come: there is no event to wait for
  assert.deepEqual(s.told, Array(5).fill(uri));
}

async function approval(s) {
  const letter = (n) => ({ to: 'bob', kind: 'hello', body: { n } });
  s.answer = { action: 'accept', content: { decision: 'approve', reason: 'fine' } };
  const sent = await call(s, 'queue_send', letter(1));
  assert.equal(sent.isError ?? false, false, sent.content[0].text);
  assert.ok(sent.structuredContent.message_id);
  assert.match(s.asked[0].message, /'ada' wants to call queue\.send/);
  assert.deepEqual(s.asked[0].requestedSchema.properties.decision.enum, ['approve', 'deny']);
  s.answer = { action: 'accept', content: { decision: 'deny' } };
  assert.equal(parse(await call(s, 'queue_send', letter(2))).error.code, 'ApprovalDenied');
  s.answer = { action: 'decline' };
  assert.equal(parse(await call(s, 'queue_send', letter(3))).error.code, 'ApprovalDenied');
  s.answer = { action: 'cancel' };
  const waits = await call(s, 'queue_send', letter(4));
  assert.equal(parse(waits).error.code, 'ApprovalRequired');
  assert.match(waits.content[1].text, /perdure approvals approve apr-/);
  assert.equal(s.asked.length, 4);
}

const doings = { tools, state, errors, resources, prompt, watch, approval };

for (const kind of kinds) {
  for (const over of ['stdio', 'http', 'bridge']) {
    const path = home(`${kind} ${over}`);
    const server = over === 'stdio' ? null : await serve(path);
    let s = null;
    const way = { stdio: () => overStdio(path), http: () => overHttp(server.url), bridge: () => overBridge(server.url) };
    const label = `mcp__${kind.replace(/[^a-z0-9]+/g, '_')}_over_${over}`;
    await test(`${label}__connects`, async () => { s = await connect(kind, way[over]()); });
    for (const [name, doing] of Object.entries(doings)) await test(`${label}__${name}`, () => doing(s));
    await test(`${label}__ends`, () => s.client.close());
    if (server) await test(`${label}__the_server_stops`, async () => {
      server.child.kill('SIGTERM');
      const code = await new Promise((done) => server.child.on('exit', done));
      assert.equal(code, 0);
    });
  }
}

finish();
