// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers of the user's own, beside a source or where its tree has them, win over the shipped ones; what fails to
//! compile says which were used.

use crate::common::{builder, refusal};
use std::path::{Path, PathBuf};
use tiltyard_build::{HeaderSet, Source, headers_dir};

/// A source in a folder of a new tree, and in the tree, headers in other folders.
fn tree(source: &str, headers: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        path
    };
    for folder in headers {
        write(&format!("{folder}/scx/common.bpf.h"));
    }
    let source = write(source);
    (root, source)
}

fn found(source: &str, headers: &[&str]) -> Option<String> {
    let (root, source) = tree(source, headers);
    match HeaderSet::beside(&source) {
        HeaderSet::Shipped => None,
        HeaderSet::Folder(folder) => {
            let root = root.path().canonicalize().unwrap();
            Some(folder.strip_prefix(root).unwrap().display().to_string())
        }
    }
}

#[test]
fn headers_are_found_beside_a_source_and_in_its_tree() {
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(found("my/a.bpf.c", &[]), None);
    assert_eq!(found("my/a.bpf.c", &["my/include"]), named("my/include"));
    assert_eq!(found("my/a.bpf.c", &["my"]), named("my"), "scx/ beside it");
    assert_eq!(
        found(
            "tools/testing/selftests/sched_ext/a.bpf.c",
            &["tools/sched_ext/include"]
        ),
        named("tools/sched_ext/include")
    );
    assert_eq!(
        found(
            "scheds/rust/scx_one/src/bpf/main.bpf.c",
            &["scheds/include"]
        ),
        named("scheds/include")
    );
    assert_eq!(
        found("scheds/c/a.bpf.c", &["scheds/include", "scheds/c/include"]),
        named("scheds/c/include"),
        "the nearest"
    );
    assert_eq!(found("my/a.bpf.c", &["other/include"]), None);
}

#[test]
fn what_does_not_compile_names_its_headers_and_new_names() {
    let enqueue = "void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) \
        { scx_bpf_dispatch(p, 0, 0, enq_flags); }";
    let message = refusal(enqueue, ".enqueue = (void *)test_enqueue,");
    assert!(
        message.contains("\nscx_bpf_dispatch is called scx_bpf_dsq_insert since Linux 6.13\n"),
        "{message}"
    );
    assert!(!message.contains("did you mean"), "{message}");
    assert!(
        message.contains("compiled with the headers that Tiltyard ships (scx_cargo")
            && message.contains("copy its tree's tools/sched_ext/include there"),
        "{message}"
    );
    let (_root, source) = tree("my/a.bpf.c", &["my/include"]);
    std::fs::write(&source, "#include <scx/common.bpf.h>\nnonsense\n").unwrap();
    let error = builder(2).native(&Source::new(&source)).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("compiled with the headers in /"), "{error}");
    assert!(error.contains("my/include"), "{error}");
    std::fs::write(&source, "#  include <scx/common.bpf.h>\nnonsense\n").unwrap();
    let error = builder(2).native(&Source::new(&source)).unwrap_err();
    assert!(error.to_string().contains("headers in /"), "{error}");
    // A mistake in the source itself, not in a header.
    let enqueue = "void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) { p++ }";
    let message = refusal(enqueue, ".enqueue = (void *)test_enqueue,");
    assert!(message.contains("expected ';'"), "{message}");
    assert!(!message.contains("headers"), "{message}");
}

/// A source of Linux 6.12 copied away from its tree fails with the shipped headers, and builds with its own beside it.
#[test]
fn a_copied_source_builds_with_its_headers_beside_it() {
    let Some(tools) = crate::kernel_source::sched_ext_tools() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("scx_simple.bpf.c");
    std::fs::copy(tools.join("scx_simple.bpf.c"), &source).unwrap();
    let error = builder(2).native(&Source::new(&source)).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("include/"), "{error}");
    copy(&tools.join("include"), &folder.path().join("include"));
    let object = builder(2).native(&Source::new(&source)).unwrap();
    assert_eq!(object.ops.name, "simple");
}

/// Until 2025 the headers had their own prototypes of kernel functions, with other types than today's vmlinux.h.
#[test]
fn headers_with_prototypes_of_their_own() {
    let text = crate::common::scheduler(
        "void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) { }",
        ".enqueue = (void *)test_enqueue,",
    );
    let (folder, source) = crate::common::written(&text);
    let include = folder.path().join("include");
    copy(&headers_dir().join("scx"), &include);
    let own = include.join("scx/common.bpf.h");
    let before = std::fs::read_to_string(&own).unwrap();
    let prototype = "#include <vmlinux.h>\nint bpf_dynptr_size(int other);\n";
    std::fs::write(&own, format!("{prototype}{before}")).unwrap();
    let source = Source::new(&source.path);
    assert_ne!(source.headers, HeaderSet::Shipped);
    builder(2).native(&source).expect("builds");
}

/// clang 19 takes them for errors without the flags of the kernel's Makefile.
#[test]
fn function_pointers_of_other_types_are_ops() {
    let text = crate::common::scheduler(
        "s32 BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) { return 0; }",
        ".enqueue = (void (*)(struct task_struct *, unsigned int))test_enqueue,",
    );
    let (_folder, source) = crate::common::written(&text);
    builder(2).native(&source).expect("builds");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
