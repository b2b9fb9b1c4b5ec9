// SPDX-License-Identifier: GPL-2.0-or-later
//! One call of an [`EventSink`] as bytes: a tag, then its fields. docs/reference/event-files.md has the same as a table.

use std::ops::Range;

use tiltyard_model::event::code;
use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SwitchCause, TaskInfo,
    Tid, is_shells_name,
};

use crate::bytes::{Bytes, Wrong, put, put_text, zigzag};
use crate::check::Check;

/// Longest name of anything, bytes. Names of threads have 15 at most.
pub const MAX_NAME_BYTES: usize = 1 << 16;

/// Tags of all that is no event; an event's is its code.
mod tag {
    pub const TASK: u8 = 0x80;
    pub const REQUEST_CLASS: u8 = 0x81;
    pub const PROBE_NAME: u8 = 0x82;
    pub const CALLBACK_NAME: u8 = 0x83;
    pub const PLACE_NAME: u8 = 0x84;
    pub const CPU_SET: u8 = 0x85;
    /// As `code::OVERHEAD`, with one number more, for the search for a CPU: rarer than the others.
    pub const OVERHEAD_WITH_SEARCH: u8 = 14;
}

pub fn put_task(out: &mut Vec<u8>, info: &TaskInfo) {
    out.push(tag::TASK);
    for id in [info.tid, info.tgid, info.parent] {
        put(out, id.0.into());
    }
    put_text(out, &info.name);
    put_text(out, &info.app);
    put(out, zigzag(info.nice.into()));
    put(out, info.born_ns);
}

pub fn put_request_class(out: &mut Vec<u8>, class: u16, name: &str) {
    put_name(out, tag::REQUEST_CLASS, class, name);
}

pub fn put_probe_name(out: &mut Vec<u8>, probe: u16, name: &str, per_cpu: bool) {
    put_name(out, tag::PROBE_NAME, probe, name);
    out.push(per_cpu.into());
}

pub fn put_callback_name(out: &mut Vec<u8>, callback: u16, name: &str) {
    put_name(out, tag::CALLBACK_NAME, callback, name);
}

pub fn put_place_name(out: &mut Vec<u8>, place: u16, name: &str) {
    put_name(out, tag::PLACE_NAME, place, name);
}

/// Each range as the distance from the end of the one before (0 for the first) and its length.
pub fn put_cpu_set(out: &mut Vec<u8>, set: u32, cpus: &[Range<u32>]) {
    out.push(tag::CPU_SET);
    put(out, set.into());
    put(out, cpus.len() as u64);
    let mut last = 0;
    for range in cpus {
        put(out, (range.start - last).into());
        put(out, (range.end - range.start).into());
        last = range.end;
    }
}

fn put_name(out: &mut Vec<u8>, tag: u8, number: u16, name: &str) {
    out.push(tag);
    put(out, number.into());
    put_text(out, name);
}

/// `last_ns`: the time of the event before, 0 for the first.
pub fn put_event(out: &mut Vec<u8>, last_ns: u64, event: &Event) {
    out.push(match &event.kind {
        EventKind::Overhead(overhead) if overhead.ns(OverheadCause::SelectCpu) > 0 => {
            tag::OVERHEAD_WITH_SEARCH
        }
        kind => kind.code(),
    });
    put(out, event.time_ns.wrapping_sub(last_ns));
    put(out, event.cpu.0.into());
    let mut put_all = |fields: &[u64]| fields.iter().for_each(|field| put(out, *field));
    match event.kind {
        EventKind::Switch {
            prev,
            prev_state,
            cause,
            next,
        } => {
            let how = prev_state as u8 | (cause as u8) << 2;
            put_all(&[prev.0.into(), how.into(), next.0.into()]);
        }
        EventKind::Wakeup {
            task,
            waker,
            target,
        } => put_all(&[task.0.into(), waker.0.into(), target.0.into()]),
        EventKind::WakeupNew { task, target } => put_all(&[task.0.into(), target.0.into()]),
        EventKind::Migrate { task, from, to } => {
            put_all(&[task.0.into(), from.0.into(), to.0.into()]);
        }
        EventKind::Fork { parent, child } => put_all(&[parent.0.into(), child.0.into()]),
        EventKind::Exit { task } => put_all(&[task.0.into()]),
        EventKind::Nice { task, nice } => put_all(&[task.0.into(), zigzag(nice.into())]),
        EventKind::Affinity { task, set } => put_all(&[task.0.into(), set.into()]),
        EventKind::Request {
            task,
            class,
            start_ns,
        } => {
            let took_ns = event.time_ns.wrapping_sub(start_ns);
            put_all(&[task.0.into(), class.into(), took_ns]);
        }
        EventKind::Mark { task, class } => put_all(&[task.0.into(), class.into()]),
        EventKind::Probe { probe, key, value } => {
            put_all(&[probe.into(), key.into(), zigzag(value)]);
        }
        EventKind::Access {
            call,
            callback,
            place,
            index,
            write,
        } => put_all(&[call, callback.into(), place.into(), index, write.into()]),
        EventKind::RunqueueLock { of, taken } => put_all(&[of.0.into(), taken.into()]),
        EventKind::Overhead(overhead) => {
            let ns = OverheadCause::ALL.map(|cause| overhead.ns(cause));
            let (search_ns, others) = ns.split_last().expect("there are causes");
            put_all(others);
            if *search_ns > 0 {
                put_all(&[*search_ns]);
            }
        }
    }
}

/// Sends the record at the front of `bytes` to `sink`, if `check` allows it.
pub fn replay(bytes: &mut Bytes, check: &mut Check, sink: &mut dyn EventSink) -> Result<(), Wrong> {
    let tag = bytes.u8()?;
    if tag == tag::TASK {
        let info = task(bytes)?;
        check.task(&info)?;
        sink.task(&info);
        return Ok(());
    }
    if tag == tag::CPU_SET {
        let (set, cpus) = cpu_set(bytes)?;
        check.cpu_set(set, &cpus)?;
        sink.cpu_set(set, &cpus);
        return Ok(());
    }
    if tag > tag::TASK {
        let (number, name) = (bytes.u16()?, bytes.text()?);
        check.name(&name)?;
        match tag {
            tag::REQUEST_CLASS => sink.request_class(number, &name),
            tag::PROBE_NAME => sink.probe_name(number, &name, bytes.flag()?),
            tag::CALLBACK_NAME => sink.callback_name(number, &name),
            tag::PLACE_NAME => sink.place_name(number, &name),
            _ => return Err(Wrong),
        }
        return Ok(());
    }
    let event = event(tag, check.last_ns, bytes)?;
    check.event(&event)?;
    sink.event(&event);
    Ok(())
}

fn task(bytes: &mut Bytes) -> Result<TaskInfo, Wrong> {
    let (tid, tgid, parent) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let (name, app) = (bytes.text()?, bytes.text()?);
    Ok(TaskInfo {
        tid: Tid(tid),
        tgid: Tid(tgid),
        parent: Tid(parent),
        is_shell: is_shells_name(&name, &app),
        name,
        app,
        nice: bytes.i8()?,
        born_ns: bytes.u64()?,
    })
}

fn cpu_set(bytes: &mut Bytes) -> Result<(u32, Vec<Range<u32>>), Wrong> {
    let (set, count) = (bytes.u32()?, bytes.u32()?);
    let (mut cpus, mut last) = (Vec::new(), 0u32);
    for _ in 0..count {
        let start = last.checked_add(bytes.u32()?).ok_or(Wrong)?;
        last = start.checked_add(bytes.u32()?).ok_or(Wrong)?;
        cpus.push(start..last);
    }
    Ok((set, cpus))
}

fn event(code: u8, last_ns: u64, bytes: &mut Bytes) -> Result<Event, Wrong> {
    let time_ns = last_ns.checked_add(bytes.u64()?).ok_or(Wrong)?;
    let cpu = Cpu(bytes.u32()?);
    let mut tid = || Ok(Tid(bytes.u32()?));
    // Rust evaluates the fields of a struct expression in the order in which they are written, which is the file's.
    let kind = match code {
        code::SWITCH => {
            let prev = tid()?;
            let how = bytes.u8()?;
            let state = PrevState::ALL.get(usize::from(how & 3));
            let cause = SwitchCause::ALL.get(usize::from(how >> 2));
            EventKind::Switch {
                prev,
                prev_state: *state.ok_or(Wrong)?,
                cause: *cause.ok_or(Wrong)?,
                next: Tid(bytes.u32()?),
            }
        }
        code::WAKEUP => EventKind::Wakeup {
            task: tid()?,
            waker: tid()?,
            target: Cpu(bytes.u32()?),
        },
        code::WAKEUP_NEW => EventKind::WakeupNew {
            task: tid()?,
            target: Cpu(bytes.u32()?),
        },
        code::MIGRATE => EventKind::Migrate {
            task: tid()?,
            from: Cpu(bytes.u32()?),
            to: Cpu(bytes.u32()?),
        },
        code::FORK => EventKind::Fork {
            parent: tid()?,
            child: tid()?,
        },
        code::EXIT => EventKind::Exit { task: tid()? },
        code::NICE => EventKind::Nice {
            task: tid()?,
            nice: bytes.i8()?,
        },
        code::AFFINITY => EventKind::Affinity {
            task: tid()?,
            set: bytes.u32()?,
        },
        code::REQUEST => EventKind::Request {
            task: tid()?,
            class: bytes.u16()?,
            start_ns: time_ns.wrapping_sub(bytes.u64()?),
        },
        code::MARK => EventKind::Mark {
            task: tid()?,
            class: bytes.u16()?,
        },
        code::PROBE => EventKind::Probe {
            probe: bytes.u16()?,
            key: bytes.u32()?,
            value: bytes.i64()?,
        },
        code::ACCESS => EventKind::Access {
            call: bytes.u64()?,
            callback: bytes.u16()?,
            place: bytes.u16()?,
            index: bytes.u64()?,
            write: bytes.flag()?,
        },
        code::RUNQUEUE_LOCK => EventKind::RunqueueLock {
            of: Cpu(bytes.u32()?),
            taken: bytes.flag()?,
        },
        code::OVERHEAD | tag::OVERHEAD_WITH_SEARCH => {
            let mut overhead = Overhead::default();
            let all = OverheadCause::ALL;
            let there = all.len() - usize::from(code == code::OVERHEAD);
            for cause in &all[..there] {
                overhead.charge(*cause, bytes.u64()?);
            }
            EventKind::Overhead(overhead)
        }
        _ => return Err(Wrong),
    };
    Ok(Event { time_ns, cpu, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of docs/reference/event-files.md.
    #[test]
    fn the_example_of_the_page_is_what_is_written() {
        let mut out = Vec::new();
        put_task(
            &mut out,
            &TaskInfo {
                tid: Tid(300),
                tgid: Tid(300),
                parent: Tid(1),
                name: "worker".to_owned(),
                app: "db".to_owned(),
                nice: -5,
                born_ns: 0,
                is_shell: false,
            },
        );
        let switch = Event {
            time_ns: 1_000,
            cpu: Cpu(2),
            kind: EventKind::Switch {
                prev: Tid(300),
                prev_state: PrevState::Sleeping,
                cause: SwitchCause::Block,
                next: Tid(0),
            },
        };
        put_event(&mut out, 0, &switch);
        let hex: Vec<String> = out.iter().map(|byte| format!("{byte:02x}")).collect();
        let page = include_str!("../../../docs/reference/event-files.md");
        assert!(page.contains(&hex.join(" ")), "{}", hex.join(" "));
    }
}
