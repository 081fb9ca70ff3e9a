/* news.c: see news.h. */
#include "wire/news.h"

#include "base/base.h"
#include "base/buf.h"
#include "wire/sse.h"

#include <string.h>

void pd_news_clear(pd_news *news)
{
  news->count = 0;
  pd_buf_clear(&news->text);
  pd_buf_clear(&news->names);
}

void pd_news_done(pd_news *news)
{
  pd_buf_done(&news->text);
  pd_buf_done(&news->names);
}

bool pd_news_has_room(const pd_news *news, size_t size_max)
{
  return news->count == 0 || (news->count < PD_NEWS_MAX && news->text.size < size_max && news->items[news->count - 1].is_whole);
}

static pd_code write_item(pd_news *news, const pd_watch_event *event, pd_news_item *out, pd_error *err)
{
  out->begin = news->text.size;
  out->ref_at = news->names.size;
  TRY(pd_buf_append(&news->names, event->ref, strlen(event->ref) + 1, err));
  out->key_at = news->names.size;
  out->key_size = event->key.size;
  TRY(pd_buf_append(&news->names, event->key.data, event->key.size, err));
  TRY(pd_sse_event(&news->text, event, err));
  out->end = news->text.size;
  return PD_OK;
}

void pd_news_add(pd_news *news, const pd_watch_event *event)
{
  pd_news_item *item = &news->items[news->count++];
  *item = (pd_news_item){.is_change = event->kind == PD_WATCH_PUT || event->kind == PD_WATCH_DELETE, .next = event->next};
  item->is_whole = write_item(news, event, item, NULL) == PD_OK;
  if (!item->is_whole) news->text.size = item->begin;
}
