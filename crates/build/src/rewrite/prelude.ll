; SPDX-License-Identifier: GPL-2.0-or-later
; What rewritten code calls. Everything here is inlined, at -O0 too.

@tilt_engine = external hidden global ptr
@tilt_work = external hidden global i64
@tilt_work_limit = external hidden global i64
@tilt_place = external hidden global i32
@tilt_own_start = external hidden global i64
@tilt_own_bytes = external hidden global i64
@tilt_own_short = external hidden global i64
@tilt_maps_start = external hidden global i64
@tilt_maps_bytes = external hidden global i64
@tilt_maps_short = external hidden global i64
@tilt_lines = external hidden global [20 x i64]
@tilt_zero_page = external hidden constant [4096 x i8]

declare hidden void @tilt_runaway() #1
declare hidden void @tilt_outside(i64, i32) #1
declare hidden ptr @tilt_frame(i64, i32)
declare hidden void @tilt_leave(ptr)
declare hidden void @tilt_touch_lines(i64, i64, i64)
; Keeps the registers of who calls it, which need not be saved where it is hardly ever called.
declare hidden preserve_mostcc void @tilt_fetch_line(i64, i64) #3
declare hidden preserve_mostcc void @tilt_read_own(i64) #3
declare hidden preserve_mostcc void @tilt_write_own(i64) #3
declare void @llvm.trap() #1
; With a 64-bit length it may be the scheduler's, too, and be declared there.
declare void @llvm.memset.p0.i32(ptr, i8, i32, i1 immarg)
declare i1 @llvm.expect.i1(i1, i1)

; A basic block of %insns instructions is about to run. Each call of a function counts its own, in a register.
define internal void @tilt_count(ptr %work, i64 %insns) #0 {
  %old = load i64, ptr %work
  %new = add i64 %old, %insns
  store i64 %new, ptr %work
  ret void
}

; The same at the head of a loop, where a scheduler that runs for ever comes by; %place: its line, as in tilt_place.
define internal void @tilt_count_loop(ptr %work, i64 %insns, i32 %place) #0 {
  %old = load i64, ptr %work
  %new = add i64 %old, %insns
  store i64 %new, ptr %work
  %before = load i64, ptr @tilt_work
  %all = add i64 %before, %new
  %limit = load i64, ptr @tilt_work_limit
  %over = icmp ugt i64 %all, %limit
  br i1 %over, label %stop, label %go
stop:
  store i64 %all, ptr @tilt_work
  store volatile i32 %place, ptr @tilt_place
  call void @tilt_runaway()
  unreachable
go:
  ret void
}

; An access of %bytes bytes, aligned to its size, in a variable; %how as in tilt_access. Indices count the words of
; tilt_lines (lines.c): own variables start at 0, values of maps at 5; reserved 10, here 11, owner 12. What is the same
; during a callback, which is all that a function can see, is "invariant", so that it may stay in a register.
define internal void @tilt_touch_own(ptr %pointer, i64 %bytes, i64 %how) #0 {
  %all = load ptr, ptr getelementptr (i64, ptr @tilt_lines, i64 2), !invariant.load !{}
  %address = ptrtoint ptr %pointer to i64
  %line = lshr i64 %address, 6
  %here = call i1 @tilt_is_here(ptr %all, i64 %line, i64 %how)
  br i1 %here, label %go, label %fetch
fetch:
  switch i64 %how, label %update [i64 0, label %load
                                  i64 1, label %store]
load:
  call preserve_mostcc void @tilt_read_own(i64 %line)
  br label %go
store:
  call preserve_mostcc void @tilt_write_own(i64 %line)
  br label %go
update:
  call preserve_mostcc void @tilt_fetch_line(i64 %line, i64 %how)
  br label %go
go:
  ret void
}

; The same in what is no variable: a value of a map, or nothing that has lines.
define internal void @tilt_touch_value(ptr %pointer, i64 %bytes, i64 %how) #0 {
  %address = ptrtoint ptr %pointer to i64
  %line = lshr i64 %address, 6
  call void @tilt_touch_value_line(i64 %line, i64 %how)
  ret void
}

define internal void @tilt_touch_value_line(i64 %line, i64 %how) #0 {
  %first = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 5)
  %at = sub i64 %line, %first
  %nr = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 6)
  %is.value = icmp ult i64 %at, %nr
  br i1 %is.value, label %look, label %neither
neither:
  %reserved = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 10)
  %is.new = icmp ult i64 %at, %reserved
  br i1 %is.new, label %fetch, label %go
look:
  %all = load ptr, ptr getelementptr (i64, ptr @tilt_lines, i64 7)
  %here = call i1 @tilt_is_here(ptr %all, i64 %line, i64 %how)
  br i1 %here, label %go, label %fetch
fetch:
  call preserve_mostcc void @tilt_fetch_line(i64 %line, i64 %how)
  br label %go
go:
  ret void
}

; The same anywhere.
define internal void @tilt_touch(ptr %pointer, i64 %bytes, i64 %how) #0 {
  %all = load ptr, ptr getelementptr (i64, ptr @tilt_lines, i64 2), !invariant.load !{}
  %address = ptrtoint ptr %pointer to i64
  %line = lshr i64 %address, 6
  %first = load i64, ptr @tilt_lines
  %at = sub i64 %line, %first
  %nr = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 1)
  %is.own = icmp ult i64 %at, %nr
  %likely = call i1 @llvm.expect.i1(i1 %is.own, i1 true)
  br i1 %likely, label %look, label %value
value:
  call void @tilt_touch_value_line(i64 %line, i64 %how)
  br label %go
look:
  %here = call i1 @tilt_is_here(ptr %all, i64 %line, i64 %how)
  br i1 %here, label %go, label %fetch
fetch:
  call preserve_mostcc void @tilt_fetch_line(i64 %line, i64 %how)
  br label %go
go:
  ret void
}

; Whether the core can access a line, of those whose words are %all, without a transfer.
define internal i1 @tilt_is_here(ptr %all, i64 %line, i64 %how) #0 {
  %holders.at = getelementptr i64, ptr %all, i64 %line
  %holders = load i64, ptr %holders.at
  %write = and i64 %how, 1
  %is.write = icmp ne i64 %write, 0
  br i1 %is.write, label %store, label %load
load:
  %here = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 11), !invariant.load !{}
  %has = and i64 %holders, %here
  %is.here = icmp ne i64 %has, 0
  %likely.here = call i1 @llvm.expect.i1(i1 %is.here, i1 true)
  ret i1 %likely.here
store:
  %owner = load i64, ptr getelementptr (i64, ptr @tilt_lines, i64 12), !invariant.load !{}
  %is.owner = icmp eq i64 %holders, %owner
  %likely.owner = call i1 @llvm.expect.i1(i1 %is.owner, i1 true)
  ret i1 %likely.owner
}

; The same for any number of bytes.
define internal void @tilt_touch_all(ptr %pointer, i64 %bytes, i64 %how) #0 {
  %address = ptrtoint ptr %pointer to i64
  call void @tilt_touch_lines(i64 %address, i64 %bytes, i64 %how)
  ret void
}

; A local variable begins.
define internal void @tilt_zero(ptr %variable, i64 %bytes) #0 {
  %length = trunc i64 %bytes to i32
  call void @llvm.memset.p0.i32(ptr %variable, i8 0, i32 %length, i1 false)
  ret void
}

; A function that has counted %work returns.
define internal void @tilt_counted(ptr %work) #0 {
  %own = load i64, ptr %work
  %before = load i64, ptr @tilt_work
  %all = add i64 %before, %own
  store i64 %all, ptr @tilt_work
  ret void
}

; The same amid a function: time is about to be read or a lock to be taken, and when that is depends on the work before it.
define internal void @tilt_count_so_far(ptr %work) #0 {
  call void @tilt_counted(ptr %work)
  store i64 0, ptr %work
  ret void
}

; A kernel pointer to read through: the kernel reads zeroes below the lowest page that a process may map.
define internal ptr @tilt_probe(ptr %pointer) #0 {
  %address = ptrtoint ptr %pointer to i64
  %null = icmp ult i64 %address, 65536
  %readable = select i1 %null, ptr @tilt_zero_page, ptr %pointer
  ret ptr %readable
}

; A kernel pointer that is not null. What it points to has no lines.
define internal ptr @tilt_kernel(ptr %pointer) #0 {
  ret ptr %pointer
}

; An access of %bytes, %offset behind the start of a variable of %size.
define internal void @tilt_inside(i64 %offset, i64 %bytes, i64 %size, i32 %access) #0 {
  %fits = icmp ule i64 %bytes, %size
  %room = sub i64 %size, %bytes
  %before = icmp ule i64 %offset, %room
  %inside = and i1 %fits, %before
  br i1 %inside, label %go, label %stop
stop:
  call void @tilt_outside(i64 %offset, i32 %access)
  unreachable
go:
  ret void
}

; Whether all of an access lies in a range.
define internal i1 @tilt_within(i64 %address, i64 %bytes, ptr %start.at, ptr %all.at) #0 {
  %start = load i64, ptr %start.at
  %all = load i64, ptr %all.at
  %offset = sub i64 %address, %start
  %begins = icmp ult i64 %offset, %all
  %room = sub i64 %all, %offset
  %ends = icmp ule i64 %bytes, %room
  %both = and i1 %begins, %ends
  ret i1 %both
}

; MEMBER_VPTR and ARRAY_ELEM_PTR: null when out of bounds.
define internal i64 @tilt_bounded(i64 %base, i64 %max, i64 %offset) #0 {
  %inside = icmp ule i64 %offset, %max
  %address = add i64 %offset, %base
  %result = select i1 %inside, i64 %address, i64 0
  ret i64 %result
}

; may_goto: true while the budget of this function call lasts.
define internal i1 @tilt_may_goto(ptr %budget) #0 {
  %left = load i64, ptr %budget
  %next = sub i64 %left, 1
  store i64 %next, ptr %budget
  %go = icmp ne i64 %left, 0
  ret i1 %go
}

; BPF division: x / 0 = 0, x % 0 = x, MIN / -1 = MIN, MIN % -1 = 0.
