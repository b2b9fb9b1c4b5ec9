// SPDX-License-Identifier: GPL-2.0-or-later
//! The printf of BPF programs: bpf_trace_printk, bpf_trace_vprintk, bpf_snprintf and the bstr
//! functions of sched_ext take a format and an array of u64.
//!
//! A kernel accepts these conversions and rejects all others, with -EINVAL: d i u x X (with l or ll),
//! c, s and pks, p, px and pK; flags 0 - + and space; a width. No precision, no `*`, no o, no h;
//! s and p must be followed by the end, white space or punctuation. Conversions that a kernel
//! accepts but the simulated machine cannot print (symbols, user-space addresses, IP addresses) are
//! rejected by name.
//!
//! Addresses differ from run to run, so a pointer prints as a number that its [`Memory`] gives it.

mod memory;

use super::errno::{EINVAL, ENOSPC};

pub use memory::{HostMemory, Memory, c_string};

/// Maximum number of arguments of one call, the kernel's MAX_BPRINTF_VARARGS.
pub const ARGS_MAX: usize = 12;
/// Arguments are copied to a buffer of this size first, strings included (MAX_BPRINTF_BIN_ARGS).
const ARG_BYTES_MAX: usize = 512;
/// Larger widths are reduced to this.
const WIDTH_MAX: usize = (1 << 23) - 1;

/// Why nothing was printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("format \"{format}\": {problem} at byte {at}")]
    Invalid {
        format: String,
        at: usize,
        problem: &'static str,
    },
    #[error("format \"{format}\": %{conversion} is not supported by the simulated machine")]
    Unsupported { format: String, conversion: String },
    #[error("format \"{format}\": the arguments need more than {ARG_BYTES_MAX} bytes")]
    NoSpace { format: String },
}

impl FormatError {
    /// What the helper returns.
    pub fn errno(&self) -> i64 {
        match self {
            FormatError::NoSpace { .. } => -ENOSPC,
            FormatError::Invalid { .. } | FormatError::Unsupported { .. } => -EINVAL,
        }
    }
}

/// Formats `args` by `format` (without its NUL) into `text`, keeping less than `limit` bytes: the
/// kernel's buffers end in a NUL. Returns the length without the limit.
pub fn format(
    format: &[u8],
    args: &[u64],
    limit: usize,
    memory: &mut impl Memory,
    text: &mut Vec<u8>,
) -> Result<usize, FormatError> {
    text.clear();
    let mut printer = Printer {
        output: Output {
            text,
            len: 0,
            limit: limit.saturating_sub(1),
        },
        memory,
        arg_bytes: 0,
    };
    match printer.print(format, args) {
        Ok(()) => Ok(printer.output.len),
        Err(problem) => Err(problem.of(format)),
    }
}

/// A [`FormatError`] that does not know its format yet.
enum Problem {
    Invalid(usize, &'static str),
    Unsupported(String),
    NoSpace,
}

impl Problem {
    fn of(self, format: &[u8]) -> FormatError {
        let format = String::from_utf8_lossy(format).into_owned();
        match self {
            Problem::Invalid(at, problem) => FormatError::Invalid {
                format,
                at,
                problem,
            },
            Problem::Unsupported(conversion) => FormatError::Unsupported { format, conversion },
            Problem::NoSpace => FormatError::NoSpace { format },
        }
    }
}

/// One conversion: `%-5lld`.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    width: usize,
    kind: Conversion,
}

#[derive(Clone, Copy, Debug, Default)]
enum Conversion {
    Integer {
        /// 4 or 8.
        bytes: usize,
        signed: bool,
        base: Base,
    },
    Char,
    String,
    #[default]
    Pointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Decimal,
    LowerHex,
    UpperHex,
}

struct Printer<'a, M> {
    output: Output<'a>,
    memory: &'a mut M,
    /// Part of the kernel's argument buffer that is used.
    arg_bytes: usize,
}

impl<M: Memory> Printer<'_, M> {
    fn print(&mut self, format: &[u8], args: &[u64]) -> Result<(), Problem> {
        if args.len() > ARGS_MAX {
            return Err(Problem::Invalid(0, "more than 12 arguments"));
        }
        let (mut at, mut args) = (0, args.iter());
        while let Some(&byte) = format.get(at) {
            if byte.is_ascii_control() && !is_space(byte) {
                return Err(Problem::Invalid(at, "a control character"));
            }
            if byte != b'%' {
                self.output.push(byte);
                at += 1;
            } else if format.get(at + 1) == Some(&b'%') {
                self.output.push(b'%');
                at += 2;
            } else {
                let Some(&arg) = args.next() else {
                    return Err(Problem::Invalid(at, "no argument for the conversion"));
                };
                let (spec, end) = parse(format, at + 1)?;
                self.convert(&spec, arg)?;
                at = end;
            }
        }
        Ok(())
    }

    fn convert(&mut self, spec: &Spec, arg: u64) -> Result<(), Problem> {
        match spec.kind {
            Conversion::Integer {
                bytes,
                signed,
                base,
            } => {
                self.take_aligned(bytes)?;
                let (negative, magnitude) = match (signed, bytes) {
                    (true, 4) => ((arg as i32) < 0, u64::from((arg as i32).unsigned_abs())),
                    (true, _) => ((arg as i64) < 0, (arg as i64).unsigned_abs()),
                    (false, 4) => (false, u64::from(arg as u32)),
                    (false, _) => (false, arg),
                };
                let sign = match (signed, negative) {
                    (true, true) => "-",
                    (true, false) if spec.plus => "+",
                    (true, false) if spec.space => " ",
                    _ => "",
                };
                let digits = match base {
                    Base::Decimal => format!("{magnitude}"),
                    Base::LowerHex => format!("{magnitude:x}"),
                    Base::UpperHex => format!("{magnitude:X}"),
                };
                self.output.number(spec, sign, &digits);
            }
            Conversion::Pointer => {
                self.take_aligned(8)?;
                let id = self.memory.pointer_id(arg);
                let spec = match spec.width {
                    0 => Spec {
                        width: 16,
                        zero: true,
                        ..*spec
                    },
                    _ => *spec,
                };
                self.output.number(&spec, "", &format!("{id:x}"));
            }
            Conversion::Char => {
                self.take(1)?;
                self.output.padded(spec, &[arg as u8]);
            }
            Conversion::String => {
                let room = ARG_BYTES_MAX - self.arg_bytes;
                if room == 0 {
                    return Err(Problem::NoSpace);
                }
                let text = self.memory.c_string(arg, room).unwrap_or_default();
                self.take((text.len() + 1).min(room))?;
                // A string that fills the buffer loses its last byte to the NUL.
                let kept = text.len().min(room - 1);
                self.output.padded(spec, &text[..kept]);
            }
        }
        Ok(())
    }

    fn take_aligned(&mut self, bytes: usize) -> Result<(), Problem> {
        self.arg_bytes = self.arg_bytes.next_multiple_of(4);
        self.take(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        self.arg_bytes += bytes;
        if self.arg_bytes > ARG_BYTES_MAX {
            Err(Problem::NoSpace)
        } else {
            Ok(())
        }
    }
}

/// Parses the conversion whose `%` is before `at`; also returns where it ends.
fn parse(format: &[u8], mut at: usize) -> Result<(Spec, usize), Problem> {
    let byte = |at: usize| format.get(at).copied().unwrap_or(0);
    let mut spec = Spec::default();
    loop {
        match byte(at) {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        at += 1;
    }
    while byte(at).is_ascii_digit() {
        spec.width = (spec.width * 10 + usize::from(byte(at) - b'0')).min(WIDTH_MAX);
        at += 1;
    }
    let (kind, end) = match byte(at) {
        b'p' => pointer(format, at)?,
        b's' => (Conversion::String, delimited(format, at + 1)?),
        b'c' => (Conversion::Char, at + 1),
        _ => integer(format, at)?,
    };
    Ok((Spec { kind, ..spec }, end))
}

fn integer(format: &[u8], at: usize) -> Result<(Conversion, usize), Problem> {
    let longs = format[at..]
        .iter()
        .take(2)
        .take_while(|&&byte| byte == b'l')
        .count();
    let bytes = if longs > 0 { 8 } else { 4 };
    let (signed, base) = match format.get(at + longs) {
        Some(b'd' | b'i') => (true, Base::Decimal),
        Some(b'u') => (false, Base::Decimal),
        Some(b'x') => (false, Base::LowerHex),
        Some(b'X') => (false, Base::UpperHex),
        _ => return Err(Problem::Invalid(at + longs, "an unknown conversion")),
    };
    Ok((
        Conversion::Integer {
            bytes,
            signed,
            base,
        },
        at + longs + 1,
    ))
}

/// `p` is at `at`.
fn pointer(format: &[u8], at: usize) -> Result<(Conversion, usize), Problem> {
    let unsupported = |len: usize| {
        let conversion = String::from_utf8_lossy(&format[at..at + len]).into_owned();
        Err(Problem::Unsupported(conversion))
    };
    match (format.get(at + 1), format.get(at + 2)) {
        (Some(b'k'), Some(b's')) => Ok((Conversion::String, delimited(format, at + 3)?)),
        (Some(b'x' | b'K'), _) => Ok((Conversion::Pointer, at + 2)),
        (Some(b'u'), Some(b's')) | (Some(b'i' | b'I'), Some(b'4' | b'6')) => unsupported(3),
        (Some(b's' | b'S' | b'B'), _) => unsupported(2),
        _ => Ok((Conversion::Pointer, delimited(format, at + 1)?)),
    }
}

/// `at`, if no letter or digit follows there.
fn delimited(format: &[u8], at: usize) -> Result<usize, Problem> {
    match format.get(at) {
        Some(&byte) if !is_space(byte) && !byte.is_ascii_punctuation() => Err(Problem::Invalid(
            at,
            "neither space nor punctuation after %s or %p",
        )),
        _ => Ok(at),
    }
}

/// isspace().
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Text up to a limit, and its length without the limit.
struct Output<'a> {
    text: &'a mut Vec<u8>,
    len: usize,
    limit: usize,
}

impl Output<'_> {
    fn push(&mut self, byte: u8) {
        self.repeat(byte, 1);
    }

    fn repeat(&mut self, byte: u8, times: usize) {
        let room = self.limit - self.text.len();
        self.text.resize(self.text.len() + times.min(room), byte);
        self.len += times;
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = self.limit - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len();
    }

    /// Spaces on the left, or with `-` on the right.
    fn padded(&mut self, spec: &Spec, bytes: &[u8]) {
        let pad = spec.width.saturating_sub(bytes.len());
        self.repeat(b' ', if spec.left { 0 } else { pad });
        self.extend(bytes);
        self.repeat(b' ', if spec.left { pad } else { 0 });
    }

    /// As `padded`, but with `0` (and no `-`) zeroes between sign and digits.
    fn number(&mut self, spec: &Spec, sign: &str, digits: &str) {
        let zeroes = match spec.zero && !spec.left {
            true => spec.width.saturating_sub(sign.len() + digits.len()),
            false => 0,
        };
        let pad = spec
            .width
            .saturating_sub(sign.len() + zeroes + digits.len());
        self.repeat(b' ', if spec.left { 0 } else { pad });
        self.extend(sign.as_bytes());
        self.repeat(b'0', zeroes);
        self.extend(digits.as_bytes());
        self.repeat(b' ', if spec.left { pad } else { 0 });
    }
}

#[cfg(test)]
mod tests;
