// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of a scheduler object that is the same for every scheduler: what the rewritten IR refers
 * to, and the way into it and, when it crashes, back out. Compiled for the host without a C
 * library.
 */
typedef unsigned long long u64;

enum tilt_status {
	TILT_RETURNED = 0,
	TILT_FAULT = 1,
	TILT_RUNAWAY = 2,
	TILT_OUTSIDE = 3,
};

/* Calls nest: an op calls a kfunc, which runs a timer or a bpf_loop callback. */
struct tilt_frame {
	void *jump[5];
	char *stack;
	struct tilt_frame *outer;
};

/*
 * What follows is not the scheduler's: it lies before all of the scheduler's variables, so that
 * these and the stack below are one range of addresses, outside of which nothing may be written.
 */
#define OWN __attribute__((section(".data.rel.ro.tilt")))

/* Hidden first argument of every kfunc and helper. */
OWN void *tilt_engine;
/* IR instructions executed so far, in calls that have returned. */
OWN u64 tilt_work;
/* What one outermost call may execute; set by the loader. */
OWN u64 tilt_call_limit;
/* Loops give up when tilt_work is beyond this. */
OWN u64 tilt_work_limit;
/* Innermost guarded call, null outside the scheduler. */
OWN struct tilt_frame *tilt_top;
/* What a kernel struct looks like behind a null pointer: the kernel, too, reads zeroes there.
 * Stores fault. */
const char tilt_zero_page[4096] __attribute__((aligned(4096))) = {0};

OWN static int tilt_status;

/* Line of the source that is being executed, as far as calls of the kernel and unchecked reads
 * record it. */
OWN volatile unsigned tilt_place;
/* The variables of the scheduler and the values of its maps; set by the loader. */
OWN u64 tilt_own_start;
OWN u64 tilt_own_bytes;
OWN u64 tilt_maps_start;
OWN u64 tilt_maps_bytes;
/* How far into each range a value may begin: all of it must lie inside. */
OWN u64 tilt_own_short;
OWN u64 tilt_maps_short;
/* The access that was refused, and how far from the start of its variable it was. */
OWN unsigned tilt_refused;
OWN u64 tilt_offset;

/*
 * Local variables whose address other functions get. Not on the host's stack: what writes beyond
 * them finds neither return addresses nor the engine's frames. A BPF program has 8 frames of 512
 * bytes; optimised code for the host may need more.
 */
#define STACK_BYTES 65536
static char tilt_stack[STACK_BYTES] __attribute__((aligned(64)));
OWN char *tilt_sp = tilt_stack;

/*
 * Calls entry(a, b, c). Returns a tilt_status, and the value in *result if it is TILT_RETURNED.
 * The one exported symbol: the loader finds where the object lies by it.
 */
__attribute__((visibility("default"))) int tilt_call(u64 (*entry)(u64, u64, u64), u64 a, u64 b,
						     u64 c, u64 *result)
{
	struct tilt_frame frame;

	frame.outer = tilt_top;
	frame.stack = tilt_sp;
	if (__builtin_setjmp(frame.jump))
		return tilt_status;
	if (!frame.outer && __builtin_add_overflow(tilt_work, tilt_call_limit, &tilt_work_limit))
		tilt_work_limit = ~0ull;
	tilt_top = &frame;
	*result = entry(a, b, c);
	tilt_top = frame.outer;
	return TILT_RETURNED;
}

/* Leaves the innermost guarded call. Also called by the loader's signal handler. */
__attribute__((noreturn)) void tilt_unwind(int status)
{
	struct tilt_frame *frame = tilt_top;

	tilt_top = frame->outer;
	tilt_sp = frame->stack;
	tilt_status = status;
	__builtin_longjmp(frame->jump, 1);
}

/* The rewriter's loop headers come here when the work limit is passed. */
__attribute__((noreturn)) void tilt_runaway(void)
{
	tilt_unwind(TILT_RUNAWAY);
}

/* An access that would leave what it belongs to. */
__attribute__((noreturn)) void tilt_outside(u64 offset, unsigned access)
{
	tilt_offset = offset;
	tilt_refused = access;
	tilt_unwind(TILT_OUTSIDE);
}

/* Room for the local variables of one call of a function; given back when it returns. */
char *tilt_frame(u64 bytes, unsigned access)
{
	char *start = tilt_sp;

	if (bytes > (u64)(tilt_stack + STACK_BYTES - start))
		tilt_outside(bytes, access);
	tilt_sp = start + ((bytes + 15) & ~15ull);
	return start;
}

void tilt_leave(char *start)
{
	tilt_sp = start;
}
