/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a scheduler knows of the machine, by its presets.toml: see docs/reference/presets.md.
 */
#ifndef __LIB_MACHINE_H
#define __LIB_MACHINE_H

#include "kernel.h"

/* By CPU number: equal numbers share a core, a last-level cache, a NUMA node. All zero: the machine
 * is one group. */
const volatile u32 cpu_core_id[MAX_CPUS];
const volatile u32 cpu_llc_id[MAX_CPUS];
const volatile u32 cpu_node_id[MAX_CPUS];

#endif
