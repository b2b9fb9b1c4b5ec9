// SPDX-License-Identifier: GPL-2.0-or-later
//! The table of what is rewritten, row by row: a function of clang's IR in, the function for the host out.

use super::{Choices, rewrite};
use crate::ir::Result;
use crate::parse::parse;

/// Debug information that the rows refer to.
const METADATA: &str = r#"
!1 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "task_struct", file: !9, line: 1, size: 256, elements: !2)
!2 = !{!3, !4, !13}
!3 = !DIDerivedType(tag: DW_TAG_member, name: "pid", scope: !1, file: !9, baseType: !5, size: 32)
!4 = !DIDerivedType(tag: DW_TAG_member, name: "comm", scope: !1, file: !9, baseType: !6, size: 128, offset: 32)
!5 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!6 = !DICompositeType(tag: DW_TAG_array_type, baseType: !7, size: 128, elements: !8)
!7 = !DIBasicType(name: "char", size: 8, encoding: DW_ATE_signed_char)
!8 = !{!12}
!9 = !DIFile(filename: "vmlinux/vmlinux.h", directory: "/")
!10 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "own", file: !11, line: 1, size: 64, elements: !2)
!11 = !DIFile(filename: "own.bpf.c", directory: "/")
!12 = !DISubrange(count: 16)
!13 = !DIDerivedType(tag: DW_TAG_member, name: "prio", scope: !1, file: !9, baseType: !14, size: 64, offset: 192)
!14 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
!15 = !DICompositeType(tag: DW_TAG_enumeration_type, name: "e", file: !11, baseType: !5, size: 32, elements: !16)
!16 = !{!17, !18}
!17 = !DIEnumerator(name: "SCX_ENQ_HEAD", value: 65536)
!18 = !DIEnumerator(name: "SCX_ENQ_IMMED", value: 8589934592)
"#;

fn translate(globals: &str, body: &str, declares: &str) -> Result<String> {
    let text = format!(
        "source_filename = \"own.bpf.c\"\n{globals}\n\ndefine dso_local i64 @f(ptr noundef %0, i64 %1) #0 section \"syscall\" {{\n\
         {body}\n}}\n\n{declares}\n{METADATA}"
    );
    let module = parse(&text)?;
    rewrite(
        &module,
        &["@f".to_owned()],
        Choices {
            resizable_elements: 8,
            debug: false,
            accesses: false,
            lines: false,
            guard: false,
        },
    )
    .map(|r| r.text)
}

/// What every function begins and ends with besides.
const COUNTING: [&str; 3] = [
    "%tilt.work = alloca i64",
    "store i64 0, ptr %tilt.work",
    "call void @tilt_counted(ptr %tilt.work)",
];

/// The rewritten body of `f`, one instruction to an element, without those lines.
fn body(globals: &str, body: &str, declares: &str) -> Vec<String> {
    let all = whole_body(globals, body, declares);
    all.into_iter()
        .filter(|l| !COUNTING.contains(&l.as_str()))
        .collect()
}

fn whole_body(globals: &str, body: &str, declares: &str) -> Vec<String> {
    let text = translate(globals, body, declares).unwrap_or_else(|e| panic!("{e:?}"));
    let inside = text
        .split_once("define hidden i64 @f(")
        .expect("f is there")
        .1
        .split_once("{\n")
        .unwrap()
        .1;
    inside
        .split_once("\n}")
        .unwrap()
        .0
        .lines()
        .map(|l| l.trim().to_owned())
        .collect()
}

#[track_caller]
fn check(globals: &str, input: &str, declares: &str, expected: &[&str]) {
    assert_eq!(body(globals, input, declares), expected);
}

#[test]
fn attributes_metadata_and_promises_go() {
    check(
        "",
        "  %3 = add nuw nsw i64 %1, 1, !dbg !1\n  %4 = tail call noundef i64 @llvm.umax.i64(i64 noundef %3, i64 2) #5\n  ret i64 %4",
        "declare i64 @llvm.umax.i64(i64, i64) #7",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 3)",
            "%v3 = add i64 %v1, 1",
            "%v4 = call i64 @llvm.umax.i64(i64 %v3, i64 2)",
            "ret i64 %v4",
        ],
    );
}

#[test]
fn each_call_of_a_function_counts_its_own_and_tells_when_it_returns() {
    let input = "  %3 = icmp eq i64 %1, 0\n  br i1 %3, label %4, label %5\n\n4:\n  ret i64 1\n\n5:\n  ret i64 2";
    assert_eq!(
        whole_body("", input, ""),
        [
            "v2:",
            COUNTING[0],
            COUNTING[1],
            "call void @tilt_count(ptr %tilt.work, i64 2)",
            "%v3 = icmp eq i64 %v1, 0",
            "br i1 %v3, label %v4, label %v5",
            "v4:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            COUNTING[2],
            "ret i64 1",
            "v5:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            COUNTING[2],
            "ret i64 2",
        ]
    );
}

#[test]
fn host_target_and_plain_globals() {
    let text = translate(
        "@x = weak dso_local local_unnamed_addr global i32 5, section \".data.y\", align 4, !dbg !1",
        "  %3 = load volatile i32, ptr @x, align 4\n  %4 = zext i32 %3 to i64\n  ret i64 %4",
        "",
    )
    .unwrap();
    assert!(text.starts_with("target datalayout = \"e-m:e-"), "{text}");
    assert!(
        text.contains("\n@x = hidden global i32 5, align 4\n"),
        "{text}"
    );
}

#[test]
fn arenas_have_plain_pointers() {
    check(
        "",
        "  %3 = inttoptr i64 %1 to ptr addrspace(1)\n  %4 = addrspacecast ptr addrspace(1) %3 to ptr\n  \
         call void @llvm.memset.p1.i64(ptr addrspace(1) align 8 %3, i8 0, i64 8, i1 false)\n  %5 = load i64, ptr %4\n  ret i64 %5",
        "declare void @llvm.memset.p1.i64(ptr addrspace(1) nocapture writeonly, i8, i64, i1 immarg)",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 4)",
            "%v3 = inttoptr i64 %v1 to ptr",
            "call void @llvm.memset.p0.i64(ptr %v3, i8 0, i64 8, i1 false)",
            "%v5 = load i64, ptr %v3",
            "ret i64 %v5",
        ],
    );
}

#[test]
fn helpers() {
    check(
        "",
        "  %3 = tail call i64 inttoptr (i64 5 to ptr)() #5\n  ret i64 %3",
        "",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 2)",
            "%helper.1 = load ptr, ptr getelementptr (ptr, ptr @tilt_helpers, i64 0)",
            "%engine.1 = load ptr, ptr @tilt_engine",
            "call void @tilt_count_so_far(ptr %tilt.work)",
            "%v3 = call i64 %helper.1(ptr %engine.1)",
            "ret i64 %v3",
        ],
    );
}

#[test]
fn what_was_done_before_a_lock_is_counted_before_it() {
    check(
        "",
        "  tail call void inttoptr (i64 93 to ptr)(ptr %0) #5\n  ret i64 0",
        "",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 2)",
            "%helper.1 = load ptr, ptr getelementptr (ptr, ptr @tilt_helpers, i64 0)",
            "%engine.1 = load ptr, ptr @tilt_engine",
            "call void @tilt_count_so_far(ptr %tilt.work)",
            "call void %helper.1(ptr %engine.1, ptr %v0)",
            "ret i64 0",
        ],
    );
}

#[test]
fn fields_of_kernel_structs_have_the_simulated_offsets() {
    let pid = std::mem::offset_of!(tiltyard_native::layout::TaskStruct, pid);
    check(
        "@\"llvm.task_struct:0:0$0:0\" = external global i64, !llvm.preserve.access.index !1 #0",
        "  %3 = load i64, ptr @\"llvm.task_struct:0:0$0:0\", align 8\n  %4 = getelementptr i8, ptr %0, i64 %3\n  \
         %5 = tail call ptr @llvm.bpf.passthrough.p0.p0(i32 0, ptr %4)\n  %6 = load i32, ptr %5\n  %7 = sext i32 %6 to i64\n  ret i64 %7",
        "declare ptr @llvm.bpf.passthrough.p0.p0(i32, ptr)",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 4)",
            &format!("%v4 = getelementptr i8, ptr %v0, i64 {pid}"),
            "%v5 = call ptr @tilt_probe(ptr %v4)",
            "%v6 = load i32, ptr %v5",
            "%v7 = sext i32 %v6 to i64",
            "ret i64 %v7",
        ],
    );
}

/// A function that returns the answer to one relocation.
fn answer(relocation: &str, node: u32) -> Result<String> {
    let globals = format!(
        "@\"llvm.{relocation}\" = external global i64, !llvm.preserve.access.index !{node} #0"
    );
    let load = format!("  %3 = load i64, ptr @\"llvm.{relocation}\", align 8\n  ret i64 %3");
    let text = translate(&globals, &load, "")?;
    let f = text.split_once("@f(").expect("f is there").1;
    Ok(f.split_once("ret i64 ")
        .expect("it returns")
        .1
        .lines()
        .next()
        .unwrap_or("")
        .to_owned())
}

#[test]
fn every_kind_of_relocation() {
    let comm = std::mem::offset_of!(tiltyard_native::layout::TaskStruct, comm);
    let cases = [
        ("task_struct:0:7$0:1:3", 1, (comm + 3).to_string()),
        ("own:0:4$0:1", 10, "4".to_owned()),
        ("own:0:12$1:1", 10, "12".to_owned()),
        ("task_struct:1:16$0:1", 1, "16".to_owned()),
        ("task_struct:2:1$0:0", 1, "1".to_owned()),
        ("own:3:1$0:0", 10, "1".to_owned()),
        ("own:4:32$0:0", 10, "32".to_owned()),
        ("own:5:32$0:0", 10, "32".to_owned()),
        ("btf_type_id.0$6", 10, "10".to_owned()),
        ("task_struct:8:1$0", 1, "1".to_owned()),
        ("own:9:8$0", 10, "8".to_owned()),
        ("e:10:1$0", 15, "1".to_owned()),
        ("e:10:1$1", 15, "0".to_owned()),
        ("e:11:65536$0", 15, "16".to_owned()),
        ("task_struct:12:1$0", 1, "1".to_owned()),
    ];
    for (relocation, node, expected) in cases {
        assert_eq!(answer(relocation, node).unwrap(), expected, "{relocation}");
    }
}

#[test]
fn relocations_without_an_answer_are_named() {
    let error = |relocation, node| answer(relocation, node).unwrap_err().what;
    assert_eq!(
        error("e:11:8589934592$1", 15),
        "enumerator @\"llvm.e:11:8589934592$1\", which Linux 6.18 does not have"
    );
    assert_eq!(error("task_struct:9:32$0", 1), "size of struct task_struct");
    assert_eq!(error("btf_type_id.0$7", 1), "kernel type id of task_struct");
    assert_eq!(error("own:13:0$0:0", 10), "CO-RE relocation of kind 13");
    assert_eq!(
        error("task_struct:0:24$0:2", 1),
        "task_struct.prio of 8 bytes, where the simulated kernel has 4"
    );
}

#[test]
fn weak_kernel_functions_are_asked_for_at_build_time() {
    let input = "  %3 = icmp eq ptr @scx_bpf_now, null\n  br i1 %3, label %4, label %6\n\n4:\n  \
                 %5 = call i64 @bpf_gone()\n  br label %8\n\n6:\n  %7 = call i64 @scx_bpf_now() #5\n  br label %8\n\n8:\n  \
                 %9 = phi i64 [ %5, %4 ], [ %7, %6 ]\n  ret i64 %9";
    let declares = "declare extern_weak dso_local i64 @scx_bpf_now() #3 section \".ksyms\"\n\
                    declare extern_weak dso_local i64 @bpf_gone() #3 section \".ksyms\"";
    check(
        "",
        input,
        declares,
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "br label %v6",
            "v6:",
            "call void @tilt_count(ptr %tilt.work, i64 2)",
            "%v7 = call i64 @scx_bpf_now()",
            "br label %v8",
            "v8:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "ret i64 %v7",
        ],
    );
}

#[test]
fn loops_are_checked_at_their_heads() {
    check(
        "",
        "  br label %3\n\n3:\n  %4 = phi i64 [ 0, %2 ], [ %5, %3 ]\n  %5 = add i64 %4, 1\n  %6 = icmp eq i64 %5, %1\n  \
         br i1 %6, label %7, label %3\n\n7:\n  ret i64 0",
        "",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "br label %v3",
            "v3:",
            "%v4 = phi i64 [ 0, %v2 ], [ %v5, %v3 ]",
            "call void @tilt_count_loop(ptr %tilt.work, i64 3, i32 0)",
            "%v5 = add i64 %v4, 1",
            "%v6 = icmp eq i64 %v5, %v1",
            "br i1 %v6, label %v7, label %v3",
            "v7:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "ret i64 0",
        ],
    );
}

/// The loop is inside `bpf_loop()`, so the limit is checked in its callback.
#[test]
fn callbacks_are_checked_at_their_entry() {
    let text = translate(
        "",
        "  %3 = tail call i64 inttoptr (i64 181 to ptr)(i32 9, ptr @g, ptr null, i64 0)\n  ret i64 0\n}\n\n\
         define internal i64 @g(i32 %0, ptr %1) {\n  ret i64 0",
        "",
    )
    .unwrap();
    let g = text.split("@g(").nth(1).expect("a definition");
    assert!(g.contains("@tilt_count_loop"), "{text}");
    let f = text.split("i64 @f(").nth(1).unwrap().split("\n}").next();
    assert!(!f.unwrap().contains("@tilt_count_loop"), "{text}");
}

#[test]
fn a_barrier_for_the_compiler_is_no_work() {
    check(
        "",
        "  tail call void asm sideeffect \"\", \"~{memory}\"() #6\n  ret i64 0",
        "",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "call void asm sideeffect \"\", \"~{memory}\"()",
            "ret i64 0",
        ],
    );
}

#[test]
fn may_goto_has_a_budget() {
    check(
        "",
        "  callbr void asm sideeffect \"may_goto ${0:l}\", \"!i\"() #6\n          to label %3 [label %4], !dbg !1\n\n3:\n  ret i64 1\n\n4:\n  ret i64 0",
        "",
        &[
            "v2:",
            "%may_goto.budget = alloca i64",
            "store i64 8388608, ptr %may_goto.budget",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "%may_goto.1 = call i1 @tilt_may_goto(ptr %may_goto.budget)",
            "br i1 %may_goto.1, label %v3, label %v4",
            "v3:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "ret i64 1",
            "v4:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "ret i64 0",
        ],
    );
}

#[test]
fn llvm_bpf_compare() {
    check(
        "",
        "  %3 = call i1 @llvm.bpf.compare.i64.i64(i32 36, i64 %1, i64 7)\n  %4 = zext i1 %3 to i64\n  ret i64 %4",
        "declare i1 @llvm.bpf.compare.i64.i64(i32, i64, i64)",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 3)",
            "%v3 = icmp ult i64 %v1, 7",
            "%v4 = zext i1 %v3 to i64",
            "ret i64 %v4",
        ],
    );
}

#[test]
fn switches_on_constants_are_decided() {
    check(
        "@LINUX_KERNEL_VERSION = external dso_local global i32, section \".kconfig\", align 4",
        "  %3 = load i32, ptr @LINUX_KERNEL_VERSION, align 4\n  switch i32 %3, label %4 [\n    i32 397824, label %5\n    i32 397825, label %4\n  ], !dbg !1\n\n\
         4:\n  ret i64 1\n\n5:\n  ret i64 0",
        "",
        &[
            "v2:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "br label %v5",
            "v5:",
            "call void @tilt_count(ptr %tilt.work, i64 1)",
            "ret i64 0",
        ],
    );
}

#[test]
fn resizable_arrays_are_resized() {
    let text = translate(
        "@many = dso_local global [1 x i64] zeroinitializer, section \".data.many\", align 8\n\
         @one = dso_local global [1 x i64] zeroinitializer, section \".data\", align 8",
        "  %3 = getelementptr [1 x i64], ptr @many, i64 0, i64 %1\n  %4 = load i64, ptr %3\n  store i64 %4, ptr @one\n  ret i64 0",
        "",
    )
    .unwrap();
    assert!(
        text.contains("@many = hidden global [8 x i64] zeroinitializer, align 8"),
        "{text}"
    );
    assert!(
        text.contains("@one = hidden global [1 x i64] zeroinitializer, align 8"),
        "{text}"
    );
}

#[test]
fn lines_that_are_no_ir_are_named() {
    let error = parse("module asm \"nop\"\n").unwrap_err();
    assert_eq!(error.what, "line 'module asm \"nop\"'");
}
