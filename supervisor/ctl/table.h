/*
 * table.h - rows of text in aligned columns. Pure.
 *
 * Every column is as wide as its widest cell; what exceeds the width in all is cut from the last
 * column, with a mark. Width is counted in characters, bytes being UTF-8.
 */
#ifndef REDISQ_CTL_TABLE_H
#define REDISQ_CTL_TABLE_H

#include "buf.h"

#define TABLE_COLUMNS_MAX 16

struct table;

/* `spec`: one word per column, the heading; a leading '>' = align right, '~' in it = a blank. */
struct table *table_new(const char *spec);
void table_free(struct table *t);
/* The next cell, row by row; the text is copied. */
void table_cell(struct table *t, const char *text);
void table_cellf(struct table *t, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* Columns of this cell that are colour and not text: put around it when printed. */
void table_paint(struct table *t, const char *before, const char *after);
size_t table_n_rows(const struct table *t);
/* Appends the heading and all rows, each line at most `width` columns (0 = no limit). */
void table_print(const struct table *t, int width, struct buf *out);

#endif
