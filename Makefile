# SPDX-License-Identifier: GPL-2.0-or-later
# The commands of CONTRIBUTING.md. Everything else is cargo's.

PREFIX ?= /usr/local
CARGO  ?= $(shell scripts/find-cargo.sh)
# libbpf's own makefile, which cargo runs, must not see this make's variables: with its DESTDIR it
# would install itself there.
CLEAN_ENV = env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u DESTDIR -u PREFIX
TARGET = $(or $(CARGO_TARGET_DIR),target)
TILTYARD = $(TARGET)/release/tiltyard
OUT    = tiltyard-out

help:
	@echo "make demo      install missing packages, build, run ULE against CFS on fibo + sysbench"
	@echo "make figure6   Figure 6 of the ATC'18 paper (threads per core), simulated and in real kernels with 32 emulated CPUs"
	@echo "make test      install missing packages, lint, run all tests"
	@echo "make league    all schedulers on many workloads and machines: who wins what, as a table and a page"
	@echo "make claims    re-evaluate all claims: verdicts, specificity, presets, mutations, sensitivity; write the pages"
	@echo "make bench     the speed of Tiltyard itself"
	@echo "make fmt lint  format the sources; check format and clippy"
	@echo "make install   to $(PREFIX) (PREFIX=..., DESTDIR=...)"

demo: setup
	@$(MAKE) --no-print-directory run-demo

run-demo: build
	@mkdir -p $(OUT)
	$(TILTYARD) run -w fibo-sysbench-1c -s ule,cfs --report $(OUT)/fibo-sysbench-1c.html

# Figure 6 of "The Battle of the Schedulers", simulated and in a real kernel.
figure6: build
	scripts/figure6.sh $(TILTYARD) $(OUT)

# The campaign that is shipped: a few minutes on two cores.
league: build
	@mkdir -p $(OUT)
	$(TILTYARD) league --report $(OUT)/league.html

test: setup-test
	@$(MAKE) --no-print-directory run-tests

run-tests:
	scripts/tests.sh
	$(CLEAN_ENV) scripts/lint.sh
	$(CLEAN_ENV) scripts/cargo-tests.sh

build:
	$(CLEAN_ENV) $(CARGO) build --locked --release -p tiltyard

# Re-evaluates published claims and regenerates the pages about them.
claims: build
	scripts/claims.sh

bench: build
	$(CLEAN_ENV) $(CARGO) run --locked --release -p tiltyard-bench

fmt:
	$(CARGO) fmt --all

lint:
	$(CLEAN_ENV) scripts/lint.sh

setup:
	@scripts/setup.sh

setup-test:
	@scripts/setup.sh test

# Headers that schedulers include are laid out by the build of crates/build.
HEADERS = $(shell ls -td $(TARGET)/release/build/tiltyard-build-*/out/headers 2>/dev/null | head -n 1)
SHARE   = $(DESTDIR)$(PREFIX)/share

# Under sudo there is no Rust of the user's, so what the user has built is installed.
install: $(if $(SUDO_USER),$(TILTYARD),build)
	install -D -m 755 $(TILTYARD) $(DESTDIR)$(PREFIX)/bin/tiltyard
	install -d $(SHARE)/tiltyard
	cp -R schedulers workloads machines campaigns applications experiments fidelity $(HEADERS) $(SHARE)/tiltyard/
	install -d $(SHARE)/man/man1
	$(TILTYARD) man --dir $(SHARE)/man/man1
	$(TILTYARD) completions bash | install -D -m 644 /dev/stdin $(SHARE)/bash-completion/completions/tiltyard
	$(TILTYARD) completions zsh | install -D -m 644 /dev/stdin $(SHARE)/zsh/site-functions/_tiltyard
	$(TILTYARD) completions fish | install -D -m 644 /dev/stdin $(SHARE)/fish/vendor_completions.d/tiltyard.fish

$(TILTYARD):
	@echo "$@ does not exist: first run make build, without sudo" >&2; exit 1

.PHONY: help demo run-demo figure6 league test run-tests build claims bench fmt lint setup setup-test install
