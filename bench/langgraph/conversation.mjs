// conversation.mjs FOLDER OFF|FULL TURNS: play FOLDER/talk.jsonl into LangGraph's SQLite checkpointer, one checkpoint a turn, and print
// {"seconds":[…],"bytes":N}. A line of the talk is {"messages":[…],"fields":{…}}. Only saver.put is timed; messages are plain objects, the
// cheapest that it can be given, and pending writes are not saved, though a graph would do that, too.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { uuid6 } from '@langchain/langgraph-checkpoint';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';

const [folder, synchronous, turns] = process.argv.slice(2);
const talk = readFileSync(join(folder, 'talk.jsonl'), 'utf8').split('\n').slice(0, Number(turns)).map((line) => JSON.parse(line));
const files = join(folder, 'saver.db');
const saver = SqliteSaver.fromConnString(files);
saver.setup();
saver.db.pragma(`synchronous=${synchronous}`);

let config = { configurable: { thread_id: 'talk', checkpoint_ns: '' } };
const messages = [], fields = {}, versions = {}, seconds = [];
for (const [step, turn] of talk.entries()) {
  messages.push(...turn.messages);
  Object.assign(fields, turn.fields);
  const changed = { messages: step + 1 };
  for (const name of Object.keys(turn.fields)) changed[name] = step + 1;
  Object.assign(versions, changed);
  const checkpoint = {
    v: 4, id: uuid6(step), ts: new Date().toISOString(), channel_values: { messages, ...fields }, channel_versions: { ...versions }, versions_seen: {},
  };
  const start = process.hrtime.bigint();
  config = await saver.put(config, checkpoint, { source: 'loop', step, parents: {} }, changed);
  seconds.push(Number(process.hrtime.bigint() - start) / 1e9);
}

const kept = (await saver.getTuple({ configurable: { thread_id: 'talk' } })).checkpoint.channel_values;
if (JSON.stringify(kept) !== JSON.stringify({ messages, ...fields })) throw new Error('the last checkpoint is not what was put');
saver.db.close();
const bytes = readdirSync(folder).filter((name) => name.startsWith('saver.db')).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
process.stdout.write(JSON.stringify({ seconds, bytes }) + '\n');
