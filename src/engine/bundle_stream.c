/*
 * bundle_stream.c: a bundle as a file: magic, header, packed blocks, checksum (D1, D2). What is in the blocks is one stream of bytes;
 * items may lie across them.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "PDBUNDLE"
#define MAGIC_SIZE 8
#define START_SIZE (MAGIC_SIZE + 4 + 4) /* magic, format, size of the header */
#define BLOCK_START_SIZE 8              /* packed size, unpacked size */
#define READ_SIZE ((size_t)256 << 10)
#define PACK_LEVEL 3

/* ---- writing ---- */

static pd_code write_file(void *ctx, const void *data, size_t size, pd_error *err)
{
  const uint8_t *next = data;
  while (size) {
    ssize_t n = write(*(int *)ctx, next, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return pd_error_set(err, errno == ENOSPC || errno == EDQUOT ? PD_FULL : PD_STORAGE, "cannot write the bundle: %s", strerror(errno));
    next += n;
    size -= (size_t)n;
  }
  return PD_OK;
}

pd_sink pd_bundle_file_sink(int *fd)
{
  return (pd_sink){write_file, fd};
}

static pd_code write_all(pd_bundle_out *out, const void *data, size_t size, pd_error *err)
{
  pd_hash_add(&out->hash, data, size);
  out->written += size;
  return out->sink.write(out->sink.ctx, data, size, err);
}

pd_code pd_bundle_out_begin(pd_bundle_out *out, const pd_sink *sink, uint32_t format, pd_bytes head, pd_error *err)
{
  memset(out, 0, sizeof *out);
  out->sink = *sink;
  pd_hash_init(&out->hash);
  if (head.size > PD_BUNDLE_HEAD_MAX) return pd_error_set(err, PD_LIMIT, "too many refs for one bundle");
  out->zstd = ZSTD_createCCtx();
  if (!out->zstd) return pd_error_memory(err, "a bundle");
  TRY(pd_buf_reserve(&out->raw, PD_BUNDLE_BLOCK_MAX, err));
  TRY(pd_buf_reserve(&out->packed, ZSTD_compressBound(PD_BUNDLE_BLOCK_MAX), err));
  uint8_t start[START_SIZE] = MAGIC;
  pd_put_u32(start + MAGIC_SIZE, format);
  pd_put_u32(start + MAGIC_SIZE + 4, (uint32_t)head.size);
  TRY(write_all(out, start, sizeof start, err));
  return write_all(out, head.data, head.size, err);
}

static pd_code write_block(pd_bundle_out *out, pd_error *err)
{
  uint8_t start[BLOCK_START_SIZE];
  size_t packed = ZSTD_compressCCtx(out->zstd, out->packed.data, out->packed.capacity, out->raw.data, out->raw.size, PACK_LEVEL);
  if (ZSTD_isError(packed)) return pd_error_set(err, PD_NO_MEMORY, "cannot pack a block: %s", ZSTD_getErrorName(packed));
  pd_put_u32(start, (uint32_t)packed);
  pd_put_u32(start + 4, (uint32_t)out->raw.size);
  out->raw_bytes += out->raw.size;
  pd_buf_clear(&out->raw);
  TRY(write_all(out, start, sizeof start, err));
  return write_all(out, out->packed.data, packed, err);
}

pd_code pd_bundle_add(pd_bundle_out *out, const void *data, size_t size, pd_error *err)
{
  const uint8_t *next = data;
  while (size) {
    size_t room = PD_BUNDLE_BLOCK_MAX - out->raw.size, some = size < room ? size : room;
    TRY(pd_buf_append(&out->raw, next, some, err));
    next += some;
    size -= some;
    if (out->raw.size == PD_BUNDLE_BLOCK_MAX) TRY(write_block(out, err));
  }
  return PD_OK;
}

pd_code pd_bundle_add_number(pd_bundle_out *out, uint64_t n, pd_error *err)
{
  uint8_t bytes[PD_VARINT_SIZE_MAX];
  return pd_bundle_add(out, bytes, pd_varint_write(bytes, n), err);
}

pd_code pd_bundle_add_sized(pd_bundle_out *out, pd_bytes bytes, pd_error *err)
{
  TRY(pd_bundle_add_number(out, bytes.size, err));
  return pd_bundle_add(out, bytes.data, bytes.size, err);
}

pd_code pd_bundle_out_end(pd_bundle_out *out, pd_error *err)
{
  static const uint8_t last[BLOCK_START_SIZE];
  if (out->raw.size) TRY(write_block(out, err));
  TRY(write_all(out, last, sizeof last, err));
  pd_hash hash = out->hash;
  pd_id sum = pd_hash_end(&hash);
  return write_all(out, sum.bytes, PD_ID_SIZE, err);
}

void pd_bundle_out_done(pd_bundle_out *out)
{
  pd_buf_done(&out->raw);
  pd_buf_done(&out->packed);
  ZSTD_freeCCtx(out->zstd);
}

/* ---- reading ---- */

static pd_code read_file(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  uint8_t *next = data;
  while (size) {
    ssize_t n = pread(*(int *)ctx, next, size, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_error_set(err, PD_STORAGE, "cannot read the bundle: %s", strerror(errno));
    if (!n) return pd_error_set(err, PD_CORRUPT, "the bundle is cut off");
    next += n;
    at += (uint64_t)n;
    size -= (size_t)n;
  }
  return PD_OK;
}

pd_code pd_bundle_file_source(int *fd, pd_source *out, pd_error *err)
{
  struct stat st;
  if (fstat(*fd, &st) != 0) return pd_error_set(err, PD_STORAGE, "cannot read the bundle: %s", strerror(errno));
  if (!S_ISREG(st.st_mode)) return pd_error_set(err, PD_INVALID, "a bundle is read from a regular file");
  *out = (pd_source){read_file, (uint64_t)st.st_size, fd};
  return PD_OK;
}

static pd_code read_at(const pd_bundle_in *in, uint64_t at, void *data, size_t size, pd_error *err)
{
  return in->source.read(in->source.ctx, at, data, size, err);
}

static pd_code check_start(pd_bundle_in *in, uint64_t file_size, uint32_t *out_head_size, pd_error *err)
{
  uint8_t start[START_SIZE];
  size_t size = file_size < START_SIZE ? (size_t)file_size : START_SIZE;
  TRY(read_at(in, 0, start, size, err));
  if (!size || memcmp(start, MAGIC, size < MAGIC_SIZE ? size : MAGIC_SIZE) != 0) return pd_error_set(err, PD_FORMAT, "this is no bundle");
  if (file_size < START_SIZE + BLOCK_START_SIZE + PD_ID_SIZE) return pd_error_set(err, PD_CORRUPT, "the bundle is cut off");
  pd_cursor c = {start + MAGIC_SIZE, start + START_SIZE, false};
  uint32_t format = pd_take_u32(&c);
  if (format < PD_BUNDLE_FORMAT_WHOLE || format > PD_BUNDLE_FORMAT)
    return pd_error_set(err, PD_FORMAT, "the bundle is of format %u, this perdure knows format %d", format, PD_BUNDLE_FORMAT);
  *out_head_size = pd_take_u32(&c);
  return PD_OK;
}

static pd_code check_sum(pd_bundle_in *in, pd_error *err)
{
  pd_hash hash;
  pd_id sum;
  pd_hash_init(&hash);
  for (uint64_t at = 0; at < in->size;) {
    size_t some = in->size - at < READ_SIZE ? (size_t)(in->size - at) : READ_SIZE;
    TRY(read_at(in, at, in->packed.data, some, err));
    pd_hash_add(&hash, in->packed.data, some);
    at += some;
  }
  TRY(read_at(in, in->size, sum.bytes, PD_ID_SIZE, err));
  pd_id got = pd_hash_end(&hash);
  if (pd_id_equal(&got, &sum)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the bundle is damaged or cut off: it does not match its checksum");
}

static pd_code read_head(pd_bundle_in *in, uint32_t head_size, pd_bundle_head *out_head, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  if (head_size > PD_BUNDLE_HEAD_MAX || head_size > in->size - START_SIZE - BLOCK_START_SIZE)
    return pd_error_set(err, PD_CORRUPT, "the bundle's header is malformed");
  TRY(pd_buf_reserve(&bytes, head_size + 1, err));
  TRY(read_at(in, START_SIZE, bytes.data, head_size, err));
  bytes.size = head_size;
  in->first_at = START_SIZE + head_size;
  return pd_bundle_head_decode(pd_buf_bytes(&bytes), out_head, err);
}

static pd_code prepare(pd_bundle_in *in, pd_error *err)
{
  in->zstd = ZSTD_createDCtx();
  if (!in->zstd) return pd_error_memory(err, "a bundle");
  TRY(pd_buf_reserve(&in->raw, PD_BUNDLE_BLOCK_MAX, err));
  return pd_buf_reserve(&in->packed, ZSTD_compressBound(PD_BUNDLE_BLOCK_MAX), err);
}

pd_code pd_bundle_in_open(pd_bundle_in *in, const pd_source *source, pd_bundle_head *out_head, pd_error *err)
{
  uint32_t head_size = 0;
  memset(in, 0, sizeof *in);
  in->source = *source;
  TRY(check_start(in, source->size, &head_size, err));
  in->size = source->size - PD_ID_SIZE;
  TRY(prepare(in, err));
  TRY(check_sum(in, err));
  TRY(read_head(in, head_size, out_head, err));
  pd_bundle_rewind(in);
  return PD_OK;
}

pd_code pd_bundle_in_copy(pd_bundle_in *in, const pd_bundle_in *other, pd_error *err)
{
  *in = (pd_bundle_in){.source = other->source, .size = other->size, .first_at = other->first_at};
  pd_bundle_rewind(in);
  return prepare(in, err);
}

void pd_bundle_in_done(pd_bundle_in *in)
{
  pd_buf_done(&in->raw);
  pd_buf_done(&in->packed);
  ZSTD_freeDCtx(in->zstd);
}

void pd_bundle_rewind(pd_bundle_in *in)
{
  in->block_at = in->next_at = in->first_at;
  in->next = 0;
  in->is_at_end = false;
  pd_buf_clear(&in->raw);
}

pd_code pd_bundle_fail(pd_bundle_in *in, pd_code code, const char *fmt, ...)
{
  char line[PD_ERROR_MESSAGE_MAX];
  if (in->code) return in->code;
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  return in->code = pd_error_set(&in->why, code, "%s", line);
}

static void malformed(pd_bundle_in *in)
{
  (void)!pd_bundle_fail(in, PD_CORRUPT, "the bundle is malformed at byte %llu", (unsigned long long)in->block_at);
}

/* Unpack the next block; false at the end or on a failure. */
static bool next_block(pd_bundle_in *in)
{
  uint8_t start[BLOCK_START_SIZE];
  if (in->code || in->is_at_end) return false;
  in->block_at = in->next_at;
  in->next = 0;
  pd_buf_clear(&in->raw);
  if (in->size - in->block_at < BLOCK_START_SIZE) return malformed(in), false;
  if ((in->code = read_at(in, in->block_at, start, sizeof start, &in->why))) return false;
  pd_cursor c = {start, start + sizeof start, false};
  uint32_t packed = pd_take_u32(&c), raw = pd_take_u32(&c);
  if (!packed && !raw) {
    in->is_at_end = true;
    in->next_at = in->block_at + BLOCK_START_SIZE;
    if (in->next_at != in->size) malformed(in);
    return false;
  }
  if (!raw || raw > PD_BUNDLE_BLOCK_MAX || packed > in->packed.capacity || packed > in->size - in->block_at - BLOCK_START_SIZE)
    return malformed(in), false;
  if ((in->code = read_at(in, in->block_at + BLOCK_START_SIZE, in->packed.data, packed, &in->why))) return false;
  size_t got = ZSTD_decompressDCtx(in->zstd, in->raw.data, raw, in->packed.data, packed); /* D2: never more than `raw` */
  if (ZSTD_isError(got) || got != raw) return malformed(in), false;
  in->raw.size = raw;
  in->next_at = in->block_at + BLOCK_START_SIZE + packed;
  return true;
}

pd_bundle_place pd_bundle_tell(const pd_bundle_in *in)
{
  return (pd_bundle_place){in->block_at, (uint32_t)in->next};
}

void pd_bundle_seek(pd_bundle_in *in, pd_bundle_place place)
{
  if (in->code) return;
  if (place.block_at != in->block_at || !in->raw.size) {
    in->next_at = place.block_at;
    in->is_at_end = false;
    if (!next_block(in)) return malformed(in);
  }
  if (place.next > in->raw.size) return malformed(in);
  in->next = place.next;
}

void pd_bundle_bytes(pd_bundle_in *in, uint64_t size, pd_buf *buf, pd_hash *hash)
{
  while (size && !in->code) {
    if (in->next == in->raw.size && !next_block(in)) return malformed(in);
    size_t left = in->raw.size - in->next, some = size < left ? (size_t)size : left;
    const uint8_t *from = in->raw.data + in->next;
    if (buf && !in->code) in->code = pd_buf_append(buf, from, some, &in->why);
    if (hash) pd_hash_add(hash, from, some);
    in->next += some;
    size -= some;
  }
}

uint8_t pd_bundle_u8(pd_bundle_in *in)
{
  if (in->code || (in->next == in->raw.size && !next_block(in))) return malformed(in), 0;
  return in->raw.data[in->next++];
}

uint64_t pd_bundle_number(pd_bundle_in *in, uint64_t most)
{
  uint8_t bytes[PD_VARINT_SIZE_MAX];
  size_t size = 0;
  do {
    if (size == sizeof bytes) return malformed(in), 0;
    bytes[size] = pd_bundle_u8(in);
  } while (bytes[size++] & 0x80);
  pd_cursor c = {bytes, bytes + size, false};
  uint64_t n = pd_take_varint(&c);
  if (!pd_cursor_ok(&c) || n > most) malformed(in);
  return in->code ? 0 : n;
}

pd_id pd_bundle_id(pd_bundle_in *in)
{
  pd_id id = {{0}};
  for (size_t i = 0; i < PD_ID_SIZE; i++) id.bytes[i] = pd_bundle_u8(in);
  return id;
}

bool pd_bundle_is_over(pd_bundle_in *in)
{
  return in->next == in->raw.size && !next_block(in) && !in->code;
}
