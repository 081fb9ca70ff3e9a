/*
 * news.h: events that are due to the followers of a store, joined: each is written as text once, and those that follow one another go to a
 * follower with one system call.
 */
#ifndef PD_WIRE_NEWS_H
#define PD_WIRE_NEWS_H

#include <perdure/perdure.h>

#define PD_NEWS_MAX 64

typedef struct pd_news_item {
  bool is_whole;  /* else there was no memory for it: whoever may want it has to be told, and to read it again */
  bool is_change; /* of a key; else it is told whatever the prefix */
  pd_watch_cursor next;
  size_t ref_at, key_at, key_size; /* in `names`; the ref has a NUL */
  size_t begin, end;               /* in `text` */
} pd_news_item;

typedef struct pd_news {
  pd_buf text, names;
  size_t count;
  pd_news_item items[PD_NEWS_MAX];
} pd_news;

/* Forget all, keep the memory. */
void pd_news_clear(pd_news *news);
void pd_news_done(pd_news *news);
/* There is room for another of them. */
bool pd_news_has_room(const pd_news *news, size_t size_max);
/* One more; its room was asked for. */
void pd_news_add(pd_news *news, const pd_watch_event *event);

static inline const char *pd_news_ref(const pd_news *news, const pd_news_item *item)
{
  return (const char *)news->names.data + item->ref_at;
}

static inline pd_bytes pd_news_key(const pd_news *news, const pd_news_item *item)
{
  return (pd_bytes){news->names.data + item->key_at, item->key_size};
}

/* Of the items first … last, which are whole. */
static inline pd_bytes pd_news_text(const pd_news *news, size_t first, size_t last)
{
  return (pd_bytes){news->text.data + news->items[first].begin, news->items[last].end - news->items[first].begin};
}

#endif
