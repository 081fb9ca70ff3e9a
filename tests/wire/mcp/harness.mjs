// harness.mjs: what the tests with Node share: TAP, a server, and the official clients of both generations.
// SCRIPT PACKAGES PERDURE are the arguments of every script.
import { execFileSync, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, perdure] = process.argv.slice(2).map((p) => resolve(p));
export const load = async (name) => import(pathToFileURL(createRequire(join(packages, 'x.js')).resolve(name)).href);
const unwrap = (m) => m.default ?? m;
const folder = mkdtempSync(join(tmpdir(), 'perdure-mcp-'));
let count = 0, failures = 0;

export async function test(name, run) {
  count++;
  let timer;
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error('took longer than 2 minutes')), 120000); });
  try {
    await Promise.race([run(), late]);
    console.log(`ok ${count} - ${name}`);
  } catch (error) {
    failures++;
    console.log(`not ok ${count} - ${name}`);
    for (const line of String(error.stack ?? error).split('\n').slice(0, 8)) console.log('# ' + line);
  } finally {
    clearTimeout(timer);
  }
}

// A minute at most: the machine may do other things.
export const until = async (what, is) => {
  for (let i = 0; i < 6000; i++) {
    if (is()) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error('waited for: ' + what);
};

// ---- the clients ----

const v1 = {
  client: await load('@modelcontextprotocol/sdk/client/index.js'),
  stdio: await load('@modelcontextprotocol/sdk/client/stdio.js'),
  http: await load('@modelcontextprotocol/sdk/client/streamableHttp.js'),
  types: await load('@modelcontextprotocol/sdk/types.js'),
};
const v2 = { client: await load('@modelcontextprotocol/client'), stdio: await load('@modelcontextprotocol/client/stdio') };
const pick = (module, name) => module[name] ?? unwrap(module)[name];

// A connected client: what it was asked and told is in `asked` and `told`.
export async function connect(kind, transport) {
  const info = { name: 'perdure-test', version: '1' };
  const options = { capabilities: { elicitation: {} } };
  const old = kind === 'sdk 1, legacy';
  if (!old) options.versionNegotiation = { mode: kind === 'sdk 2, modern' ? { pin: '2026-07-28' } : 'legacy' };
  const client = new (pick(old ? v1.client : v2.client, 'Client'))(info, options);
  const session = { client, kind, asked: [], told: [], answer: { action: 'cancel' }, isModern: kind === 'sdk 2, modern' };
  const onAsk = async (request) => (session.asked.push(request.params), session.answer);
  const onUpdate = (notice) => session.told.push(notice.params.uri);
  client.setRequestHandler(old ? pick(v1.types, 'ElicitRequestSchema') : 'elicitation/create', onAsk);
  client.setNotificationHandler(old ? pick(v1.types, 'ResourceUpdatedNotificationSchema') : 'notifications/resources/updated', onUpdate);
  await client.connect(transport(old ? v1 : v2));
  return session;
}

export const home = (name) => {
  const path = join(folder, name.replace(/[^a-z0-9]/g, '-'));
  mkdirSync(path, { mode: 0o700 });
  writeFileSync(join(path, 'policy.toml'), '[[rule]]\ncapability = "queue.send"\npermission = "approval"\nreason = "mail is checked"\n');
  return path;
};

export const overStdio = (path, more = []) => (v) => {
  const Transport = pick(v.stdio, 'StdioClientTransport');
  const env = { ...process.env }; // else it is a few names only
  return new Transport({ command: perdure, args: ['mcp', '--store', path, '--agent', 'ada', '--approvals', ...more], env, stderr: 'inherit' });
};

// stdio to the command line, which asks the server
export const overBridge = (url) => (v) => {
  const Transport = pick(v.stdio, 'StdioClientTransport');
  return new Transport({ command: perdure, args: ['mcp', '--server', url, '--agent', 'ada'], env: { ...process.env }, stderr: 'inherit' });
};

export const overHttp = (url, headers = { 'Perdure-Agent': 'ada' }) => (v) => {
  const Transport = pick(v.http ?? v.client, 'StreamableHTTPClientTransport');
  return new Transport(new URL(url + '/mcp'), { requestInit: { headers } });
};

export async function serve(path, args = ['--no-auth']) {
  const child = spawn(perdure, ['serve', '--home', path, '--listen', '127.0.0.1:0', '--mcp-approvals', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stdout.on('data', (data) => { said += data; });
  child.stderr.on('data', () => {});
  await until('the server', () => /http:\/\/127\.0\.0\.1:\d+/.test(said));
  const stop = () => (child.kill('SIGTERM'), new Promise((done) => child.on('exit', done)));
  return { child, stop, url: said.match(/http:\/\/127\.0\.0\.1:\d+/)[0] };
}

// A command on a home; what it prints.
export const run = (path, ...args) => execFileSync(perdure, ['--store', path, ...args], { encoding: 'utf8' }).trim();

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export function finish() {
  rmSync(folder, { recursive: true, force: true });
  console.log(`1..${count}`);
  process.exit(failures ? 1 : 0);
}

export const call = (s, name, args, options) =>
  s.kind === 'sdk 1, legacy' ? s.client.callTool({ name, arguments: args }, undefined, options) : s.client.callTool({ name, arguments: args }, options);
export const parse = (result) => JSON.parse(result.content[0].text);
export const kinds = ['sdk 1, legacy', 'sdk 2, legacy', 'sdk 2, modern'];
