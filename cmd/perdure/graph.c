/*
 * graph.c: see graph.h.
 *
 * G1  Commits are drawn newest first by the record that first made them, so a child always comes before its parents. (A commit that was
 *     made again after an undo has the same id and a second record: it is drawn once, at its first.)
 * G2  A lane is a column that waits for one commit. A commit stands in the leftmost lane that waits for it; the others join that
 *     lane just above it. Lanes keep their column, so lines never cross without a reason.
 */
#include "graph.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine.h"
#include "record.h"

#include <stdio.h>
#include <stdlib.h>

#define LANES_MAX 64 /* more do not fit a screen: what comes beyond shares the last one */

typedef struct dot {
  pd_id id;
  uint64_t seq;
  pd_id *parents;
  size_t parent_count;
  char *line; /* what stands beside it */
  bool is_wanted;
} dot;

typedef struct graph {
  cli_session *cli;
  engine_log log;
  pd_buf dots;  /* of dot, newest first */
  pd_buf by_id; /* of dot *, sorted */
  pd_code code; /* of the visitor */
  pd_id lanes[LANES_MAX];
  bool is_lane[LANES_MAX];
  size_t lane_count;
} graph;

static dot *dots_of(const graph *g)
{
  return (dot *)(void *)g->dots.data;
}

static size_t dot_count(const graph *g)
{
  return g->dots.size / sizeof(dot);
}

static void graph_done(graph *g)
{
  for (size_t i = 0; i < dot_count(g); i++) {
    free(dots_of(g)[i].parents);
    free(dots_of(g)[i].line);
  }
  pd_buf_done(&g->dots);
  pd_buf_done(&g->by_id);
  engine_log_done(&g->log);
}

/* The text beside a commit, with the colours of the real output. */
static char *line_of(const graph *g, const pd_record *record)
{
  out_stream text = {.is_memory = true, .has_colours = g->cli->out.has_colours};
  record_print_line(&text, record, &g->log.names);
  char *line = text.failed_errno ? NULL : strndup(text.buf.size ? (const char *)text.buf.data : "", text.buf.size);
  pd_buf_done(&text.buf);
  return line;
}

static bool collect(void *ctx, const pd_record *record)
{
  graph *g = ctx;
  if (record->kind != PD_RECORD_COMMIT) return true;
  dot d = {.id = record->commit.id, .seq = record->seq, .parent_count = record->parent_count};
  d.line = line_of(g, record);
  d.parents = malloc((d.parent_count + 1) * sizeof *d.parents);
  g->code = d.line && d.parents ? pd_buf_append(&g->dots, &d, sizeof d, NULL) : PD_NO_MEMORY;
  if (g->code != PD_OK) {
    free(d.line);
    free(d.parents);
    return false;
  }
  memcpy(d.parents, record->parents, d.parent_count * sizeof *d.parents);
  return true;
}

/* By id, then the oldest first: that one is drawn (G1). */
static int compare_dots(const void *a, const void *b)
{
  const dot *da = *(dot *const *)a, *db = *(dot *const *)b;
  int order = memcmp(&da->id, &db->id, sizeof da->id);
  return order ? order : (da->seq > db->seq) - (da->seq < db->seq);
}

static pd_code index_dots(graph *g, pd_error *err)
{
  for (size_t i = 0; i < dot_count(g); i++) {
    dot *d = &dots_of(g)[i];
    TRY(pd_buf_append(&g->by_id, &d, sizeof d, err));
  }
  if (g->by_id.size) qsort(g->by_id.data, dot_count(g), sizeof(dot *), compare_dots);
  return PD_OK;
}

/* The oldest dot with this id; NULL for the root commit and what lies outside of the query. */
static dot *find_dot(const graph *g, const pd_id *id)
{
  dot **sorted = (dot **)(void *)g->by_id.data;
  size_t low = 0, high = dot_count(g);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memcmp(&sorted[middle]->id, id, sizeof *id) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < dot_count(g) && pd_id_equal(&sorted[low]->id, id) ? sorted[low] : NULL;
}

static void want(const graph *g, const pd_id *id)
{
  dot *d = find_dot(g, id);
  if (d) d->is_wanted = true;
}

/* Mark what is drawn: from the starting points along all parents. One pass, thanks to G1. */
static void mark(graph *g, const pd_log_query *query)
{
  if (query->whole_store) {
    for (size_t i = 0; i < dot_count(g); i++) want(g, &dots_of(g)[i].id);
  } else if (query->ref || query->at) {
    want(g, &g->log.start.id);
  } else {
    for (size_t i = 0; i < names_count(&g->log.names); i++) want(g, &names_at(&g->log.names, i)->commit.id);
  }
  for (size_t i = 0; i < dot_count(g); i++) {
    const dot *d = &dots_of(g)[i];
    for (size_t k = 0; d->is_wanted && k < d->parent_count; k++) want(g, &d->parents[k]);
  }
}

/* ---- lanes ---- */

static void print_lane(graph *g, size_t lane, const char *between)
{
  out_text(&g->cli->out, g->is_lane[lane] ? "|" : " ");
  out_text(&g->cli->out, between);
}

static void trim_lanes(graph *g)
{
  while (g->lane_count && !g->is_lane[g->lane_count - 1]) g->lane_count--;
}

/* A line that leads lane `from` into lane `to`, which is left of it. `slash` is / to join, \ to part. */
static void print_bend(graph *g, size_t to, size_t from, char slash)
{
  char row[2 * LANES_MAX + 1];
  memset(row, ' ', sizeof row);
  for (size_t i = 0; i < g->lane_count; i++) {
    bool is_crossed = i > to && i < from;
    if (i != from) row[2 * i] = g->is_lane[i] ? '|' : is_crossed ? '_' : ' ';
    if (i >= to && i + 1 < from) row[2 * i + 1] = '_';
  }
  row[2 * from - 1] = slash;
  size_t size = 2 * g->lane_count;
  while (size && row[size - 1] == ' ') size--;
  out_printf(&g->cli->out, "%.*s\n", (int)size, row);
}

/* The lane that waits for `id` from `first` on; lane_count if none does. */
static size_t find_lane(const graph *g, const pd_id *id, size_t first)
{
  size_t i = first;
  while (i < g->lane_count && !(g->is_lane[i] && pd_id_equal(&g->lanes[i], id))) i++;
  return i;
}

static size_t new_lane(graph *g, const pd_id *id)
{
  size_t lane = 0;
  while (lane < g->lane_count && g->is_lane[lane]) lane++;
  if (lane >= LANES_MAX) lane = LANES_MAX - 1;
  if (lane >= g->lane_count) g->lane_count = lane + 1;
  g->is_lane[lane] = true;
  g->lanes[lane] = *id;
  return lane;
}

/* The lane for this commit, all others that wait for it joined into it (G2). */
static size_t take_lane(graph *g, const pd_id *id)
{
  size_t lane = find_lane(g, id, 0);
  if (lane == g->lane_count) return new_lane(g, id);
  for (size_t other = g->lane_count; other-- > lane + 1;) {
    if (!g->is_lane[other] || !pd_id_equal(&g->lanes[other], id)) continue;
    print_bend(g, lane, other, '/');
    g->is_lane[other] = false;
  }
  trim_lanes(g);
  return lane;
}

static void print_dot(graph *g, const pd_id *id, const char *line, const pd_id *parents, size_t parent_count)
{
  size_t lane = take_lane(g, id);
  for (size_t i = 0; i < g->lane_count; i++) {
    if (i == lane)
      out_text(&g->cli->out, "* ");
    else
      print_lane(g, i, " ");
  }
  out_printf(&g->cli->out, "%s\n", line);
  g->is_lane[lane] = parent_count > 0;
  if (parent_count) g->lanes[lane] = parents[0];
  for (size_t k = 1; k < parent_count; k++) {
    if (find_lane(g, &parents[k], 0) < g->lane_count) continue;
    size_t other = new_lane(g, &parents[k]);
    if (other > lane) print_bend(g, lane, other, '\\');
  }
  trim_lanes(g);
}

static void print_root(graph *g, const pd_id *root)
{
  char id[PD_ID_HEX_SIZE], line[64];
  if (find_lane(g, root, 0) == g->lane_count) return;
  snprintf(line, sizeof line, "%s root", cli_short_id(root, id));
  print_dot(g, root, line, NULL, 0);
}

/* Lanes that are open at the end go on in history that gc retired. */
static void print_cut(graph *g, const pd_log_query *query)
{
  const pd_gc_info *info = &g->log.gc;
  char time[PD_TIME_TEXT_SIZE];
  bool is_open = false;
  for (size_t i = 0; i < g->lane_count; i++) is_open |= g->is_lane[i];
  if (!is_open || info->cut <= 1 || query->before) return;
  for (size_t i = 0; i < g->lane_count; i++) out_text(&g->cli->out, g->is_lane[i] ? "~ " : "  ");
  out_printf(&g->cli->out, "older history was retired by gc on %s by ", pd_time_text(info->retired_ms, time));
  out_safe(&g->cli->out, pd_text(info->by));
  out_text(&g->cli->out, "\n");
}

pd_code graph_print(cli_session *cli, const pd_log_query *query, pd_error *err)
{
  CLEANUP(graph_done) graph g = {.cli = cli, .log = {.cli = cli, .wants_names = true}};
  g.log.query = (pd_log_query){.at = query->ref ? query->ref : query->at, .whole_store = true, .before = query->before};
  TRY(engine_log_begin(&g.log, err));
  TRY(engine_log_visit(&g.log, collect, &g, err));
  if (g.code != PD_OK) return pd_error_memory(err, "the graph");
  TRY(index_dots(&g, err));
  mark(&g, query);
  uint64_t drawn = 0;
  for (size_t i = 0; i < dot_count(&g) && !out_is_closed(&cli->out); i++) {
    const dot *d = &dots_of(&g)[i];
    if (!d->is_wanted) continue;
    if (query->limit && drawn++ == query->limit) return PD_OK;
    print_dot(&g, &d->id, d->line, d->parents, d->parent_count);
  }
  print_root(&g, &g.log.root.id);
  print_cut(&g, query);
  return PD_OK;
}
