/* percent.c - see percent.h. */
#include "percent.h"

void percent_encode(const char *text, struct buf *out)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p <= 0x20 || *p >= 0x7f || strchr("%#[]", *p))
			buf_addf(out, "%%%02X", *p);
		else
			buf_addc(out, (char)*p);
	}
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

bool percent_decode(struct slice text, struct buf *out)
{
	for (size_t i = 0; i < text.len; i++) {
		int hi, lo;

		if (text.data[i] != '%') {
			if (!text.data[i])
				return false;
			buf_addc(out, text.data[i]);
			continue;
		}
		hi = i + 1 < text.len ? hex(text.data[i + 1]) : -1;
		lo = i + 2 < text.len ? hex(text.data[i + 2]) : -1;
		if (hi < 0 || lo < 0 || hi + lo == 0)
			return false;
		buf_addc(out, (char)(hi * 16 + lo));
		i += 2;
	}
	return true;
}
