// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What sharing data between CPUs costs: a cache line of the scheduler's variables or map values
 * must be transferred if another core has it.
 *
 * Caches are coherent. Reading a line that another core wrote after this core last had it costs a
 * transfer, by the distance to the writer; then both have it. Writing takes the line from all
 * others: an atomic operation waits for that, a plain store does not (store buffer). A line that
 * no other core has costs nothing extra: caches have no size limit. SMT siblings share a cache.
 *
 * Part of every object, like runtime.c: the prelude looks here before each memory access. The
 * engine (sim/src/lines.rs) owns the tables.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

/* As in runtime.c: before the scheduler's variables. */
#define OWN		__attribute__((section(".data.rel.ro.tilt")))
/* For rare calls, out of line: the callee saves the registers, so callers need not. */
#define KEEPS_REGISTERS __attribute__((preserve_most, noinline))

#define LINE_BYTES	64

/* Bits of `how`, as in tilt_access. */
enum { WRITE = 1, UPDATE = 4 };

/* Bits 0 to 62 of a word: cores. EXCLUSIVE: the one core set wrote the line; no other has it. */
#define CORES_PER_WORD 63
#define EXCLUSIVE      (1ull << CORES_PER_WORD)

/* The prelude and the loader (native/src/lines.rs) depend on the order of the fields. */
struct tilt_lines {
	/*
	 * Own variables, then values of maps. Pointers are to where line 0 would be: lines are
	 * found by their numbers.
	 */
	struct tilt_range {
		u64 first, nr;
		/* For each line, the word with the running core's bit. */
		u64 *holders;
		/* Words of cores 0 to 62, one per line; then those of the next 63 cores, .. */
		u64 *rows;
		/* Number of the core that last wrote the line, plus 1; 0 if none has. */
		u32 *writers;
	} own, values;
	/* How many lines `values` may grow to. No core has a line beyond `nr`. */
	u64 reserved;
	/* The running core's bit, alone and with EXCLUSIVE. */
	u64 here, owner;
	u32 core;
	/* As in `writers`. */
	u32 writer;
	/* Words per line. */
	u64 nr_words;
	/* Last-level cache and node of each core. */
	const u32 (*places)[2];
	u64 llc_ns, near_ns, far_ns;
	/* Makes room for a line among the values. */
	void (*grow)(void *engine, u64 line);
};

/* Set by the loader for one core, or by the engine, also when the core changes. */
OWN struct tilt_lines tilt_lines;
/* Time spent waiting for lines since the engine last reset this. */
OWN u64 tilt_waited_ns;

extern __attribute__((visibility("hidden"))) void *tilt_engine;

/* Null if the line has no room yet (a map value) or is not the scheduler's data. */
static const struct tilt_range *range_of(u64 line)
{
	const struct tilt_range *own = &tilt_lines.own, *values = &tilt_lines.values;

	if (line - own->first < own->nr)
		return own;
	return line - values->first < values->nr ? values : 0;
}

static int is_here(u64 line, u64 how)
{
	const struct tilt_range *range = range_of(line);
	u64 holders;

	if (!range)
		return line - tilt_lines.values.first >= tilt_lines.reserved;
	holders = range->holders[line];
	return how & WRITE ? holders == tilt_lines.owner : (holders & tilt_lines.here) != 0;
}

static u64 *word_of(const struct tilt_range *range, u64 line, u32 core)
{
	return &range->rows[core / CORES_PER_WORD * range->nr + line];
}

static u64 distance_ns(u32 other)
{
	const u32 *there = tilt_lines.places[other], *here = tilt_lines.places[tilt_lines.core];

	if (there[0] == here[0])
		return tilt_lines.llc_ns;
	return there[1] == here[1] ? tilt_lines.near_ns : tilt_lines.far_ns;
}

/* How long until the furthest other core that has the line gives it up. */
static KEEPS_REGISTERS u64 others_ns(const struct tilt_range *range, u64 line)
{
	int has = (range->holders[line] & tilt_lines.here) != 0;
	u32 writer = range->writers[line];
	u64 most_ns = 0, ns, word;

	if (!has && writer)
		most_ns = distance_ns(writer - 1);
	for (word = 0; word < tilt_lines.nr_words; word++) {
		u64 left = range->rows[word * range->nr + line] & ~EXCLUSIVE;

		for (; left; left &= left - 1) {
			u32 core = word * CORES_PER_WORD + __builtin_ctzll(left);

			if (core == tilt_lines.core)
				continue;
			ns = distance_ns(core);
			if (ns > most_ns)
				most_ns = ns;
		}
	}
	return most_ns;
}

/* All others give it up. */
static KEEPS_REGISTERS void clear_words(const struct tilt_range *range, u64 line)
{
	u64 word;

	for (word = 0; word < tilt_lines.nr_words; word++)
		range->rows[word * range->nr + line] = 0;
}

/* Gets the line from its last writer, if any, which no longer has it alone. */
static void read_line(const struct tilt_range *range, u64 line)
{
	u32 writer = range->writers[line];

	range->holders[line] = (range->holders[line] | tilt_lines.here) & ~EXCLUSIVE;
	if (!writer)
		return;
	if (tilt_lines.nr_words > 1)
		*word_of(range, line, writer - 1) &= ~EXCLUSIVE;
	tilt_waited_ns += distance_ns(writer - 1);
}

/* Takes the line from all others: without waiting, into the store buffer. */
static void write_line(const struct tilt_range *range, u64 line)
{
	if (tilt_lines.nr_words > 1)
		clear_words(range, line);
	range->holders[line] = tilt_lines.owner;
	range->writers[line] = tilt_lines.writer;
}

static KEEPS_REGISTERS void make_room(u64 line)
{
	tilt_lines.grow(tilt_engine, line);
}

/*
 * What follows fetches a line: the core does not have it, or it writes and other cores may have the
 * line.
 */

KEEPS_REGISTERS void tilt_fetch_line(u64 line, u64 how)
{
	const struct tilt_range *range = range_of(line);

	if (!range) {
		make_room(line);
		range = &tilt_lines.values;
	}
	/* An atomic operation waits. */
	if (how & UPDATE)
		tilt_waited_ns += others_ns(range, line);
	if (how & WRITE)
		write_line(range, line);
	else
		read_line(range, line);
}

/* Of the scheduler's variables. */
KEEPS_REGISTERS void tilt_read_own(u64 line)
{
	read_line(&tilt_lines.own, line);
}

/* By a plain store. */
KEEPS_REGISTERS void tilt_write_own(u64 line)
{
	write_line(&tilt_lines.own, line);
}

/* The engine is about to access a word of one line for the code. */
void tilt_touch_word(u64 address, u64 how)
{
	u64 line = address / LINE_BYTES;

	if (!is_here(line, how))
		tilt_fetch_line(line, how);
}

/* The code is about to access memory. */
void tilt_touch_lines(u64 address, u64 bytes, u64 how)
{
	u64 line = address / LINE_BYTES, end = (address + bytes + LINE_BYTES - 1) / LINE_BYTES;

	for (; line < end; line++)
		if (!is_here(line, how))
			tilt_fetch_line(line, how);
}
