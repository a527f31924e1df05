/*
 * conf_number.h - the numeric types of the table: integers, percents, durations, sizes, workers.
 * Plain code; part of conf_value.
 */
#ifndef REDISQ_CONF_NUMBER_H
#define REDISQ_CONF_NUMBER_H

#include "conf_value.h"

/* As conf_value_parse() and conf_value_format(), for the numeric types only. */
enum conf_parsed conf_number_parse(const struct conf_row *row, const char *text, void *field,
				   struct err *e) ATTR_MUST_CHECK;
void conf_number_format(const struct conf_row *row, const void *field, struct buf *out);

#endif
