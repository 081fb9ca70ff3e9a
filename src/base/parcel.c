/* parcel.c: see parcel.h. */
#include "base/parcel.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

pd_code pd_parcel_put(pd_buf *out, pd_bytes bytes, pd_error *err)
{
  if (bytes.size > UINT32_MAX) return pd_error_set(err, PD_LIMIT, "%zu bytes are more than a parcel can hold", bytes.size);
  uint8_t head[PD_PARCEL_HEAD];
  for (size_t i = 0; i < sizeof head; i++) head[i] = (uint8_t)(bytes.size >> (8 * i));
  TRY(pd_buf_reserve(out, sizeof head + bytes.size, err));
  TRY(pd_buf_append(out, head, sizeof head, err));
  return pd_buf_append(out, bytes.data, bytes.size, err);
}

pd_code pd_parcel_next(pd_bytes *rest, pd_bytes *out, pd_error *err)
{
  const uint8_t *at = rest->data;
  size_t size = 0;
  if (!rest->size) return PD_NOT_FOUND;
  if (rest->size < PD_PARCEL_HEAD) return pd_error_set(err, PD_INVALID, "the length of a parcel is cut off");
  for (size_t i = 0; i < PD_PARCEL_HEAD; i++) size |= (size_t)at[i] << (8 * i);
  if (size > rest->size - PD_PARCEL_HEAD)
    return pd_error_set(err, PD_INVALID, "a parcel of %zu bytes is cut off after %zu", size, rest->size - PD_PARCEL_HEAD);
  *out = (pd_bytes){at + PD_PARCEL_HEAD, size};
  *rest = (pd_bytes){at + PD_PARCEL_HEAD + size, rest->size - PD_PARCEL_HEAD - size};
  return PD_OK;
}

pd_code pd_parcel_all(pd_bytes text, size_t count_max, pd_bytes **out, size_t *out_count, pd_error *err)
{
  pd_bytes *parcels = NULL, parcel;
  size_t count = 0, capacity = 0;
  pd_code code;
  while (!(code = pd_parcel_next(&text, &parcel, err))) {
    code = count == count_max ? pd_error_set(err, PD_LIMIT, "there are more than %zu parcels", count_max)
                              : pd_array_grow(&parcels, count, &capacity, sizeof *parcels, "parcels", err);
    if (code) break;
    parcels[count++] = parcel;
  }
  if (code != PD_NOT_FOUND) {
    free(parcels);
    return code;
  }
  *out = parcels;
  *out_count = count;
  return PD_OK;
}
