// long.mjs PACKAGES PERDURE: calls that take long, with the official clients: progress of backup, verification and restore; cancelling;
// and what is asked meanwhile. TAP.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { call, connect, finish, home, kinds, overBridge, overHttp, overStdio, run, serve, sleep, test } from './harness.mjs';

// A vault that this home's server unlocks by itself, and something to back up.
function prepare(path) {
  const file = join(path, 'passphrase');
  writeFileSync(file, 'a long walk in the rain\n', { mode: 0o600 });
  run(path, 'vault', 'init', '--passphrase-file', file);
  for (const agent of ['ada', 'bob', 'eve']) run(path, '--agent', agent, 'persistent', 'set', 'plan', '"kept"');
  return file;
}

// A call that a person approves; how far it was is in `steps`.
async function watched(s, name, args, isTold) {
  const steps = [];
  s.answer = { action: 'accept', content: { decision: 'approve' } };
  const result = await call(s, name, args, { onprogress: (step) => step.total && steps.push(step) });
  assert.equal(result.isError ?? false, false, JSON.stringify(result.content));
  if (isTold) assert.ok(steps.length >= 2, `${name}: ${steps.length} steps`);
  for (let i = 0; i < steps.length; i++) {
    assert.ok(steps[i].total >= steps[i].progress, JSON.stringify(steps));
    if (i) assert.ok(steps[i].progress >= steps[i - 1].progress, JSON.stringify(steps));
  }
  return result.structuredContent;
}

// Enough that the first step is heard before the answer is there.
async function fill(s) {
  for (let i = 0; i < 12; i++) await call(s, 'state_persistent_set', { key: `bulk/${i}`, value: randomBytes(400000).toString('hex') });
}

async function progress(s, isTold = true) {
  await fill(s);
  const { backup_id } = await watched(s, 'state_backup_create', {}, isTold);
  assert.equal((await watched(s, 'state_backup_verify', { backup_id }, isTold)).valid, true);
  await call(s, 'state_persistent_set', { key: 'plan', value: 'changed' });
  assert.equal((await watched(s, 'state_backup_restore', { backup_id }, isTold)).restored, true);
  assert.equal((await call(s, 'state_persistent_get', { key: 'plan' })).structuredContent.value, 'kept');
  assert.ok(s.asked.every((params) => !/passphrase/i.test(JSON.stringify(params))), 'a passphrase is never asked for');
}

// Decisions on approvals are messages, too.
async function empty(s) {
  const { messages } = (await call(s, 'queue_receive', { max: 100 })).structuredContent;
  if (messages.length) await call(s, 'queue_ack', { message_ids: messages.map((m) => m.message_id) });
}

async function meanwhile(s) {
  await empty(s);
  const stop = new AbortController();
  const waiting = call(s, 'queue_receive', { wait_ms: 60000 }, { signal: stop.signal });
  waiting.catch(() => {});
  const begun = Date.now();
  if (!s.isModern) await s.client.ping(); // the modern era has none
  await call(s, 'state_persistent_set', { key: 'other', value: 1 });
  assert.deepEqual((await s.client.listPrompts()).prompts.map((p) => p.name), ['briefing']);
  assert.ok(Date.now() - begun < 45000, 'others waited');
  stop.abort();
  await assert.rejects(waiting);
}

// What was cancelled takes nothing that comes later.
async function cancel(s, path, over) {
  await empty(s);
  const stop = new AbortController();
  const waiting = call(s, 'queue_receive', { wait_ms: 60000 }, { signal: stop.signal });
  waiting.catch(() => {});
  await sleep(1300); // it waits, and over HTTP its stream has begun
  stop.abort();
  await assert.rejects(waiting);
  // a connection that is gone is noticed when it is written to, twice, two seconds apart; a notice is taken in the order of the lines, or comes by itself
  await sleep(s.isModern && over !== 'stdio' ? 10000 : over === 'stdio' ? 500 : 2000);
  await call(s, 'state_persistent_set', { key: 'other', value: 2 });
  run(path, 'call', 'queue.send', '{"to":"ada","body":"for the living"}', '--operator');
  const { messages } = (await call(s, 'queue_receive', {})).structuredContent;
  assert.deepEqual(messages.map((m) => [m.body, m.deliveries]), [['for the living', 1]]);
}

for (const kind of kinds) {
  for (const over of ['stdio', 'http', 'bridge']) {
    const path = home(`${kind} ${over} long`);
    const file = prepare(path);
    const server = over !== 'stdio' ? await serve(path, ['--no-auth', '--passphrase-file', file]) : null;
    const way = {
      stdio: () => overStdio(path, ['--passphrase-file', file]),
      http: () => overHttp(server.url),
      bridge: () => overBridge(server.url),
    };
    const s = await connect(kind, way[over]());
    const label = `long__${kind.replace(/[^a-z0-9]+/g, '_')}_over_${over}`;
    await test(`${label}__backup_verify_and_restore_tell_how_far_they_are`, () => progress(s));
    await test(`${label}__who_waits_does_not_hold_up_others`, () => meanwhile(s));
    await test(`${label}__a_wait_that_is_cancelled_takes_nothing`, () => cancel(s, path, over));
    await s.client.close();
    if (server) await test(`${label}__the_server_stops`, async () => assert.equal(await server.stop(), 0));
  }
}

// A vault that the home's server holds unlocked: it does the work, and tells no progress on /v1/call (decision 088).
const path = home('held');
const file = prepare(path);
const runtime = join(path, 'runtime');
mkdirSync(runtime, { mode: 0o700 });
process.env.XDG_RUNTIME_DIR = runtime;
run(path, 'vault', 'unlock', '--passphrase-file', file);
const s = await connect('sdk 1, legacy', overStdio(path));
await test('long__a_vault_held_by_the_homes_server_makes_verifies_and_restores_a_backup', () => progress(s, false));
await s.client.close();
run(path, 'vault', 'lock');
finish();
