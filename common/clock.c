/* clock.c - see clock.h. */
#include "clock.h"

static int64_t read_ms(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_mono_ms(void)
{
	return read_ms(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(void)
{
	return read_ms(CLOCK_BOOTTIME);
}

int64_t clock_wall_ms(void)
{
	return read_ms(CLOCK_REALTIME);
}

void clock_stamp(int64_t wall_ms, char out[CLOCK_STAMP_LEN + 1])
{
	time_t sec = (time_t)(wall_ms / 1000);
	struct tm tm;
	char date[32];

	gmtime_r(&sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, CLOCK_STAMP_LEN + 1, "%.19s.%03uZ", date, (unsigned)(wall_ms % 1000) % 1000u);
}
