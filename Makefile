# redisq-supervisor: one Makefile, not recursive, everything out of tree.
#
#   make                    build/redisq-supervisor, build/redisq-worker, build/redisqctl
#   make VARIANT=asan       the same with address + undefined-behaviour sanitizers in build/asan/
#   make VARIANT=tsan       thread sanitizer        make VARIANT=clang   built by clang
#   make DEVELOPER=1        warnings are errors
#   make run                a demonstration that ends by itself
#   make test               everything that must hold; ends with "N passed, N failed"
#   make install DESTDIR= PREFIX=/usr/local

VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=

ifeq ($(VARIANT),release)
OUT := build
else
OUT := build/$(VARIANT)
endif
OBJ := $(OUT)/obj
GEN := $(OUT)/gen

WARN := -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wformat=2 -Wcast-qual -Wwrite-strings -Wundef -Wswitch-enum
# -isystem: the warnings are for our code, not for libev's macros.
CPPFLAGS += -D_GNU_SOURCE -Icommon -I$(GEN)
CFLAGS += -std=c11 -g $(WARN)
LDLIBS := -lev -lhiredis -linih -ljansson -lpthread -lm

ifeq ($(VARIANT),asan)
CFLAGS += -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer -DREDISQ_TEST_BUILD=1
LDFLAGS += -fsanitize=address,undefined
else ifeq ($(VARIANT),tsan)
CFLAGS += -O1 -fsanitize=thread -fno-omit-frame-pointer -DREDISQ_TEST_BUILD=1
LDFLAGS += -fsanitize=thread
else
ifeq ($(VARIANT),clang)
CC := clang
endif
CFLAGS += -O2 -fstack-protector-strong -fPIE
CPPFLAGS += -D_FORTIFY_SOURCE=2
LDFLAGS += -pie -Wl,-z,relro,-z,now
endif
LDFLAGS += -Wl,--as-needed
ifdef DEVELOPER
CFLAGS += -Werror
endif

# ------------------------------------------------------------------ what is made of what
COMMON := backoff buf chan clock conf conf_doc conf_read conf_value err keys line log \
	rconn rconn_dns rconn_greet redis_url rconn_plain scoreboard sig spawn spawn_sweep
SUPERVISOR := main
WORKER := main
CTL := main

SCRIPTS := $(wildcard common/scripts/*.lua)

obj = $(patsubst %,$(OBJ)/$(1)/%.o,$(2))
COMMON_O := $(call obj,common,$(COMMON))
SUPERVISOR_O := $(call obj,supervisor,$(SUPERVISOR))
WORKER_O := $(call obj,worker,$(WORKER))
CTL_O := $(call obj,supervisor/ctl,$(CTL))
PROGRAMS := $(OUT)/redisq-supervisor $(OUT)/redisq-worker $(OUT)/redisqctl

all: $(PROGRAMS)

$(OUT)/libredisq.a: $(COMMON_O)
	@rm -f $@
	$(AR) rcs $@ $^

$(OUT)/redisq-supervisor: $(SUPERVISOR_O) $(OUT)/libredisq.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(OUT)/redisq-worker: $(WORKER_O) $(OUT)/libredisq.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(OUT)/redisqctl: $(CTL_O) $(OUT)/libredisq.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The Lua scripts become C strings, one per file, the shared prelude in front of each.
$(GEN)/scripts.inc: $(SCRIPTS) common/scripts/embed
	@mkdir -p $(@D)
	sh common/scripts/embed $(SCRIPTS) > $@.tmp && mv $@.tmp $@

clean:
	rm -rf build

.PHONY: all clean
.SECONDARY:
-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
