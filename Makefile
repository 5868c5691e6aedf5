# A thin front over Meson and Ninja; everything lands in build/.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all demo check gpu-check gpu-soak bench install clean

all:
	@tools/deps.sh build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix=$(PREFIX)
	@ninja -C $(BUILD)
	@tools/layout.sh $(BUILD)

demo: all
	@tools/demo.sh $(BUILD)

check:
	@tools/deps.sh check
	@tools/check.py $(BUILD)

gpu-check: all
	@tests/gpu/run.sh $(BUILD)

gpu-soak: all
	@tests/gpu/soak.py $(BUILD)

bench: all
	@tests/bench/run.sh $(BUILD)

install: all
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@ninja -C $(BUILD)
	DESTDIR=$(abspath $(DESTDIR)) meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD)
