/* svg.h: a small plotter: panels side by side, both axes logarithmic, lines with their names at the end. Writes an SVG file. */
#ifndef BENCH_SVG_H
#define BENCH_SVG_H

#include <perdure/perdure.h>

#define SVG_POINT_COUNT_MAX 16
#define SVG_LINE_COUNT_MAX 8

typedef struct svg_line {
  const char *name;
  double x[SVG_POINT_COUNT_MAX], y[SVG_POINT_COUNT_MAX]; /* positive: a logarithm is taken */
  size_t count;
} svg_line;

typedef struct svg_panel {
  const char *title, *x_name;
  /* The label at a power of ten on the vertical axis. */
  void (*y_text)(double value, char *out, size_t size);
  svg_line lines[SVG_LINE_COUNT_MAX];
  size_t line_count;
} svg_panel;

/* Add a point to the line of that name, which is begun if it is new. What does not fit or is not positive is left out. */
void svg_point(svg_panel *panel, const char *name, double x, double y);

/* Two panels a row. Whole or not at all. */
PD_MUST_USE pd_code svg_write(const char *path, const char *title, const svg_panel *panels, size_t count, pd_error *err);

#endif
