/* svg.c: see svg.h. Sizes are in SVG's pixels; y grows downwards. */
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"

#define PANEL_WIDTH 560
#define PANEL_HEIGHT 330
#define PLOT_LEFT 70
#define PLOT_TOP 40
#define PLOT_WIDTH 330 /* the rest, to the right, is for the lines' names */
#define PLOT_HEIGHT 240
#define HEAD_HEIGHT 50
#define NAME_HEIGHT 15

static const char *const colours[SVG_LINE_COUNT_MAX] = {"#0b6e99", "#d1495b", "#2e7d32", "#8e5ea2",
                                                        "#b8860b", "#444444", "#00838f", "#ad1457"};

/* The powers of ten that an axis spans. */
typedef struct span {
  int low, high;
} span;

typedef struct frame {
  FILE *out;
  double left, top; /* of the plot itself */
  span x, y;
} frame;

void svg_point(svg_panel *panel, const char *name, double x, double y)
{
  size_t i = 0;
  while (i < panel->line_count && strcmp(panel->lines[i].name, name) != 0) i++;
  if (i == SVG_LINE_COUNT_MAX || !(x > 0) || !(y > 0)) return;
  if (i == panel->line_count) panel->lines[panel->line_count++].name = name;
  svg_line *line = &panel->lines[i];
  if (line->count == SVG_POINT_COUNT_MAX) return;
  line->x[line->count] = x;
  line->y[line->count++] = y;
}

static void widen(span *s, double value, bool is_first)
{
  int low = (int)floor(log10(value) + 1e-9), high = (int)ceil(log10(value) - 1e-9);
  if (is_first || low < s->low) s->low = low;
  if (is_first || high > s->high) s->high = high;
}

static void find_spans(const svg_panel *panel, frame *f)
{
  bool is_first = true;
  for (size_t l = 0; l < panel->line_count; l++) {
    for (size_t i = 0; i < panel->lines[l].count; i++) {
      widen(&f->x, panel->lines[l].x[i], is_first);
      widen(&f->y, panel->lines[l].y[i], is_first);
      is_first = false;
    }
  }
  if (f->x.high == f->x.low) f->x.high++;
  if (f->y.high == f->y.low) f->y.high++;
}

static double x_of(const frame *f, double value)
{
  return f->left + PLOT_WIDTH * (log10(value) - f->x.low) / (f->x.high - f->x.low);
}

static double y_of(const frame *f, double value)
{
  return f->top + PLOT_HEIGHT * (1 - (log10(value) - f->y.low) / (f->y.high - f->y.low));
}

static void write_text(FILE *out, double x, double y, const char *attributes, const char *text)
{
  fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
  for (; *text; text++) {
    if (*text == '<')
      fputs("&lt;", out);
    else if (*text == '&')
      fputs("&amp;", out);
    else
      fputc(*text, out);
  }
  fputs("</text>\n", out);
}

static void write_rule(const frame *f, double x1, double y1, double x2, double y2)
{
  fprintf(f->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x1, y1, x2, y2);
}

static void write_axes(const frame *f, const svg_panel *panel)
{
  double right = f->left + PLOT_WIDTH, bottom = f->top + PLOT_HEIGHT;
  for (int power = f->x.low; power <= f->x.high; power++) {
    char text[32];
    double x = x_of(f, pow(10, power));
    write_rule(f, x, f->top, x, bottom);
    snprintf(text, sizeof(text),
             power >= 6   ? "%g M"
             : power >= 3 ? "%g k"
                          : "%g",
             pow(10, power >= 6   ? power - 6
                     : power >= 3 ? power - 3
                                  : power));
    write_text(f->out, x, bottom + 18, "text-anchor=\"middle\"", text);
  }
  for (int power = f->y.low; power <= f->y.high; power++) {
    char text[32];
    double y = y_of(f, pow(10, power));
    write_rule(f, f->left, y, right, y);
    panel->y_text(pow(10, power), text, sizeof(text));
    write_text(f->out, f->left - 8, y + 4, "text-anchor=\"end\"", text);
  }
  write_text(f->out, f->left, f->top - 14, "font-weight=\"bold\"", panel->title);
  write_text(f->out, f->left + PLOT_WIDTH / 2.0, bottom + 36, "text-anchor=\"middle\"", panel->x_name);
}

static void write_line(const frame *f, const svg_line *line, const char *colour)
{
  fprintf(f->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
  for (size_t i = 0; i < line->count; i++) fprintf(f->out, "%.1f,%.1f ", x_of(f, line->x[i]), y_of(f, line->y[i]));
  fputs("\"/>\n", f->out);
  for (size_t i = 0; i < line->count; i++)
    fprintf(f->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(f, line->x[i]), y_of(f, line->y[i]), colour);
}

typedef struct name_place {
  size_t line;
  double y;
} name_place;

static int compare_places(const void *a, const void *b)
{
  double x = ((const name_place *)a)->y, y = ((const name_place *)b)->y;
  return (x > y) - (x < y);
}

/* At the line's end, from the top down, each at least one text below the one before. */
static void write_names(const frame *f, const svg_panel *panel)
{
  name_place places[SVG_LINE_COUNT_MAX];
  for (size_t l = 0; l < panel->line_count; l++) places[l] = (name_place){l, y_of(f, panel->lines[l].y[panel->lines[l].count - 1])};
  qsort(places, panel->line_count, sizeof(*places), compare_places);
  for (size_t i = 0; i < panel->line_count; i++) {
    char attributes[64];
    if (i > 0 && places[i].y < places[i - 1].y + NAME_HEIGHT) places[i].y = places[i - 1].y + NAME_HEIGHT;
    snprintf(attributes, sizeof(attributes), "fill=\"%s\"", colours[places[i].line]);
    write_text(f->out, f->left + PLOT_WIDTH + 10, places[i].y + 4, attributes, panel->lines[places[i].line].name);
  }
}

static void write_panel(FILE *out, const svg_panel *panel, size_t index)
{
  frame f = {
    .out = out, .left = PLOT_LEFT + (double)(index % 2) * PANEL_WIDTH, .top = HEAD_HEIGHT + PLOT_TOP + (double)(index / 2) * PANEL_HEIGHT};
  find_spans(panel, &f);
  write_axes(&f, panel);
  for (size_t l = 0; l < panel->line_count; l++) write_line(&f, &panel->lines[l], colours[l]);
  write_names(&f, panel);
}

static void write_all(FILE *out, const char *title, const svg_panel *panels, size_t count)
{
  size_t height = HEAD_HEIGHT + (count + 1) / 2 * PANEL_HEIGHT;
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" viewBox=\"0 0 %d %zu\" font-family=\"sans-serif\" "
          "font-size=\"12\">\n",
          2 * PANEL_WIDTH, height, 2 * PANEL_WIDTH, height);
  fputs("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", out);
  write_text(out, 20, 30, "font-size=\"16\" font-weight=\"bold\"", title);
  for (size_t i = 0; i < count; i++) write_panel(out, &panels[i], i);
  fputs("</svg>\n", out);
}

pd_code svg_write(const char *path, const char *title, const svg_panel *panels, size_t count, pd_error *err)
{
  char fresh[4096];
  if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh))
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", path);
  FILE *out = fopen(fresh, "we");
  if (!out) return pd_error_set(err, PD_STORAGE, "cannot write '%s': %s", fresh, strerror(errno));
  write_all(out, title, panels, count);
  bool is_written = !ferror(out);
  is_written = fclose(out) == 0 && is_written;
  if (is_written && rename(fresh, path) == 0) return PD_OK;
  pd_code code = pd_error_set(err, PD_STORAGE, "cannot write '%s': %s", path, strerror(errno));
  unlink(fresh);
  return code;
}
