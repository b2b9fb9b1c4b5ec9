// SPDX-License-Identifier: GPL-2.0-or-later
//! Sources that must not build, each with the name of what is wrong and where.

use crate::common::{builder, refusal, scheduler, written};

const ENQUEUE: &str = ".enqueue = (void *)test_enqueue,";

fn enqueue(body: &str) -> String {
    format!(
        "u64 out; void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {{ {body} }}"
    )
}

#[test]
fn a_compile_error_shows_the_compilers_message() {
    let message = refusal(&enqueue("out = nonsense;"), ENQUEUE);
    assert!(
        message.contains("does not compile")
            && message.contains("undeclared identifier 'nonsense'"),
        "{message}"
    );
}

#[test]
fn a_field_that_is_not_modelled() {
    let message = refusal(&enqueue("out = p->rt.timeout;"), ENQUEUE);
    assert!(
        message.contains("task_struct.rt.timeout is not modelled (in function test_enqueue)"),
        "{message}"
    );
}

#[test]
fn a_kernel_struct_that_is_not_modelled() {
    let message = refusal(&enqueue("out = ((struct mempolicy *)p)->mode;"), ENQUEUE);
    assert!(
        message.contains("mempolicy.mode is not modelled (in function test_enqueue)"),
        "{message}"
    );
}

#[test]
fn a_field_in_code_that_cannot_run_is_no_matter() {
    let body = enqueue("if (bpf_ksym_exists(scx_bpf_sub_dispatch___compat)) out = p->rt.timeout;");
    let (_folder, source) = written(&scheduler(&body, ENQUEUE));
    builder(2).native(&source).expect("builds");
}

#[test]
fn floating_point() {
    let message = refusal(
        &enqueue("\n\tout = (double)p->scx.weight * 1.5;\n"),
        ENQUEUE,
    );
    assert!(
        message.contains("floating point, which BPF does not have")
            && message.contains("(in function test_enqueue, test.bpf.c:5)"),
        "{message}"
    );
}

#[test]
fn inline_assembly() {
    let message = refusal(&enqueue("asm volatile(\"r1 = 5\" ::: \"r1\");"), ENQUEUE);
    assert!(
        message.contains("inline assembly \"r1 = 5\" (in function test_enqueue, test.bpf.c:"),
        "{message}"
    );
}

#[test]
fn a_kernel_function_that_is_not_there() {
    let body = format!(
        "extern int bpf_frobnicate(void) __ksym;\n{}",
        enqueue("out = bpf_frobnicate();")
    );
    let message = refusal(&body, ENQUEUE);
    assert!(
        message.contains("kernel function bpf_frobnicate, which Linux 6.18 does not have"),
        "{message}"
    );
}

#[test]
fn a_kernel_variable() {
    let message = refusal(
        &enqueue("out = (u64)bpf_this_cpu_ptr(&runqueues);"),
        ENQUEUE,
    );
    assert!(message.contains("kernel variable runqueues"), "{message}");
}

#[test]
fn a_map_type_that_is_not_modelled() {
    let map = "struct { __uint(type, BPF_MAP_TYPE_LPM_TRIE); __uint(max_entries, 1); } trie SEC(\".maps\");";
    let message = refusal(&format!("{map}\n{}", enqueue("out++;")), ENQUEUE);
    assert!(message.contains("map trie of BPF map type 11"), "{message}");
}

#[test]
fn a_program_that_hooks_into_the_kernel() {
    let program = "SEC(\"tp_btf/sched_switch\") int on_switch(u64 *ctx) { return 0; }";
    let message = refusal(&format!("{program}\n{}", enqueue("out++;")), ENQUEUE);
    assert!(
        message.contains("program on_switch in section \"tp_btf/sched_switch\""),
        "{message}"
    );
}

#[test]
fn a_variable_in_an_odd_section() {
    let message = refusal(
        &format!("u64 odd SEC(\".odd\") = 1;\n{}", enqueue("out = odd;")),
        ENQUEUE,
    );
    assert!(
        message.contains("variable odd in section \".odd\""),
        "{message}"
    );
}

#[test]
fn a_name_that_begins_like_the_runtimes() {
    let message = refusal(
        &format!("u64 tilt_mine; {}", enqueue("tilt_mine = 1;")),
        ENQUEUE,
    );
    assert!(
        message.contains("name tilt_mine: names that begin with tilt_ are the simulated machine's"),
        "{message}"
    );
}

#[test]
fn a_source_that_is_no_scheduler() {
    let (_folder, source) =
        written("#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\n");
    let message = builder(2).native(&source).unwrap_err().to_string();
    assert!(message.contains("no SCX_OPS_DEFINE()"), "{message}");
}

#[test]
fn a_license_that_kernels_refuse() {
    let of_gpl = scheduler(&enqueue(""), ENQUEUE);
    let line = "char _license[] SEC(\"license\") = \"GPL\";\n";
    for (instead, says) in [
        ("", "it names no license, and kernels load no scheduler"),
        (
            &line.replace("GPL", "Proprietary"),
            "its license is \"Proprietary\", and kernels",
        ),
    ] {
        let (_folder, source) = written(&of_gpl.replace(line, instead));
        let message = builder(2).native(&source).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
        assert!(message.ends_with(line.trim_end()), "{message}");
    }
    let dual = line.replace("GPL", "Dual BSD/GPL");
    let (_folder, source) = written(&of_gpl.replace(line, &dual));
    builder(2).native(&source).expect("builds");
}

#[test]
fn a_source_that_includes_nothing() {
    let (_folder, source) = written("char _license[] SEC(\"license\") = \"GPL\";\nu64 counter;\n");
    let message = builder(2).native(&source).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "begin with #include <scx/common.bpf.h>, which declares the kernel's types and functions"
        ),
        "{message}"
    );
}

#[test]
fn a_callback_that_does_not_exist() {
    let message = refusal(&enqueue("out = 1;"), ".enque = (void *)test_enqueue,");
    assert!(
        message.contains("callbacks are members of struct sched_ext_ops: .select_cpu"),
        "{message}"
    );
}

#[test]
fn a_source_that_does_not_exist() {
    let message = builder(2)
        .native(&tiltyard_build::Source::new("no/such.bpf.c"))
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("no/such.bpf.c: ") && message.contains("no such file"),
        "{message}"
    );
}
