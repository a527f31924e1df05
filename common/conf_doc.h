/*
 * conf_doc.h - texts made from the table: the sample ini, redisq.ini(5), --print-config and the
 * keys part of --help. Plain code.
 */
#ifndef REDISQ_CONF_DOC_H
#define REDISQ_CONF_DOC_H

#include "conf.h"

void conf_doc_sample(struct buf *out);
void conf_doc_man(struct buf *out);
/* Every key with its value and origin ("# redisq.ini:12"), secrets as ***. */
void conf_doc_print(const struct conf *c, struct buf *out);
/* Word lists for completion and tests: "section.key" a line. */
void conf_doc_keys(struct buf *out);

#endif
