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
};

/* Calls nest: an op calls a kfunc, which runs a timer or a bpf_loop callback. */
struct tilt_frame {
	void *jump[5];
	struct tilt_frame *outer;
};

/* Hidden first argument of every kfunc and helper. */
void *tilt_engine;
/* IR instructions executed so far, in calls that have returned. */
u64 tilt_work;
/* What one outermost call may execute; set by the loader. */
u64 tilt_call_limit;
/* Loops give up when tilt_work is beyond this. */
u64 tilt_work_limit;
/* Innermost guarded call, null outside the scheduler. */
struct tilt_frame *tilt_top;
/* What a kernel struct looks like behind a null pointer: the kernel, too, reads zeroes there.
 * Stores fault. */
const char tilt_zero_page[4096] __attribute__((aligned(4096))) = {0};

static int tilt_status;

/*
 * Calls entry(a, b, c). Returns a tilt_status, and the value in *result if it is TILT_RETURNED.
 * The one exported symbol: the loader finds where the object lies by it.
 */
__attribute__((visibility("default"))) int tilt_call(u64 (*entry)(u64, u64, u64), u64 a, u64 b,
						     u64 c, u64 *result)
{
	struct tilt_frame frame;

	frame.outer = tilt_top;
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
	tilt_status = status;
	__builtin_longjmp(frame->jump, 1);
}

/* The rewriter's loop headers come here when the work limit is passed. */
__attribute__((noreturn)) void tilt_runaway(void)
{
	tilt_unwind(TILT_RUNAWAY);
}
