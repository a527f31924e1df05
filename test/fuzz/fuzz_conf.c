/*
 * fuzz_conf.c - any bytes as a configuration file: no crash, and what is accepted survives the way
 * through a snapshot unchanged. libFuzzer; "make fuzz" runs it for a minute.
 */
#include "conf_doc.h"
#include "conf_read.h"
#include "conf_snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct conf *c)
{
	struct conf *back = conf_new();
	struct buf text = BUF_INIT, again = BUF_INIT;
	struct err e;

	conf_write_snapshot(c, &text);
	INVARIANT(conf_snapshot_parse(back, slice_of(text.data, text.len), &e) == 0);
	conf_write_snapshot(back, &again);
	INVARIANT(slice_eq(slice_of(text.data, text.len), slice_of(again.data, again.len)));
	buf_release(&text);
	buf_release(&again);
	conf_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf *c = conf_new();
	struct buf errs = BUF_INIT, shown = BUF_INIT;
	struct err e = {0};
	int rc = conf_read_text(c, "f", slice_of(data, size), &errs);

	INVARIANT((rc < 0) == (errs.len > 0));
	buf_clear(&errs);
	rc = conf_finish(c, &errs);
	INVARIANT((rc < 0) == (errs.len > 0));
	check_round_trip(c);
	conf_doc_print(c, &shown);
	/* The same bytes as a snapshot: garbage there is an error, never more. */
	if (conf_snapshot_parse(c, slice_of(data, size), &e) < 0)
		INVARIANT(e.text[0] != '\0');
	buf_release(&errs);
	buf_release(&shown);
	conf_free(c);
	return 0;
}
