/* model.c: see model.h. Plain loops over plain arrays; speed is not a concern, being obviously right is. */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>

static void *must(void *memory)
{
  if (!memory) abort();
  return memory;
}

static uint64_t mix(uint64_t x)
{
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

static uint64_t print_of(const model *m, const model_entry *entries)
{
  uint64_t print = 0;
  for (size_t k = 0; k < m->key_count; k++)
    if (entries[k].is_present) print += mix(mix(k + 1) + entries[k].value);
  return print;
}

void model_init(model *m, size_t key_count, const pd_commit *root)
{
  *m = (model){.key_count = key_count};
  m->commits = must(calloc(1, sizeof *m->commits));
  m->commit_room = m->commit_count = 1;
  m->commits[MODEL_ROOT] =
    (model_commit){.id = root->id, .tree = root->tree, .parent = MODEL_NONE, .entries = must(calloc(key_count, sizeof(model_entry)))};
  for (int r = 0; r < MODEL_REFS; r++) m->refs[r].redo_top = MODEL_NONE;
  m->refs[0].exists = true;
}

void model_done(model *m)
{
  for (size_t i = 0; i < m->commit_count; i++) free(m->commits[i].entries);
  free(m->commits);
  free(m->records);
  *m = (model){0};
}

const model_entry *model_entries(const model *m, uint32_t commit)
{
  return m->commits[commit].entries;
}

model_entry *model_copy(const model *m, uint32_t commit)
{
  model_entry *copy = must(calloc(m->key_count, sizeof *copy)); /* zeroed padding: entries are compared as bytes */
  memcpy(copy, m->commits[commit].entries, m->key_count * sizeof *copy);
  return copy;
}

void model_entry_put(model_entry *entry, uint32_t value, uint64_t seq, int64_t time_ms)
{
  if (!entry->is_present) {
    memset(entry, 0, sizeof *entry);
    entry->created_ms = time_ms;
  }
  entry->is_present = true;
  entry->value = value;
  entry->version++;
  entry->writes++;
  entry->seq = seq;
  entry->updated_ms = time_ms;
}

void model_entry_delete(model_entry *entry)
{
  memset(entry, 0, sizeof *entry);
}

static bool same_map(const model *m, const model_entry *a, const model_entry *b)
{
  for (size_t k = 0; k < m->key_count; k++)
    if (a[k].is_present != b[k].is_present || a[k].value != b[k].value) return false;
  return true;
}

static bool same_entries(const model *m, const model_entry *a, const model_entry *b)
{
  return memcmp(a, b, m->key_count * sizeof *a) == 0;
}

static int family_of(const model *m, int ref)
{
  return m->refs[ref].head == MODEL_ROOT ? ref : m->commits[m->refs[ref].head].family;
}

bool model_has_twin(const model *m, int ref, const model_entry *entries)
{
  uint64_t print = print_of(m, entries);
  for (size_t i = 0; i < m->commit_count; i++) {
    const model_commit *c = &m->commits[i];
    if (c->parent != m->refs[ref].head || c->print != print || !same_map(m, c->entries, entries)) continue;
    if (!same_entries(m, c->entries, entries) || c->family != family_of(m, ref)) return true;
  }
  return false;
}

model_fault model_version_fault(const model *m, int ref, size_t key, uint64_t version, uint64_t seq)
{
  if (version <= m->commits[m->refs[ref].head].entries[key].version) return "a version is not greater than the one before";
  for (size_t i = 0; i < m->commit_count; i++) {
    const model_entry *e = &m->commits[i].entries[key];
    if (m->commits[i].family != family_of(m, ref)) continue;
    if (e->is_present && e->version == version && e->seq != seq) return "two writes of a key have the same version";
  }
  return NULL;
}

uint32_t model_find(const model *m, const pd_id *id)
{
  for (size_t i = 0; i < m->commit_count; i++)
    if (memcmp(id, &m->commits[i].id, sizeof *id) == 0) return (uint32_t)i;
  return MODEL_NONE;
}

size_t model_find_short(const model *m, const char *digits, uint32_t *out)
{
  size_t found = 0, size = strlen(digits);
  for (size_t i = 0; i < m->commit_count; i++) {
    char hex[PD_ID_HEX_SIZE];
    for (size_t b = 0; b < (size + 1) / 2; b++) sprintf(hex + 2 * b, "%02x", m->commits[i].id.bytes[b]);
    if (memcmp(hex, digits, size) != 0) continue;
    *out = (uint32_t)i;
    found++;
  }
  return found;
}

static model_fault record_add(model *m, uint64_t seq, const model_record *about)
{
  uint64_t last = m->record_count ? m->records[m->record_count - 1].seq : m->base_seq;
  if (seq <= last) return "the record's number does not rise";
  if (m->record_count == m->record_room) {
    m->record_room = m->record_room ? 2 * m->record_room : 256;
    m->records = must(realloc(m->records, m->record_room * sizeof *m->records));
  }
  m->records[m->record_count] = *about;
  m->records[m->record_count++].seq = seq;
  return NULL;
}

/* M2 over all commits so far. */
static model_fault tree_fault(const model *m, uint64_t print, const pd_id *tree)
{
  for (size_t i = 0; i < m->commit_count; i++) {
    bool is_same_tree = memcmp(&m->commits[i].tree, tree, sizeof *tree) == 0;
    if (is_same_tree != (m->commits[i].print == print)) return is_same_tree ? "two maps have one tree id" : "one map has two tree ids";
  }
  return NULL;
}

static uint32_t commit_new(model *m, int ref, uint32_t parent, model_entry *entries, uint64_t print, const pd_ack *ack)
{
  if (m->commit_count == m->commit_room) {
    m->commit_room *= 2;
    m->commits = must(realloc(m->commits, m->commit_room * sizeof *m->commits));
  }
  m->commits[m->commit_count] =
    (model_commit){.id = ack->commit, .tree = ack->tree, .parent = parent, .family = family_of(m, ref), .print = print, .entries = entries};
  return (uint32_t)m->commit_count++;
}

model_fault model_commit_add(model *m, int ref, model_entry *entries, const pd_ack *ack, const model_record *about)
{
  model_ref *r = &m->refs[ref];
  uint64_t print = print_of(m, entries);
  model_fault fault = tree_fault(m, print, &ack->tree);
  uint32_t commit = model_find(m, &ack->commit);
  if (commit == MODEL_NONE) {
    commit = commit_new(m, ref, r->head, entries, print, ack);
  } else {
    const model_commit *known = &m->commits[commit];
    if (known->parent != r->head || !same_map(m, known->entries, entries)) fault = "one commit id for two commits"; /* M3 */
    m->has_twins = true;
    free(entries);
  }
  model_record record = *about;
  record.kind = PD_RECORD_COMMIT;
  record.ref = ref;
  record.commit = commit;
  r->head = commit;
  r->redo_top = MODEL_NONE;
  r->updated_ms = about->time_ms;
  model_fault late = record_add(m, ack->seq, &record);
  return fault ? fault : late;
}

model_fault model_ref_move(model *m, int ref, uint32_t commit, const pd_ack *ack, const model_record *about)
{
  model_ref *r = &m->refs[ref];
  model_record record = *about;
  record.ref = ref;
  record.commit = commit;
  if (about->kind == PD_RECORD_UNDO) {
    if (r->redo_top == MODEL_NONE) r->redo_top = r->head;
  } else if (about->kind != PD_RECORD_REDO || commit == r->redo_top) {
    r->redo_top = MODEL_NONE;
  }
  if (about->kind == PD_RECORD_FORK) r->born_seq = ack->seq;
  r->exists = true;
  r->head = commit;
  r->updated_ms = about->time_ms;
  if (memcmp(&ack->commit, &m->commits[commit].id, sizeof ack->commit) != 0) return "the ref was moved to another commit";
  return record_add(m, ack->seq, &record);
}

void model_ref_delete(model *m, int ref)
{
  m->refs[ref] = (model_ref){.redo_top = MODEL_NONE};
}

const model_record *model_record_of(const model *m, uint64_t seq)
{
  size_t low = 0, high = m->record_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (m->records[middle].seq < seq)
      low = middle + 1;
    else
      high = middle;
  }
  return low < m->record_count && m->records[low].seq == seq ? &m->records[low] : NULL;
}

uint32_t model_back(const model *m, uint32_t commit, uint64_t count)
{
  while (count-- && commit != MODEL_NONE) commit = m->commits[commit].parent;
  return commit;
}

size_t model_depth(const model *m, uint32_t commit)
{
  size_t depth = 0;
  while (commit != MODEL_ROOT) {
    commit = m->commits[commit].parent;
    depth++;
  }
  return depth;
}

uint32_t model_forward(const model *m, uint32_t head, uint32_t top, uint64_t count)
{
  size_t ahead = 0;
  for (uint32_t c = top; c != head; c = m->commits[c].parent) ahead++;
  return count > ahead ? MODEL_NONE : model_back(m, top, ahead - count);
}

uint32_t model_ref_at(const model *m, int ref, int64_t time_ms)
{
  uint32_t head = MODEL_NONE;
  for (size_t i = 0; i < m->record_count && m->records[i].time_ms <= time_ms; i++)
    if (m->records[i].ref == ref && m->records[i].seq >= m->refs[ref].born_seq) head = m->records[i].commit;
  return head;
}

uint32_t model_writer(const model *m, uint32_t commit, size_t key)
{
  uint64_t seq = m->commits[commit].entries[key].seq;
  for (;;) {
    uint32_t parent = m->commits[commit].parent;
    if (parent == MODEL_NONE || m->commits[parent].entries[key].seq != seq) return commit;
    commit = parent;
  }
}
