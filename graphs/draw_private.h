/* draw_private.h - text, rows and colours of pictures: functions of draw.c, also for topology_draw.c. */
#ifndef XK_DRAW_PRIVATE_H
#define XK_DRAW_PRIVATE_H

#include <stdio.h>

/* Ink on white; red and amber mark where a message is handed to a thread. */
#define DRAW_INK "#1f2933"
#define DRAW_FAINT "#6b7785"
#define DRAW_LINE "#8794a3"
#define DRAW_RED "#c81e3a"
#define DRAW_AMBER "#b45309"
#define DRAW_BLUE "#1d5fa8"
#define DRAW_GREEN "#2f7d4f"
#define DRAW_FILL_TOP "#eaf4ee"
#define DRAW_FILL "#eef3fa"
#define DRAW_FILL_VIRTUAL "#ffffff"
#define DRAW_FILL_PORT "#f1ecf7"

/* Starts a label, which ends with "</table>". */
#define DRAW_TABLE "<table border=\"0\" cellspacing=\"0\" cellpadding=\"1\">"

/* A row of the legend: the line of an edge, or the frame of a node. */
#define DRAW_LEGEND_LINE(style, width, colour)                                                                         \
	"border=\"" width "\" sides=\"b\" style=\"" style "\" color=\"" colour "\""
#define DRAW_LEGEND_BOX(style, fill) "border=\"1\" style=\"" style "\" color=\"" DRAW_LINE "\" bgcolor=\"" fill "\""

enum { DRAW_VALUE_MAX = 40 };

/*
 * Writes text for an HTML-like label: escapes XML's reserved characters, replaces bytes that are not text by question
 * marks, and truncates after max characters.
 */
void draw_text(FILE *stream, const char *text, unsigned max);

/* Write a row of a label's table: its start and end, text alone, and the setting `name = value`. */
void draw_row_begin(FILE *stream, const char *colour);
void draw_row_end(FILE *stream);
void draw_row(FILE *stream, const char *colour, const char *text);
void draw_row_setting(FILE *stream, const char *name, const char *value);

/*
 * Begin a cluster, which is to contain the whole picture and must be closed by "}", with a legend at its bottom; add a
 * row, with a swatch (DRAW_LEGEND_) and plain text; end the legend.
 */
void draw_legend_begin(FILE *stream);
void draw_legend_row(FILE *stream, const char *swatch, const char *text);
void draw_legend_end(FILE *stream);

/* Returns the part of file after its last slash. */
const char *draw_base_name(const char *file);

#endif
