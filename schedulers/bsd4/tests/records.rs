// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded decisions of the original, and their comparison.
//!
//! decisions.jsonl.zst: 3546 decisions and schedules of FreeBSD's 4BSD, compiled in user space and run on made-up states of
//! machines: `sys/kern/sched_4bsd.c` of 10-CURRENT (projects/armv6 r234858, May 2012) and, where a record has both, of
//! stable/11 (r303160, July 2016). Facts: inputs and outputs, no code. One JSON object a line; `zstdcat` shows them.

use serde_json::Value;
use std::fmt::Debug;

/// Why a record, or a part of it, is not compared.
pub type Reason = &'static str;

pub enum Compared {
    Whole,
    Part(Reason),
    No(Reason),
}
use Compared::{No, Part, Whole};

pub type Check = Result<Compared, String>;

fn records() -> Vec<Value> {
    let bytes = zstd::decode_all(&include_bytes!("decisions.jsonl.zst")[..]).expect("zstd");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let line = |line: &str| serde_json::from_str(line).expect("JSON");
    text.lines().skip(1).map(line).collect()
}

/// Compares all records of a kind, of which so many are compared in whole, and so many in part or not for each reason.
pub fn compare(
    kind: &str,
    whole: usize,
    rest: &[(Reason, usize)],
    mut check: impl FnMut(&Value, &Value) -> Check,
) {
    let (mut counted, mut wrong) = ((0, Vec::new()), Vec::new());
    for r in records().iter().filter(|r| r["kind"] == kind) {
        match check(&r["in"], &r["out"]) {
            Ok(Whole) => counted.0 += 1,
            Ok(Part(why) | No(why)) => {
                match counted.1.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, nr)) => *nr += 1,
                    None => counted.1.push((why, 1)),
                }
            }
            Err(how) => wrong.push(format!("{} {}: {how}", r["id"], r["note"])),
        }
    }
    let shown: Vec<&str> = wrong.iter().take(6).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{kind}: {} records differ, among them\n{}",
        wrong.len(),
        shown.join("\n")
    );
    counted.1.sort_unstable();
    assert_eq!(counted, (whole, rest.to_vec()), "{kind}: what was compared");
}

pub fn differs<T: PartialEq + Debug + ?Sized>(
    what: &str,
    is: &T,
    should: &T,
) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A number, or what it is if there is none.
pub fn or(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

/// The numbers of an array, none if there is none.
pub fn ints(value: &Value) -> Vec<i64> {
    list(value).iter().map(int).collect()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A mask in hex, bit n for CPU n.
pub fn bits(mask: &Value) -> Option<u64> {
    let hex = mask.as_str()?;
    Some(u64::from_str_radix(hex, 16).expect("hex"))
}

/// CPUs of a mask, ascending.
pub fn cpus(mask: u64) -> Vec<u32> {
    (0..64).filter(|cpu| mask >> cpu & 1 != 0).collect()
}
