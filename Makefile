# redisq-supervisor: one Makefile, not recursive, everything out of tree.
#
#   make                    build/redisq-supervisor, build/redisq-worker, build/redisqctl, and
#                           build/redisq-tls.so where OpenSSL's headers are
#   make VARIANT=asan       the same with address + undefined-behaviour sanitizers in build/asan/
#   make VARIANT=tsan       thread sanitizer        make VARIANT=clang   built by clang
#   make DEVELOPER=1        warnings are errors       make V=1       whole command lines
#   make run                a demonstration that ends by itself
#   make test               everything that must hold; ends with "N passed, N failed"
#   make tsan               what runs in threads, under the thread sanitizer
#   make figures            the figures of the README that make test has no time for
#   make chaos SECONDS=120  faults of all kinds at random (SEED=N repeats a run), on the asan programs
#   make matrix             the integration tests on Redis 6.0 to 8.6, Valkey, with an ACL, on one that is
#                           managed, one that is like 3.2, and in a newer Debian: a table for the README
#   make bench              figures against the peers and what Redis can serve; ROWS=, N=, RUNS=, SHORT=1
#   make install DESTDIR= PREFIX=/usr/local           make uninstall with the same

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
LDLIBS := -lev -lhiredis -linih -ljansson -lpthread -ldl -lm

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

# One line a step, "CC common/buf.c"; with V=1 the commands themselves; with -s nothing.
ifeq ($(V),1)
say =
Q :=
else
say = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),,printf '%-3s %s\n' $(1) $(2);)
Q := @
endif

# ------------------------------------------------------------------ what is made of what
COMMON := backoff buf chan clock cluster conf conf_check conf_check_tls conf_doc conf_env conf_finish conf_number conf_program \
	conf_read conf_row conf_snapshot conf_value conf_words cpus crc16 env err fds filename info jtext keys kind line log \
	needs obituary oom partition paths percent rconn rconn_arena rconn_bytes rconn_cluster rconn_cluster_pick rconn_connect rconn_dns rconn_fifo rconn_greet rconn_master \
	rconn_plain rconn_resp rconn_retry rconn_sentinel rconn_sentinel_pick rconn_tls readfile redis_url scoreboard script sig spawn spawn_sweep \
	suggest tls_context users
SUPERVISOR := canary children control control_socket credit daemon earlier facts fleet fleet_events generation groups handover heartbeat identity \
	lock logfile logformat logsink main options outlet private_redis proc proc_death proc_fsm proc_spawn \
	proc_words reload reloading restart roll roll_fsm roll_trial slot status supervisor supervisor_init suspects terminal tick verbs \
	waiters
WORKER := main worker complaint partitions share starts worker_tasks worker_drain worker_breaker orders ledger task task_index task_table verdict breaker reply lease group args fields answer \
	exec_exit exec_stdin child_env frames handler_exec handler_pipe pipe_child pipe_talk pipe_exit pipe_lines pipe_plan pipe_seen program handler_so so_lead so_lib so_pool so_run queue_stream stream_kind stream_list stream_open stream_read stream_done stream_settle stream_note \
	stream_care stream_take stream_handover stream_trouble stream_policy stream_needs strays suspect
CTL := client doctor_cluster doctor_list doctor_names doctor_needs doctor_parts doctor_queue doctor_scan doctor_server doctor_spread entry findings logtail main options out parts reach redis redis_kind redis_parts redis_reply spread table target verb_audit verb_doctor verb_letters verb_logs verb_other \
	verb_pending verb_process verb_push verb_show verb_stats verb_status wait

SCRIPTS := $(wildcard common/scripts/*.lua)

obj = $(patsubst %,$(OBJ)/$(1)/%.o,$(2))
COMMON_O := $(call obj,common,$(COMMON))
SUPERVISOR_O := $(call obj,supervisor,$(SUPERVISOR))
WORKER_O := $(call obj,worker,$(WORKER))
CTL_O := $(call obj,supervisor/ctl,$(CTL))
PROGRAMS := $(OUT)/redisq-supervisor $(OUT)/redisq-worker $(OUT)/redisqctl
# TLS is a module, so that only a rediss:// url pays for OpenSSL; without its headers there is none.
TLS_MODULE := $(if $(shell echo '\#include <openssl/ssl.h>' | $(CC) $(CPPFLAGS) -E - 2>/dev/null | head -c 1),$(OUT)/redisq-tls.so)

all: $(PROGRAMS) $(TLS_MODULE)

$(OUT)/libredisq.a: $(COMMON_O)
	@rm -f $@
	$(Q)$(call say,AR,$@)$(AR) rcs $@ $^

$(OUT)/redisq-supervisor: $(SUPERVISOR_O) $(OUT)/libredisq.a
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(OUT)/redisq-worker: $(WORKER_O) $(OUT)/libredisq.a
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(OUT)/redisqctl: $(CTL_O) $(OUT)/libredisq.a
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Generated before anything is compiled: whoever includes script.h needs it.
$(OBJ)/%.o: %.c | $(GEN)/scripts.inc
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

TLS_O := $(call obj,module,common/tls_openssl common/tls_words)
$(TLS_O): $(OBJ)/module/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) $(CPPFLAGS) $(filter-out -fPIE,$(CFLAGS)) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
$(OUT)/redisq-tls.so: $(TLS_O)
	$(Q)$(call say,LD,$@)$(CC) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ -lssl -lcrypto

# The Lua scripts become C strings, one per file, the shared prelude in front of each.
$(GEN)/scripts.inc: $(SCRIPTS) common/scripts/embed
	@mkdir -p $(@D)
	$(Q)$(call say,GEN,$@)sh common/scripts/embed $(SCRIPTS) > $@.tmp && mv $@.tmp $@

# ------------------------------------------------------------------ texts made from conf.def
$(OUT)/gen-docs: $(call obj,common,gen_docs) $(OUT)/libredisq.a
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

docs: $(OUT)/gen-docs
	$< sample > etc/redisq.ini
	$< man > common/redisq.ini.5

docs-check: $(OUT)/gen-docs
	@$< sample | cmp - etc/redisq.ini && $< man | cmp - common/redisq.ini.5 || \
		{ echo "conf.def has changed: run make docs and commit the result"; exit 1; }

# The systemd unit that redisqctl startup prints, as a C string.
$(GEN)/service.inc: etc/redisq-supervisor.service
	@mkdir -p $(@D)
	$(Q)$(call say,GEN,$@)sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@.tmp && mv $@.tmp $@
$(OBJ)/supervisor/ctl/verb_other.o: | $(GEN)/service.inc

# ------------------------------------------------------------------ tests
# A unit test is test/unit/t_<module>.c with its own main(). It is linked with libredisq.a and, where
# it includes a header below supervisor/ or worker/, with that program's modules.
UNIT := $(patsubst test/unit/%.c,%,$(wildcard test/unit/t_*.c))
UNIT_BIN := $(addprefix $(OUT)/unit/,$(UNIT))
uses = $(patsubst test/unit/%.c,$(OUT)/unit/%,$(shell grep -lE '^\#include "(\.\./\.\./)?$(1)/[a-z_]+\.h"' test/unit/t_*.c 2>/dev/null))

$(OUT)/unit/libsupervisor.a: $(filter-out %/main.o,$(SUPERVISOR_O))
$(OUT)/unit/libworker.a: $(filter-out %/main.o,$(WORKER_O))
$(OUT)/unit/libctl.a: $(filter-out %/main.o,$(CTL_O))
$(OUT)/unit/lib%.a:
	@mkdir -p $(@D) && rm -f $@
	$(Q)$(call say,AR,$@)$(AR) rcs $@ $^
$(call uses,supervisor): $(OUT)/unit/libsupervisor.a
$(call uses,worker): $(OUT)/unit/libworker.a
$(call uses,supervisor/ctl): $(OUT)/unit/libctl.a

$(OBJ)/test/%.o: CPPFLAGS += -I.
$(OUT)/unit/t_%: $(OBJ)/test/unit/t_%.o $(OUT)/libredisq.a
	@mkdir -p $(@D)
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$(filter-out %/libredisq.a,$^)) \
		$(OUT)/libredisq.a -lcmocka $(LDLIBS)

# make unit            all of them          make unit T="t_conf t_buf"        some
unit: $(if $(T),$(addprefix $(OUT)/unit/,$(T)),$(UNIT_BIN))
	@sh test/unit/run $^

# Their servers speak TLS. The module is looked for beside the program.
TLS_TESTS := $(addprefix $(OUT)/unit/,t_rconn_tls t_tls_trust)
$(TLS_TESTS): LDLIBS += -lssl -lcrypto
$(TLS_TESTS) $(OUT)/unit/t_conf_read: | $(OUT)/unit/redisq-tls.so
$(OUT)/unit/redisq-tls.so: $(OUT)/redisq-tls.so
	@mkdir -p $(@D) && ln -sf ../redisq-tls.so $@

# The handler of the integration tests is never sanitized: it is started thousands of times.
$(OUT)/fake-handler: test/integration/fake_handler.c
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 -o $@ $<
$(OUT)/fake-worker: $(OBJ)/test/integration/fake_worker.o $(OUT)/libredisq.a
	$(Q)$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# Goes into any program, sanitized or not, by LD_PRELOAD.
$(OUT)/clock-shim.so: test/integration/clock_shim.c
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 -fPIC -shared -o $@ $<
# Library handlers are sanitized as the worker is. The second is of a version that does not exist.
FAKE_LIBRARY = $(CC) $(CPPFLAGS) $(filter-out -fPIE,$(CFLAGS)) -Iworker -fPIC -shared \
	$(filter -fsanitize=%,$(LDFLAGS)) -o $@ $<
$(OUT)/fake-library.so: test/integration/fake_library.c worker/redisq_handler.h
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(FAKE_LIBRARY)
$(OUT)/fake-library-99.so: test/integration/fake_library.c worker/redisq_handler.h
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(FAKE_LIBRARY) -DFAKE_ABI=99
$(OUT)/fake-pipe: test/integration/fake_pipe.c
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 -o $@ $< -ljansson

# The benchmark's clients and handlers, never sanitized either.
BENCH := $(OUT)/bench
BENCH_TOOLS := $(addprefix $(BENCH)/,ceiling floor load noop_exec noop_pipe noop_so.so pace spawnloop)
$(BENCH)/%: test/bench/%.c $(wildcard test/bench/*.h)
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O2 -o $@ $< -lhiredis
$(BENCH)/%.so: test/bench/%.c $(wildcard test/bench/*.h) worker/redisq_handler.h
	@mkdir -p $(@D)
	$(Q)$(call say,CC,$<)$(CC) -std=c11 -D_GNU_SOURCE -Iworker $(WARN) -O2 -fPIC -shared -o $@ $<
$(BENCH)/npm: test/bench/package.json
	@mkdir -p $(@D) && cp $< $(@D)
	$(Q)$(call say,NPM,$(@D))cd $(@D) && npm install --silent --no-audit --no-fund && touch npm
# make bench ROWS=so,ceiling N=20000 RUNS=5 SHORT=1       see test/bench/bench.py
bench:
	@sh etc/install-deps $(if $(shell command -v npm),,nodejs npm)
	@$(MAKE) --no-print-directory -s all $(BENCH_TOOLS) $(BENCH)/npm
	@RUNS=$(RUNS) N=$(N) SHORT=$(SHORT) /usr/bin/python3 test/bench/bench.py $(OUT) $(ROWS)

TOOLS := $(BENCH_TOOLS) $(OUT)/fake-library.so $(OUT)/fake-library-99.so $(OUT)/fake-handler $(OUT)/fake-pipe $(OUT)/clock-shim.so \
	$(if $(wildcard test/integration/fake_worker.c),$(OUT)/fake-worker)
tools: $(TOOLS)

# make integration T=test/integration/test_drain.py     on the programs of this VARIANT
integration: all tools
	REDISQ_BUILD=$(abspath $(OUT)) /usr/bin/python3 -m pytest -q $(or $(T),test/integration)

# make figures         how fast, how soon, how much memory; on the release programs, on a quiet machine
FIGURES := $(addprefix test/integration/test_figures_,$(addsuffix .py,cluster poison redis tls))
figures: all tools
	@REDISQ_BUILD=$(abspath $(OUT)) /usr/bin/python3 -m pytest -q -s -p no:xdist --no-header --tb=short \
		-m figures $(or $(T),$(FIGURES))

# make tsan            what runs in threads, under the thread sanitizer
ifeq ($(VARIANT),tsan)
tsan: all tools
	@$(MAKE) --no-print-directory VARIANT=tsan unit T="t_so_pool t_so_run"
	@REDISQ_BUILD=$(abspath $(OUT)) /usr/bin/python3 -m pytest -q test/integration/test_so.py
else
tsan:
	@$(MAKE) --no-print-directory VARIANT=tsan tsan
endif

# make chaos SECONDS=120 SEED=7 [VARIANT=release]
chaos:
ifeq ($(origin VARIANT),file)
	@$(MAKE) --no-print-directory VARIANT=asan chaos
else
	@$(MAKE) --no-print-directory -s all tools
	@REDISQ_BUILD=$(abspath $(OUT)) nice /usr/bin/python3 test/chaos/chaos.py \
		--seconds $(if $(filter file,$(origin SECONDS)),120,$(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)
endif

# make matrix SERVERS="redis-6.0 valkey-9" T="..."      see test/matrix/run
matrix:
	@$(MAKE) --no-print-directory -s VARIANT=asan all tools
	@SERVERS="$(SERVERS)" T="$(T)" /usr/bin/python3 test/matrix/run

test:
	@sh test/run
run:
	@sh etc/run-demo

# make model            the protocol's model, checked by spin; make model SHORT=1 for CI
model:
	@SHORT=$(SHORT) OUT=$(abspath build) sh test/model/run

# make fuzz SECONDS=60        every test/fuzz/fuzz_*.c, from its corpus; needs clang
SECONDS ?= 60
FUZZ := $(patsubst test/fuzz/fuzz_%.c,%,$(wildcard test/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out common/gen_docs.c,$(wildcard common/conf*.c)) \
	$(addprefix common/,buf.c cpus.c crc16.c env.c err.c fds.c jtext.c keys.c partition.c paths.c percent.c readfile.c redis_url.c spawn.c suggest.c users.c) \
	$(addprefix worker/,answer.c exec_exit.c fields.c group.c reply.c task.c)
$(OUT)/fuzz/%: test/fuzz/fuzz_%.c $(FUZZ_SRC)
	@mkdir -p $(@D)
	$(Q)$(call say,LD,$@)clang $(CPPFLAGS) -I. -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -o $@ $^ -linih -lhiredis -ljansson
fuzz: $(addprefix $(OUT)/fuzz/,$(FUZZ))
	@for f in $(FUZZ); do mkdir -p $(OUT)/fuzz/corpus-$$f && $(OUT)/fuzz/$$f -max_total_time=$(SECONDS) \
		-artifact_prefix=$(OUT)/fuzz/ -verbosity=0 -print_final_stats=1 \
		$(OUT)/fuzz/corpus-$$f test/fuzz/corpus/$$f || exit 1; done

# ------------------------------------------------------------------ checks without running
C_FILES := $(sort $(wildcard common/*.c supervisor/*.c supervisor/ctl/*.c worker/*.c))

lint:
	@/usr/bin/python3 test/lint/floors.py
	@/usr/bin/python3 test/lint/sizes.py
	@/usr/bin/python3 test/lint/sleeps.py
	@if command -v clang-format >/dev/null; then clang-format --dry-run -Werror \
		$(wildcard common/*.[ch] supervisor/*.[ch] supervisor/ctl/*.[ch] worker/*.[ch] \
		test/unit/*.[ch] test/integration/*.c test/bench/*.[ch]); fi

# After "all": headers generated from the sources must exist before anything reads them.
cppcheck: all
	@CPPFLAGS="$(CPPFLAGS)" sh test/lint/cppcheck $(C_FILES)
clang-tidy: all
	@CPPFLAGS="$(CPPFLAGS)" sh test/lint/clang-tidy $(C_FILES)
check-static: lint docs-check cppcheck clang-tidy

valgrind: $(UNIT_BIN)
	@WRAP="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite" sh test/unit/run $^

# ------------------------------------------------------------------ install
DOC := $(DESTDIR)$(PREFIX)/share/doc/redisq
MAN := $(DESTDIR)$(PREFIX)/share/man
MAN8 := $(wildcard supervisor/*.8 worker/*.8)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DOC)/handlers $(MAN)/man1 $(MAN)/man5 $(MAN)/man8 \
		$(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
ifneq ($(TLS_MODULE),)
	install -d $(DESTDIR)$(PREFIX)/lib/redisq
	install -m 644 $(TLS_MODULE) $(DESTDIR)$(PREFIX)/lib/redisq
endif
	install -d $(DESTDIR)$(PREFIX)/include
	install -m 644 worker/redisq_handler.h $(DESTDIR)$(PREFIX)/include
	install -m 644 README.md LICENSE etc/redisq.ini worker/protocol.txt supervisor/control.txt $(DOC)
	cp -R etc/handlers/. $(DOC)/handlers && chmod -R u=rwX,go=rX $(DOC)/handlers
	install -m 644 supervisor/ctl/redisqctl.1 $(MAN)/man1
	install -m 644 common/redisq.ini.5 $(MAN)/man5
	install -m 644 $(MAN8) $(MAN)/man8
	sed 's|@PREFIX@|$(PREFIX)|g' etc/redisq-supervisor.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/redisq-supervisor.service

# What install puts there, and nothing else: no configuration, state or logs.
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(notdir $(PROGRAMS))) $(MAN)/man1/redisqctl.1 \
		$(MAN)/man5/redisq.ini.5 $(addprefix $(MAN)/man8/,$(notdir $(MAN8))) \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/redisq-supervisor.service
	rm -f $(DESTDIR)$(PREFIX)/include/redisq_handler.h
	rm -f $(DESTDIR)$(PREFIX)/lib/redisq/redisq-tls.so
	-rmdir $(DESTDIR)$(PREFIX)/lib/redisq 2>/dev/null
	rm -rf $(DOC)

clean:
	rm -rf build

.PHONY: all bench clean docs docs-check unit tools integration figures fuzz test chaos matrix run model lint cppcheck clang-tidy \
	check-static valgrind install uninstall
.PRECIOUS: $(OBJ)/%.o
-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
