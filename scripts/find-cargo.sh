#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Prints the cargo that the Makefile uses; just "cargo" where none is new enough, so that make
# can still say what is wrong.
. "$(dirname "$0")/lib.sh"
find_cargo || echo cargo
