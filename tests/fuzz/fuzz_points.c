/* fuzz_points.c: what a store knows of its retention. What is accepted is exactly what encoding it gives again, and can be searched. */
#include "base/base.h"
#include "base/buf.h"
#include "dag/points.h"
#include "fuzz/fuzz.h"

static void check_points(const pd_points *points)
{
  for (size_t i = 0; i < points->count; i++) {
    const pd_point *p = &points->points[i];
    FUZZ_REQUIRE(p->commit.seq && p->commit.seq < points->cut);
    FUZZ_REQUIRE(!i || p[-1].commit.seq < p->commit.seq);
    FUZZ_REQUIRE(pd_points_find(points, p->commit.seq) == p);
    FUZZ_REQUIRE(p->parent_count <= PD_PARENT_COUNT_MAX); /* none: a part of a grafted commit's tree (record.h, R5) */
    for (size_t k = 0; k < p->parent_count; k++) FUZZ_REQUIRE(p->parent_seqs[k] < p->commit.seq || p->parent_seqs[k] == PD_SEQ_GONE);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_points points = {0};
  pd_error err = {0};
  pd_code code = pd_points_decode((pd_bytes){data, size}, &points, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (code == PD_OK) {
    pd_buf again = {0};
    check_points(&points);
    FUZZ_REQUIRE(pd_points_encode(&points, &again, NULL) == PD_OK);
    FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&again), (pd_bytes){data, size}));
    pd_buf_done(&again);
  }
  pd_points_done(&points);
  return 0;
}
