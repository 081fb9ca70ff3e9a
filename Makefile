# The front door. Meson does the work underneath (folder $(BUILD)); each line here is one thing to do with the house.
#
#   make            build                             make asan|ubsan|tsan  the whole test suite under a sanitizer
#   make run        build, then serve until Ctrl-C    make fuzz             every parser's fuzzer, FUZZ_SECONDS each
#   make tour       build, then the guided tour       make torture          kill -9, power cuts, bit flips, faults: in full
#   make test       every test, `N passed, N failed`  make bench            the table of budgets against the peers
#   make check      format, tidy, layers              make bench-growth     cost against keys and commits, as SVG
#   make format     rewrite to the house format       make clean            remove every build folder
#   make install    DESTDIR= PREFIX=/usr/local        make walk             how far a request walks through the house
#   make test-all   test, walk-check and torture      make walk-check       fails if a walk has grown by more than a tenth
#
# make run takes PORT=7373 and HOME_DIR=.perdure-run, where its state stays; make clean leaves that alone.
# run, tour, test, bench, check, fuzz and the sanitizers install the Debian packages that are missing (tools/deps); make alone never does.

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
FUZZ_SECONDS ?= 60
JOBS ?= 2
BENCH_ARGS ?=
PORT ?= 7373
HOME_DIR ?= .perdure-run

NINJA = meson compile -C
SETUP = tools/configure

.DEFAULT_GOAL := build
.PHONY: build run tour test check format bench bench-growth walk walk-check test-all asan ubsan tsan fuzz torture install clean

build:
	@tools/deps --check build
	@$(SETUP) $(BUILD)
	@$(NINJA) $(BUILD)

run:
	@tools/deps build
	@$(SETUP) $(BUILD)
	@$(NINJA) $(BUILD)
	@PORT='$(PORT)' HOME_DIR='$(HOME_DIR)' tools/run $(BUILD)/cmd/perdure/perdure

tour:
	@tools/deps build
	@$(SETUP) $(BUILD)
	@$(NINJA) $(BUILD)
	@tools/tour $(BUILD)/cmd/perdure/perdure

test:
	@tools/deps build test
	@$(SETUP) $(BUILD)
	@$(NINJA) $(BUILD)
	@tools/run-tests $(BUILD) --num-processes $(JOBS)

# What takes too long for every change: with the walks and the torture.
test-all: test walk-check torture

check:
	@tools/deps check
	@tools/format --check
	@tools/tidy
	@tools/layers

format:
	@tools/deps check
	@tools/format

asan ubsan tsan:
	@tools/deps build
	@tools/sanitize $@ build-$@ --num-processes $(JOBS)

fuzz:
	@tools/deps build fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz build-fuzz

torture:
	@tools/deps build
	@$(SETUP) $(BUILD)
	@$(NINJA) $(BUILD)
	@PERDURE_TORTURE=full tools/run-tests $(BUILD) --suite crash --timeout-multiplier 40 --num-processes $(JOBS)

bench:
	@tools/deps build bench
	@$(SETUP) build-bench
	@$(NINJA) build-bench perdure-bench
	@bench/langgraph/install build-bench/bench/npm || true # its row says so, then
	@build-bench/bench/perdure-bench $(BENCH_ARGS)

bench-growth:
	@tools/deps build bench
	@$(SETUP) build-bench
	@$(NINJA) build-bench bench-growth bench-threads
	@bench/langgraph/install build-bench/bench/npm
	@build-bench/bench/bench-growth $(BENCH_ARGS)
	@build-bench/bench/bench-threads

# walk writes the numbers into docs/walks.md; walk-check fails if a walk has grown by more than a tenth since they were written.
walk walk-check:
	@tools/deps build walk
	@$(SETUP) build-walk -Dbuildtype=debugoptimized -Dwerror=false \
	  -Dc_args='-finstrument-functions -fno-inline -fno-builtin-memcpy -fno-builtin-memmove'
	@ninja -C build-walk cmd/perdure/perdure
	@$(CC) -std=gnu17 -D_GNU_SOURCE -O1 -g -shared -fPIC -fno-builtin -fno-tree-loop-distribute-patterns -Wall -Wextra -Werror \
	  -o build-walk/recorder.so tools/walk/recorder.c
	@python3 tools/walk/walk.py build-walk/cmd/perdure/perdure build-walk/recorder.so --json build-walk/walks.json \
	  $(if $(filter walk-check,$@),--check,--write) docs/walks.md

install:
	@tools/deps --check build
	@$(SETUP) $(BUILD) -Dprefix=$(PREFIX) -Dlibdir=$(LIBDIR)
	@$(NINJA) $(BUILD)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi # else programs do not find the library

clean:
	rm -rf build build-asan build-ubsan build-tsan build-fuzz build-bench build-walk
