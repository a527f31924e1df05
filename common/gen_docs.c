/*
 * gen_docs.c - a tool of the build: prints a text that is made from the configuration table.
 * "gen-docs sample" is etc/redisq.ini, "gen-docs man" common/redisq.ini.5, "gen-docs keys" a list.
 */
#include "conf_doc.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*fn)(struct buf *out);
	} texts[] = {{"sample", conf_doc_sample}, {"man", conf_doc_man}, {"keys", conf_doc_keys}};
	struct buf out = BUF_INIT;

	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(texts); i++)
		if (strcmp(argv[1], texts[i].word) == 0)
			texts[i].fn(&out);
	if (out.len == 0) {
		fputs("usage: gen-docs sample|man|keys\n", stderr);
		return EXIT_USAGE;
	}
	if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
		perror("gen-docs");
		return EXIT_FAILURE;
	}
	buf_release(&out);
	return EXIT_OK;
}
