// streams.mjs PACKAGES PERDURE: MCP over HTTP when connections break, and with tokens that are not for everything. TAP.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { call, connect, finish, home, overHttp, run, serve, sleep, test, until } from './harness.mjs';

// ---- a client by hand ----

const post = (url, message, headers = {}) => new Promise((done, no) => {
  const request = http.request(url + '/mcp', { method: 'POST', agent: false, headers: { 'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream', 'Perdure-Agent': 'ada', ...headers } }, (response) => {
    let text = '';
    response.setEncoding('utf8').on('data', (data) => { text += data; }).on('end', () => done({ status: response.statusCode, headers: response.headers, text }));
  });
  request.on('error', no).end(JSON.stringify(message));
});

// An event stream that is read as it comes: events are {id, data}; data is parsed, null if there is none.
const open = (url, method, headers, message) => new Promise((done, no) => {
  const request = http.request(url + '/mcp', { method, agent: false, headers: { Accept: 'application/json, text/event-stream', 'Perdure-Agent': 'ada',
    ...(message ? { 'Content-Type': 'application/json' } : {}), ...headers } }, (response) => {
    const s = { status: response.statusCode, type: response.headers['content-type'], events: [], ended: false, close: () => request.destroy() };
    let text = '';
    response.setEncoding('utf8').on('data', (data) => {
      text += data;
      for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) {
        const fields = Object.fromEntries(text.slice(0, at).split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]));
        if ('data' in fields) s.events.push({ id: fields.id, data: fields.data ? JSON.parse(fields.data) : null });
      }
    }).on('end', () => { s.ended = true; }).on('error', () => { s.ended = true; });
    done(s);
  });
  request.on('error', no);
  request.end(message ? JSON.stringify(message) : undefined);
});

let ids = 0;
const tool = (name, args) => ({ jsonrpc: '2.0', id: ++ids, method: 'tools/call', params: { name, arguments: args } });

async function begin(url, revision = '2025-11-25') {
  const answer = await post(url, { jsonrpc: '2.0', id: 'i', method: 'initialize', params: { protocolVersion: revision, capabilities: {}, clientInfo: { name: 't', version: '1' } } });
  return { 'Mcp-Session-Id': answer.headers['mcp-session-id'], 'MCP-Protocol-Version': revision };
}

const subscribe = (url, session, uri) => post(url, { jsonrpc: '2.0', id: ++ids, method: 'resources/subscribe', params: { uri } }, session);
const set = async (url, session, value) => {
  const answer = JSON.parse((await post(url, tool('state_persistent_set', { key: 'plan', value }), session)).text);
  assert.equal(answer.result.isError, false);
};
const last = (s) => s.events.at(-1).id;
const notices = (s) => s.events.filter((e) => e.data?.method === 'notifications/resources/updated').length;

const path = home('streams');
run(path, 'persistent', 'set', 'plan', '0');
const server = await serve(path);
const { url } = server;

// ---- the stream of a session ----

await test('streams__a_session_stream_begins_with_an_id_to_come_back_with', async () => {
  const session = await begin(url);
  const s = await open(url, 'GET', session);
  await until('the first event', () => s.events.length === 1);
  assert.equal(s.events[0].data, null);
  assert.match(s.events[0].id, /^g[0-9a-f]{8}-[0-9a-f]+-0$/);
  s.close();
  const old = await begin(url, '2025-06-18'); // which takes no event without data
  const t = await open(url, 'GET', old);
  await subscribe(url, old, 'state://persistent/plan');
  await set(url, old, 1);
  await until('a notice', () => t.events.length === 1);
  assert.equal(notices(t), 1);
  t.close();
});

await test('streams__what_happened_while_the_client_was_away_comes_once_and_in_order', async () => {
  const session = await begin(url);
  let s = await open(url, 'GET', session);
  await subscribe(url, session, 'state://persistent/plan');
  let seen = 0;
  const ids = new Set();
  for (let round = 0; round < 4; round++) {
    await set(url, session, round); // heard live
    await until('the live notice', () => notices(s) >= 1);
    s.events.forEach((e) => (assert.ok(!ids.has(e.id), 'an event came twice'), ids.add(e.id)));
    seen += notices(s);
    const event = last(s);
    s.close();
    for (let i = 0; i < 5; i++) await set(url, session, i); // nobody is there
    s = await open(url, 'GET', { ...session, 'Last-Event-ID': event });
    await until('what was missed', () => notices(s) >= 5);
  }
  s.events.forEach((e) => (assert.ok(!ids.has(e.id), 'an event came twice'), ids.add(e.id)));
  seen += notices(s);
  await sleep(300); // nothing more is to come
  assert.equal(seen, 24);
  s.close();
});

await test('streams__an_older_id_brings_everything_after_it_again', async () => {
  const session = await begin(url);
  const s = await open(url, 'GET', session);
  await subscribe(url, session, 'state://persistent/plan');
  for (let i = 0; i < 6; i++) await set(url, session, i);
  await until('six notices', () => notices(s) === 6);
  const again = await open(url, 'GET', { ...session, 'Last-Event-ID': s.events[2].id });
  await until('the first one to end', () => s.ended); // one connection has a stream at a time
  await until('four notices', () => notices(again) === 4);
  assert.deepEqual(again.events.map((e) => e.id), s.events.slice(3).map((e) => e.id));
  await set(url, session, 9);
  await until('the live one', () => notices(again) === 5);
  assert.equal(notices(s), 6);
  again.close();
});

await test('streams__an_id_of_another_session_or_process_begins_a_stream_anew', async () => {
  const [mine, theirs] = [await begin(url), await begin(url)];
  const s = await open(url, 'GET', theirs);
  await subscribe(url, theirs, 'state://persistent/plan');
  await set(url, theirs, 1);
  await until('a notice', () => notices(s) === 1);
  for (const id of [s.events[0].id, 'g00000000-1-0', 'gffffffff-ffffffffffffffff-ffffffffffffffff']) {
    const t = await open(url, 'GET', { ...mine, 'Last-Event-ID': id });
    await until('its first event', () => t.events.length === 1);
    assert.equal(t.events[0].data, null);
    assert.notEqual(t.events[0].id, id);
    t.close();
  }
  assert.equal(s.ended, false);
  s.close();
});

await test('streams__what_is_no_id_of_ours_is_refused', async () => {
  const session = await begin(url);
  for (const id of ['x', '7', 'g', 'g-1-1', 'p00000000-1-0', 'z00000000-1-0', 'g00000000-1', 'g00000000-01-0', 'g00000000-1-0 ', 'g0000000-1-0', 'g'.repeat(500)]) {
    if (id.endsWith(' ')) continue; // blanks at the end are not the header's
    const s = await open(url, 'GET', { ...session, 'Last-Event-ID': id });
    assert.equal(s.status, 400, id);
    s.close();
  }
});

// ---- the stream of a call ----

await test('streams__a_call_whose_connection_broke_goes_on_and_its_answer_is_fetched', async () => {
  const session = await begin(url);
  const s = await open(url, 'POST', session, tool('queue_receive', { wait_ms: 60000 }));
  assert.match(s.type, /^text\/event-stream/); // after a second it says that it is there
  await until('the first event', () => s.events.length === 1);
  assert.match(s.events[0].id, /^p/);
  s.close();
  run(path, 'call', 'queue.send', '{"to":"ada","body":"hello"}', '--operator');
  const t = await open(url, 'GET', { ...session, 'Last-Event-ID': s.events[0].id });
  await until('the answer', () => t.ended);
  assert.equal(t.events.length, 1);
  assert.equal(t.events[0].data.id, ids);
  assert.equal(t.events[0].data.result.structuredContent.messages[0].body, 'hello');
  const u = await open(url, 'GET', { ...session, 'Last-Event-ID': t.events[0].id }); // all was heard
  await until('its end', () => u.ended);
  assert.equal(u.events.length, 0);
  const other = await begin(url);
  assert.equal((await open(url, 'GET', { ...other, 'Last-Event-ID': s.events[0].id })).status, 400);
});

await test('streams__the_end_of_a_session_is_the_end_of_its_calls', async () => {
  const session = await begin(url);
  const s = await open(url, 'POST', session, tool('queue_receive', { wait_ms: 60000 }));
  await until('the first event', () => s.events.length === 1);
  const gone = await new Promise((done) => http.request(url + '/mcp', { method: 'DELETE', headers: { ...session, 'Perdure-Agent': 'ada' } }, (r) => (r.resume(), done(r.statusCode))).end());
  assert.equal(gone, 204);
  await until('the end of the stream', () => s.ended);
  assert.equal(s.events.length, 1); // what was cancelled is not answered
  assert.equal((await open(url, 'GET', { ...session, 'Last-Event-ID': s.events[0].id })).status, 404);
  await sleep(1000);
  run(path, 'call', 'queue.send', '{"to":"ada","body":"later"}', '--operator');
  const left = JSON.parse((await post(url, tool('queue_receive', {}))).text);
  assert.equal(left.result.structuredContent.count, 1); // the wait did not take it
  await post(url, tool('queue_ack', { message_ids: left.result.structuredContent.messages.map((m) => m.message_id) }));
});

await test('streams__a_modern_client_that_goes_away_has_cancelled_its_call', async () => {
  const modern = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'queue_receive' };
  const message = tool('queue_receive', { wait_ms: 60000 });
  message.params._meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const s = await open(url, 'POST', modern, message);
  assert.equal(s.status, 200);
  s.close();
  await sleep(10000); // until the server notices that nobody is there: at its second word to them, 2 s apart
  run(path, 'call', 'queue.send', '{"to":"ada","body":"for the living"}', '--operator');
  const left = JSON.parse((await post(url, tool('queue_receive', {}))).text);
  assert.equal(left.result.structuredContent.count, 1);
  assert.equal(s.events.length, 0); // and no ids: there is nothing to come back to
});

// ---- the official clients, through a line that breaks ----

// Forwards to the server; `cut` breaks all connections that are open.
async function brittle(to) {
  const open = new Set();
  const line = { heard: '' };
  const relay = net.createServer((near) => {
    const far = net.connect(new URL(to).port, '127.0.0.1');
    for (const [a, b] of [[near, far], [far, near]]) a.on('data', (d) => b.write(d)).on('close', () => b.destroy()).on('error', () => {});
    far.on('data', (d) => { line.heard += d; });
    open.add(near);
    near.on('close', () => open.delete(near));
  });
  await new Promise((done) => relay.listen(0, '127.0.0.1', done));
  line.url = `http://127.0.0.1:${relay.address().port}`;
  line.cut = () => open.forEach((socket) => socket.destroy());
  line.close = () => relay.close();
  return line;
}

for (const kind of ['sdk 1, legacy', 'sdk 2, legacy']) {
  const label = kind.replace(/[^a-z0-9]+/g, '_');
  const line = await brittle(url);
  const s = await connect(kind, overHttp(line.url));
  s.client.onerror = () => {}; // it says that the line broke, and goes on
  await test(`streams__${label}__no_notice_is_lost_or_doubled_when_the_line_breaks`, async () => {
    await s.client.subscribeResource({ uri: 'state://persistent/plan' });
    const direct = await begin(url);
    for (let round = 0; round < 3; round++) {
      await set(url, direct, round);
      await until('the live notice', () => s.told.length === round * 4 + 1);
      line.cut();
      for (let i = 0; i < 3; i++) await set(url, direct, i);
      await until('what was missed', () => s.told.length === round * 4 + 4);
    }
    await sleep(300);
    assert.equal(s.told.length, 12);
  });
  await test(`streams__${label}__a_call_is_answered_though_its_line_broke`, async () => {
    line.heard = '';
    const waiting = call(s, 'queue_receive', { wait_ms: 60000 });
    await until('its stream', () => /^id: p/m.test(line.heard));
    for (let i = 0; i < 5; i++) await sleep(100); // and the client has heard so, too
    line.cut();
    run(path, 'call', 'queue.send', `{"to":"ada","body":"${kind}"}`, '--operator');
    const bodies = (await waiting).structuredContent.messages.map((m) => m.body);
    assert.ok(bodies.includes(kind), JSON.stringify(bodies));
  });
  await s.client.close();
  line.close();
}

await test('streams__the_server_stops_though_streams_are_parked', async () => assert.equal(await server.stop(), 0));

// ---- tokens ----

const guarded = await serve(path, []);
const withToken = (...args) => ({ Authorization: `Bearer ${run(path, 'token', 'create', ...args).split('\n')[0]}` });

await test('tokens__tools_resources_and_prompts_are_those_of_the_token', async () => {
  const headers = withToken('--agent', 'ada', '--capability', 'state.shared.*', '--capability', 'queue.count');
  const s = await connect('sdk 2, modern', overHttp(guarded.url, headers));
  const names = (await s.client.listTools()).tools.map((t) => t.name);
  assert.ok(names.includes('state_shared_get') && names.includes('queue_count'));
  assert.ok(names.every((name) => name.startsWith('state_shared_') || name === 'queue_count'), names.join());
  await call(s, 'state_shared_set', { key: 'board', value: 1, expected_version: 0 });
  assert.deepEqual((await s.client.listResources()).resources.map((r) => r.uri), ['state://shared/board']);
  assert.deepEqual((await s.client.listResourceTemplates()).resourceTemplates.map((t) => t.name), ['shared']);
  assert.deepEqual((await s.client.listPrompts()).prompts, []);
  await assert.rejects(s.client.readResource({ uri: 'state://persistent/plan' }));
  await assert.rejects(call(s, 'queue_send', { to: 'bob', body: 1 }));
  await s.client.close();
});

await test('tokens__an_auditor_sees_what_only_looks', async () => {
  const headers = { ...withToken('--role', 'auditor'), 'Perdure-Agent': 'ada' };
  const s = await connect('sdk 1, legacy', overHttp(guarded.url, headers));
  const { tools } = await s.client.listTools();
  assert.ok(tools.some((t) => t.name === 'state_persistent_get'));
  assert.deepEqual(tools.filter((t) => !t.annotations.readOnlyHint).map((t) => t.name), []);
  await assert.rejects(call(s, 'state_persistent_set', { key: 'plan', value: 'audited' }));
  await s.client.close();
});

await test('tokens__an_agent_reads_no_commit_of_another', async () => {
  const commits = run(path, '--agent', 'ada', 'log', '--json').match(/"commit":"[0-9a-f]{64}"/g).map((m) => m.slice(10, 74));
  const ada = await connect('sdk 2, modern', overHttp(guarded.url, withToken('--agent', 'ada')));
  const eve = await connect('sdk 2, modern', overHttp(guarded.url, { ...withToken('--agent', 'eve') }));
  await call(eve, 'state_persistent_set', { key: 'mine', value: 1 });
  const uri = `state://commits/${commits[0]}`;
  assert.equal(JSON.parse((await ada.client.readResource({ uri })).contents[0].text).commit, commits[0]);
  await assert.rejects(eve.client.readResource({ uri }));
  await ada.client.close();
  await eve.client.close();
});

await test('tokens__a_session_is_its_agents_alone', async () => {
  const [ada, eve] = [withToken('--agent', 'ada'), withToken('--agent', 'eve')];
  const answer = await post(guarded.url, { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } } }, ada);
  const session = { 'Mcp-Session-Id': answer.headers['mcp-session-id'] };
  assert.equal((await post(guarded.url, { jsonrpc: '2.0', id: 2, method: 'ping' }, { ...session, ...ada, 'Perdure-Agent': 'ada' })).status, 200);
  assert.equal((await post(guarded.url, { jsonrpc: '2.0', id: 2, method: 'ping' }, { ...session, ...eve, 'Perdure-Agent': 'eve' })).status, 404);
});

await test('tokens__the_server_stops', async () => assert.equal(await guarded.stop(), 0));
finish();
