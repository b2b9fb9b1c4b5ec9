// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler's source -> its BPF object for a kernel and its native object for the simulated machine.
//!
//! Both start with the same front end and optimiser run (clang, BPF target). The native object is made from that IR:
//! [`rewrite`] replaces mechanically what only a kernel has, and clang lowers the result to the host. What the
//! rewriter does not know stops the build with its name.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cache` | built objects, kept by content |
//! | `headers` | where the headers that schedulers include are found |
//! | `precompiled` | the kernel's types, parsed once for all schedulers |
//! | `clang` | runs the compiler: front end to IR or to a BPF object, IR to a native object |
//! | `ir` | LLVM IR as text: globals, functions, blocks, instructions |
//! | `names` | short names of files |
//! | `metadata` | debug information in IR: types of globals, maps and kernel structs |
//! | `parse` | text of IR -> module, without what must not reach the host |
//! | `describe` | what an engine must know about a scheduler: ops, maps, tunables, globals, programs |
//! | `later` | whether a scheduler has code that could insert a task later than `ops.enqueue` |
//! | `rewrite` | IR of a BPF program -> IR for the simulated machine |
//! | `reference` | the reference kernel, Linux 6.18, where it differs from the headers |
//! | `error` | what can go wrong |
//!
//! `runtime.c` and `lines.c` are compiled into every native object.

mod cache;
mod clang;
mod describe;
mod error;
mod headers;
mod ir;
mod later;
mod metadata;
mod names;
mod parse;
mod precompiled;
mod reference;
mod rewrite;

pub use cache::{default_dir as default_cache_dir, hash as content_hash};
pub use error::BuildError;
pub use headers::{HeaderSet, headers_dir};

use cache::{Answer, Cache, Input};
use std::fs;
use std::path::{Path, PathBuf};
use tiltyard_native::Object;

/// What every native object contains besides the scheduler.
const RUNTIME: [(&str, &str); 2] = [
    ("runtime.c", include_str!("runtime.c")),
    ("lines.c", include_str!("lines.c")),
];

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
    /// Source lines in the native object, for debuggers. Ten times the size; nothing else changes.
    pub debug: bool,
    /// The native object reports each memory access to the engine. Behaviour and simulated time are unchanged.
    pub accesses: bool,
    /// Accesses of the native object that leave what they belong to end the callback: stores above all, so that a wild one
    /// cannot reach the engine. It does the same in the same simulated time.
    pub guard: bool,
    /// Where built objects are kept; `None` builds each time.
    pub cache_dir: Option<PathBuf>,
}

impl Default for BuilderOptions {
    fn default() -> BuilderOptions {
        BuilderOptions {
            level: 2,
            resizable_elements: 4096,
            debug: false,
            accesses: false,
            guard: true,
            cache_dir: cache::default_dir().map(|dir| dir.join("objects")),
        }
    }
}

/// An object for a kernel.
#[derive(Clone, Debug)]
pub struct BpfObject {
    /// In the cache.
    pub path: PathBuf,
    /// The compiler's warnings, one line each.
    pub warnings: Vec<String>,
}

impl BpfObject {
    /// That of an earlier build.
    fn kept(cache: &Cache, answer: Answer) -> Option<BpfObject> {
        let Answer { key, warnings } = answer;
        let path = cache.path(&format!("{key}.bpf.o"));
        path.is_file().then_some(BpfObject { path, warnings })
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
        let request = self.request("native", source)?;
        if let Some(object) = self.answered(&request, source) {
            return Ok(object);
        }
        let work = tempfile::tempdir().map_err(BuildError::io("temporary folder"))?;
        let (ir, deps) = (work.path().join("bpf.ll"), work.path().join("bpf.d"));
        let precompiled = precompiled::vmlinux(source);
        let kind = ["-S", "-emit-llvm"];
        let warnings = clang::front_end(source, &kind, precompiled.as_deref(), &ir, &deps)?;
        let inputs = read_inputs(&deps)?;
        let key = self.key("native", source, &inputs)?;
        // The same source may have been built at another place. Debug information names the place.
        let kept = (!self.options.debug).then(|| self.kept(&key)).flatten();
        let mut object = match kept {
            Some(object) => object,
            None => self.lowered(source, work.path(), &ir)?,
        };
        object.key = key;
        object.warnings = warnings;
        // A cache that cannot be written costs time and nothing else.
        let _ = self.keep(&request, source, &object, inputs);
        Ok(object)
    }

    /// The object that the front end's output, `ir`, is lowered to; its key and warnings are not known here.
    fn lowered(&self, source: &Source, work: &Path, ir: &Path) -> Result<Object, BuildError> {
        let ir = fs::read_to_string(ir).map_err(BuildError::io(ir))?;
        let (mut object, text) = self.translate(&ir).map_err(|unknown| {
            // Read a second time: only a failed build has use for the place.
            let location = unknown.location;
            let place = location.and_then(|at| parse::parse(&ir).ok()?.metadata.place(at));
            BuildError::unsupported(&source.path, unknown, place.unwrap_or_default())
        })?;
        object.image = self.lower(source, work, &text)?;
        Ok(object)
    }

    /// The object for a kernel; an error without a cache.
    pub fn bpf_object(&self, source: &Source) -> Result<BpfObject, BuildError> {
        let cache = self.cache().ok_or(BuildError::NoCache)?;
        let request = self.request("bpf", source)?;
        let searched = clang::include_dirs(source)?;
        let known = cache.lookup(&request, &searched);
        if let Some(kept) = known.and_then(|answer| BpfObject::kept(&cache, answer)) {
            return Ok(kept);
        }
        let work = tempfile::tempdir().map_err(BuildError::io("temporary folder"))?;
        let (object, deps) = (work.path().join("bpf.o"), work.path().join("bpf.d"));
        let warnings = clang::front_end(source, &["-c"], None, &object, &deps)?;
        let inputs = read_inputs(&deps)?;
        let key = self.key("bpf", source, &inputs)?;
        let bytes = fs::read(&object).map_err(BuildError::io(&object))?;
        let path = cache.store(&format!("{key}.bpf.o"), &bytes)?;
        let answer = Answer {
            key,
            warnings: warnings.clone(),
        };
        cache.record(&request, answer, inputs, &searched)?;
        Ok(BpfObject { path, warnings })
    }

    fn cache(&self) -> Option<Cache> {
        self.options.cache_dir.clone().map(Cache::new)
    }

    /// Everything that is known before a compiler runs.
    fn request(&self, kind: &str, source: &Source) -> Result<String, BuildError> {
        let args = clang::front_end_args(source)?;
        let what = format!(
            "{kind}\n{}\n{args:?}\n{}",
            self.fingerprint(),
            clang::identity()
        );
        Ok(cache::hash([what.as_bytes()]))
    }

    /// Everything that goes into an object, wherever the source's folder and the headers are.
    fn key(&self, kind: &str, source: &Source, inputs: &[Input]) -> Result<String, BuildError> {
        let args = clang::portable_args(source);
        let what = format!(
            "{kind}\n{}\n{args:?}\n{}",
            self.fingerprint(),
            clang::version()?
        );
        let path = clang::full_path(source);
        let folder = path.parent().unwrap_or(Path::new(""));
        // Places in the object are lines of files in the source's folder, if there are any, and have short names: so which
        // files are there, and what they are called, determines the object, too.
        let paths: Vec<PathBuf> = inputs.iter().map(|i| names::direct(i.path())).collect();
        let file = |((input, path), name): ((&Input, &PathBuf), String)| {
            let inside = path.strip_prefix(folder).ok();
            format!("{} {inside:?} {name}", input.sha256())
        };
        // The kernel's types come last: the compiler reads them first if they are precompiled. The order of the others says
        // which of two headers was meant.
        let types = clang::include_dirs(source)?
            .swap_remove(0)
            .join("vmlinux.h");
        let named = inputs.iter().zip(&paths).zip(names::short(&paths));
        let (last, first): (Vec<_>, Vec<_>) = named.partition(|((i, _), _)| i.path() == types);
        let files = first.into_iter().chain(last).map(file);
        let parts: Vec<String> = [what].into_iter().chain(files).collect();
        Ok(cache::hash(parts.iter().map(String::as_bytes)))
    }

    /// Everything of this program that determines the output.
    fn fingerprint(&self) -> String {
        let BuilderOptions {
            level,
            resizable_elements,
            debug,
            accesses,
            guard,
            ..
        } = &self.options;
        let structs = tiltyard_native::layout::STRUCTS;
        let rewriter = env!("TILTYARD_REWRITER");
        format!("{rewriter} {level} {resizable_elements} {debug} {accesses} {guard} {structs:?}")
    }

    /// What this request was answered with when all files were as they are now.
    fn answered(&self, request: &str, source: &Source) -> Option<Object> {
        let searched = clang::include_dirs(source).ok()?;
        let answer = self.cache()?.lookup(request, &searched)?;
        let object = self.kept(&answer.key)?;
        Some(Object {
            warnings: answer.warnings,
            ..object
        })
    }

    /// The object with this key, without warnings.
    fn kept(&self, key: &str) -> Option<Object> {
        let cache = self.cache()?;
        let mut object: Object =
            serde_json::from_slice(&cache.load_sealed(&format!("{key}.json"))?).ok()?;
        object.image = cache.load_sealed(&format!("{key}.so"))?;
        Some(object)
    }

    fn keep(
        &self,
        request: &str,
        source: &Source,
        object: &Object,
        inputs: Vec<Input>,
    ) -> Result<(), BuildError> {
        let Some(cache) = self.cache() else {
            return Ok(());
        };
        let answer = Answer {
            key: object.key.clone(),
            warnings: object.warnings.clone(),
        };
        let key = &object.key;
        let json = serde_json::to_vec(object)
            .map_err(|e| BuildError::io(format!("{key}.json"))(e.into()))?;
        cache.store_sealed(&format!("{key}.so"), &object.image)?;
        cache.store_sealed(&format!("{key}.json"), &json)?;
        cache.record(request, answer, inputs, &clang::include_dirs(source)?)
    }

    /// IR of a BPF program -> description and IR for the host.
    fn translate(&self, ir: &str) -> Result<(Object, String), ir::Unknown> {
        let module = parse::parse(ir)?;
        let ops = describe::ops(&module)?;
        let programs = describe::programs(&module)?;
        let (tunables, globals) = describe::globals(&module, self.options.resizable_elements);
        let mut roots: Vec<String> = programs.iter().map(|p| format!("@{}", p.symbol)).collect();
        roots.extend(
            module
                .globals
                .iter()
                .filter(|g| g.init.is_some())
                .map(|g| g.name.clone()),
        );
        let choices = rewrite::Choices {
            resizable_elements: self.options.resizable_elements,
            debug: self.options.debug,
            accesses: self.options.accesses,
            lines: true,
            guard: self.options.guard,
        };
        let rewritten = rewrite::rewrite(&module, &roots, choices)?;
        let object = Object {
            inserts_later: later::inserts_later(&module, &ops),
            key: String::new(),
            image: Vec::new(),
            ops,
            maps: describe::maps(&module)?,
            tunables,
            globals,
            programs,
            kfuncs: rewritten.slots.kfuncs,
            helpers: rewritten.slots.helpers,
            files: rewritten.files,
            accesses: rewritten.accesses,
            warnings: Vec::new(),
            type_sizes: rewritten.type_sizes,
        };
        Ok((object, rewritten.text))
    }

    fn lower(&self, source: &Source, work: &Path, text: &str) -> Result<Vec<u8>, BuildError> {
        let ([ir, image], runtime) = (
            ["native.ll", "native.so"].map(|name| work.join(name)),
            RUNTIME.map(|(name, _)| work.join(name)),
        );
        fs::write(&ir, text).map_err(BuildError::io(&ir))?;
        for (path, (_, text)) in runtime.iter().zip(RUNTIME) {
            fs::write(path, text).map_err(BuildError::io(path))?;
        }
        let level = format!("-O{}", self.options.level);
        clang::lower(source, &ir, &runtime, &level, &image)?;
        fs::read(&image).map_err(BuildError::io(&image))
    }
}

/// The files that a compiler run read, from its dependency list.
fn read_inputs(depfile: &Path) -> Result<Vec<Input>, BuildError> {
    let text = fs::read_to_string(depfile).map_err(BuildError::io(depfile))?;
    cache::parse_depfile(&text)
        .iter()
        .map(|path| Input::read(path))
        .collect()
}
