/* side.c: what is the same for every side. */
#include "side.h"

#include "base/base.h"
#include "base/error.h"
#include "data.h"

pd_code bench_side_close(bench_side *side, pd_error *err)
{
  if (!side->state) return PD_OK;
  void *state = side->state;
  side->state = NULL;
  return side->ops->close(state, err);
}

void bench_side_done(bench_side *side)
{
  pd_code ignored = bench_side_close(side, NULL); /* only reached after another failure, which is the one to report */
  (void)ignored;
}

pd_code bench_side_get(bench_side *side, uint32_t index, pd_error *err)
{
  bench_key key;
  pd_bytes value;
  bench_key_make(index, &key);
  TRY(side->ops->get(side->state, bench_key_bytes(&key), &value, err));
  if (bench_value_belongs(value, index, NULL)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%s: the value of '%s' is not the one that was put", side->ops->name, key.text);
}
