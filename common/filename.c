/* filename.c - see filename.h. */
#include "filename.h"

#define SUM_LEN 17 /* '~' and 16 digits */

void filename_stem(struct buf *out, const char *name)
{
	size_t begin = out->len;
	uint64_t sum = 14695981039346656037u; /* FNV-1a */

	for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
		bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
				(*p >= '0' && *p <= '9') || strchr("._-", *p) != NULL;

		sum = (sum ^ *p) * 1099511628211u;
		if (is_plain)
			buf_addc(out, (char)*p);
		else
			buf_addf(out, "%%%02X", *p);
	}
	if (out->len - begin > FILENAME_STEM_MAX) {
		buf_truncate(out, begin + FILENAME_STEM_MAX - SUM_LEN);
		buf_addf(out, "~%016llx", (unsigned long long)sum);
	}
}
