// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler's source -> its BPF object for a kernel and its native object for the simulated machine.
//!
//! Both start with the same front end and optimiser run (clang, BPF target). The native object is made from that IR:
//! [`rewrite`] replaces mechanically what only a kernel has, and clang lowers the result to the host. What the
//! rewriter does not know stops the build with its name.

mod clang;
mod describe;
mod error;
mod headers;
mod ir;
mod metadata;
mod parse;
mod reference;
mod rewrite;

pub use error::BuildError;
pub use headers::{HeaderSet, headers_dir};

use std::fs;
use std::path::{Path, PathBuf};
use tiltyard_native::Object;

const RUNTIME: &str = include_str!("runtime.c");

/// A scheduler's source and how it is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The `.bpf.c`.
    pub path: PathBuf,
    /// Searched after the header set.
    pub include_dirs: Vec<PathBuf>,
    /// `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    pub headers: HeaderSet,
}

impl Source {
    /// A source with the headers that lie beside it or else the shipped ones.
    pub fn new(path: impl Into<PathBuf>) -> Source {
        let path = path.into();
        let headers = HeaderSet::beside(&path);
        Source {
            path,
            include_dirs: Vec::new(),
            defines: Vec::new(),
            headers,
        }
    }
}

/// How objects are built, the same for all sources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BuilderOptions {
    /// Optimisation of the host back end, 0 to 3. Behaviour and counts are the same at each.
    pub level: u8,
    /// Elements of arrays that user space would size (RESIZABLE_ARRAY).
    pub resizable_elements: u64,
}

impl Default for BuilderOptions {
    fn default() -> BuilderOptions {
        BuilderOptions {
            level: 2,
            resizable_elements: 4096,
        }
    }
}

/// Builds schedulers.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    options: BuilderOptions,
}

impl Builder {
    pub fn new(options: BuilderOptions) -> Builder {
        Builder { options }
    }

    /// The object for the simulated machine.
    pub fn native(&self, source: &Source) -> Result<Object, BuildError> {
        let work = tempfile::tempdir().map_err(BuildError::io("temporary folder"))?;
        let ir_path = work.path().join("bpf.ll");
        clang::front_end(
            source,
            &["-S", "-emit-llvm"],
            &ir_path,
            &work.path().join("bpf.d"),
        )?;
        let ir = fs::read_to_string(&ir_path).map_err(BuildError::io(&ir_path))?;
        let (mut object, text) = self
            .translate(&ir)
            .map_err(|u| BuildError::unsupported(&source.path, u))?;
        object.image = self.lower(source, work.path(), &text)?;
        Ok(object)
    }

    /// IR of a BPF program -> description and IR for the host.
    fn translate(&self, ir: &str) -> Result<(Object, String), ir::Unknown> {
        let module = parse::parse(ir)?;
        let ops = describe::ops(&module)?;
        let programs = describe::programs(&module);
        let (tunables, globals) = describe::globals(&module, self.options.resizable_elements);
        let mut roots: Vec<String> = programs.iter().map(|p| format!("@{}", p.symbol)).collect();
        roots.extend(
            module
                .globals
                .iter()
                .filter(|g| g.init.is_some())
                .map(|g| g.name.clone()),
        );
        let rewritten = rewrite::rewrite(&module, &roots, self.options.resizable_elements)?;
        let object = Object {
            key: String::new(),
            image: Vec::new(),
            ops,
            maps: describe::maps(&module)?,
            tunables,
            globals,
            programs,
            kfuncs: rewritten.slots.kfuncs,
            helpers: rewritten.slots.helpers,
            type_sizes: rewritten.type_sizes,
        };
        Ok((object, rewritten.text))
    }

    fn lower(&self, source: &Source, work: &Path, text: &str) -> Result<Vec<u8>, BuildError> {
        let (ir, runtime, image) = (
            work.join("native.ll"),
            work.join("runtime.c"),
            work.join("native.so"),
        );
        fs::write(&ir, text).map_err(BuildError::io(&ir))?;
        fs::write(&runtime, RUNTIME).map_err(BuildError::io(&runtime))?;
        clang::lower(
            source,
            &ir,
            &runtime,
            &format!("-O{}", self.options.level),
            &image,
        )?;
        fs::read(&image).map_err(BuildError::io(&image))
    }
}
