// SPDX-License-Identifier: GPL-2.0-or-later
//! What a guarded call costs: `cargo run --release --example call_cost FILE.bpf.c OP [INCLUDE_DIR]`. Kernel functions and helpers
//! return 0 at once.

use std::ffi::c_void;
use std::time::Instant;
use tiltyard_build::{Builder, Source};
use tiltyard_native::{EntryPoint, Instance};

const CALLS: u32 = 20_000_000;

extern "C" fn nothing() -> u64 {
    0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .ok_or("usage: call_cost FILE.bpf.c OP [INCLUDE_DIR]...")?;
    let op = args.next().ok_or("which op?")?;
    let mut source = Source::new(path);
    source.include_dirs = args.map(Into::into).collect();
    let object = Builder::default().native(&source)?;
    let mut instance = Instance::load(&object, &[])?;
    instance.bind(&|_| Some(nothing as *const c_void), &|_| {
        Some(nothing as *const c_void)
    })?;
    let symbol = instance
        .symbol(object.ops.functions.get(&op).ok_or("no such op")?)
        .ok_or("no symbol")?;
    // SAFETY: an op of this instance.
    let entry = unsafe { std::mem::transmute::<*mut u8, EntryPoint>(symbol) };
    let mut context = [0; 8];
    let start = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: the op reads kernel structs through null pointers, which yields zeroes.
        unsafe { instance.call(entry, &mut context)? };
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!(
        "{op}: {ns:.1} ns a call, {} instructions each",
        instance.work_insns() / u64::from(CALLS)
    );
    Ok(())
}
