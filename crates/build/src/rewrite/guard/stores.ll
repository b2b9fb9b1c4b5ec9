; SPDX-License-Identifier: GPL-2.0-or-later
; Whether a store to somewhere is allowed: into a variable, into the value of a map, or wherever the engine says so.

define internal preserve_mostcc void @tilt_elsewhere(i64 %address, i64 %bytes, i32 %access) #3 {
  call void @tilt_writable(i64 %address, i64 %bytes, i32 %access)
  ret void
}

; Of one value, of at most 8 bytes.
define internal void @tilt_writable_word(i64 %address, i64 %bytes, i32 %access) #0 {
  %own.start = load i64, ptr @tilt_own_start
  %own.short = load i64, ptr @tilt_own_short
  %own.offset = sub i64 %address, %own.start
  %is.own = icmp ult i64 %own.offset, %own.short
  br i1 %is.own, label %go, label %map
map:
  %map.start = load i64, ptr @tilt_maps_start
  %map.short = load i64, ptr @tilt_maps_short
  %map.offset = sub i64 %address, %map.start
  %is.value = icmp ult i64 %map.offset, %map.short
  br i1 %is.value, label %go, label %ask
ask:
  call preserve_mostcc void @tilt_elsewhere(i64 %address, i64 %bytes, i32 %access)
  br label %go
go:
  ret void
}

; Of any number of bytes.
define internal void @tilt_writable(i64 %address, i64 %bytes, i32 %access) #0 {
  %is.own = call i1 @tilt_within(i64 %address, i64 %bytes, ptr @tilt_own_start, ptr @tilt_own_bytes)
  br i1 %is.own, label %go, label %map
map:
  %is.value = call i1 @tilt_within(i64 %address, i64 %bytes, ptr @tilt_maps_start, ptr @tilt_maps_bytes)
  br i1 %is.value, label %go, label %ask
ask:
  call void @tilt_store(i64 %address, i64 %bytes, i32 %access)
  br label %go
go:
  ret void
}
