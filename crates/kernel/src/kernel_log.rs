// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel itself says during a run: a scheduler that works leaves its log clean.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// The longest record that the kernel hands out (PRINTKRB_RECORD_MAX is 1 KiB, and escapes lengthen it), bytes.
const RECORD_BYTES: usize = 8192;
/// Lines that are kept of a run: a warning with its call trace fits.
const LINES: usize = 60;
/// KERN_ERR: from here on down it is serious whatever it says.
const ERROR: u32 = 3;
/// What else is: WARN_ON and lockdep, oopses, stalls of RCU, tasks that hang.
const SERIOUS: [&str; 5] = ["WARNING: ", "BUG: ", "Oops", "rcu: INFO: ", "INFO: task "];

/// The log from a certain moment on. Without the right to read it, it is empty.
pub struct KernelLog(Option<File>);

impl KernelLog {
    pub fn from_now_on() -> Self {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg");
        Self(file.ok().filter(|mut f| f.seek(SeekFrom::End(0)).is_ok()))
    }

    /// Errors and warnings since then; of a warning, all that comes below it.
    pub fn complaints(self) -> Vec<String> {
        let Some(mut file) = self.0 else {
            return Vec::new();
        };
        let mut records = Vec::new();
        let mut buffer = [0; RECORD_BYTES];
        // A read gives one record, an error when there is no more, and another one when some have been overwritten.
        loop {
            match file.read(&mut buffer) {
                Ok(length) if length > 0 => {
                    records.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
                }
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                _ => return serious(&records),
            }
        }
    }
}

/// The serious among records such as "4,512,7031,-;WARNING: CPU: 0", and the traces that follow a warning.
fn serious(records: &[String]) -> Vec<String> {
    let mut in_trace = false;
    let mut lines = Vec::new();
    for record in records {
        let Some((head, text)) = record.split_once(';') else {
            continue;
        };
        let text = text.lines().next().unwrap_or_default();
        let priority = head.split(',').next().and_then(|p| p.parse::<u32>().ok());
        // The lower three bits are the level; above them is who wrote it: 0 is the kernel.
        let Some(level) = priority.filter(|p| p >> 3 == 0) else {
            continue;
        };
        let starts = SERIOUS.iter().any(|serious| text.contains(serious));
        in_trace = (in_trace || starts) && !text.starts_with("---[ end trace");
        if (starts || in_trace || level <= ERROR) && lines.len() < LINES {
            lines.push(text.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_serious_is_kept_with_its_trace() {
        let records = [
            "6,1,10,-;sched_ext: BPF scheduler \"fifo\" enabled\n",
            "4,2,11,-;hrtimer: interrupt took 12 ns\n",
            "4,3,12,-;WARNING: CPU: 0 PID: 7 at kernel/sched/ext.c:1 f+0x1/0x2\n SUBSYSTEM=cpu\n",
            "4,4,13,-;Call Trace:\n",
            "4,5,14,-;---[ end trace 0000000000000000 ]---\n",
            "11,6,15,-;a program's own word, at level 3\n",
            "6,7,16,-;quiet again\n",
            "3,8,17,-;sched_ext: fifo: runnable task stall\n",
        ];
        let expected = [
            "WARNING: CPU: 0 PID: 7 at kernel/sched/ext.c:1 f+0x1/0x2",
            "Call Trace:",
            "sched_ext: fifo: runnable task stall",
        ];
        assert_eq!(serious(&records.map(str::to_owned)), expected);
    }
}
