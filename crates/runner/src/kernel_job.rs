// SPDX-License-Identifier: GPL-2.0-or-later
//! A job in a real kernel: done, measured, and what its runs leave in files.

use tiltyard_kernel::{Report, Trace, VmJob, here, vm};
use tiltyard_report::timeline::{self, Window};
use tiltyard_tables::RunFiles;
use tiltyard_trace::Ended;
use tiltyard_workload::Workload;

use crate::event_dir::EventDir;
use crate::kernel_runs::{self, Recorded};
use crate::origin::KernelOrigin;
use crate::output::Output;
use crate::simulation;
use crate::tables::Tables;
use crate::threads::{self, Prints};
use crate::{Error, Progress};

/// What to do.
pub struct KernelJob<'a> {
    /// With its schedulers, and a tracer if it is to be measured.
    pub job: &'a VmJob,
    /// In a virtual machine; otherwise on this one, as root.
    pub vm: bool,
    /// CPUs of that machine.
    pub nr_cpus: u32,
    /// The workload that the command runs ([`threads::command`]), if it is one: its runs are then measured from the
    /// workload's start to its end, and what they print is not passed on.
    pub workload: Option<&'a Workload>,
}

/// What runs write besides their results. Files are complete or not there at all.
#[derive(Default)]
pub struct JobOutputs {
    /// A Perfetto trace of the first recorded run.
    pub trace: Option<Output>,
    /// Where tables of events and metrics go.
    pub tables: Option<Tables>,
    /// Where events go.
    pub events: Option<EventDir>,
    /// The part of each run that is kept slice by slice.
    pub timeline: Option<Window>,
}

/// What became of a job.
pub struct Done {
    /// All runs, or those before something ended the job.
    pub report: Report,
    /// The metrics of the recorded ones, in order.
    pub recorded: Vec<Recorded>,
    /// What was requested of them, slice by slice, by their index among the report's runs.
    pub timelines: Vec<(usize, timeline::Recorded)>,
    /// The rest of the outputs.
    pub files: Files,
}

/// Files that lack only what is known when the report exists. What could not be written so far shows at the end: the
/// report is worth more.
pub struct Files {
    trace: Result<(), Error>,
    tables: Option<(Tables, Vec<Result<RunFiles, Error>>)>,
    events: Option<(EventDir, Vec<Result<Ended, Error>>)>,
}

/// Does the job. An error means that there is no report.
pub fn run(of: &KernelJob, outputs: JobOutputs, progress: &dyn Progress) -> Result<Done, Error> {
    let prints = of.workload.map(|_| Prints::default());
    let mut trace = outputs.trace;
    let (mut recorded, mut timelines) = (Vec::new(), Vec::new());
    let (mut files, mut kept, mut written) = (Vec::new(), Vec::new(), Ok(()));
    let mut hear = |mut run: Trace| {
        let outcome = prints.as_ref().and_then(|prints| prints.outcome(run.run));
        if let Some(outcome) = &outcome {
            threads::cut(&mut run, outcome);
        }
        let timeline = outputs.timeline;
        let timeline = timeline.map(|window| kernel_runs::timeline(&run, of.nr_cpus, window));
        timelines.extend(timeline.map(|timeline| (run.run, timeline)));
        let mut measured = kernel_runs::summarise(&run, of.nr_cpus);
        if let (Some(outcome), Some(workload)) = (&outcome, of.workload) {
            threads::fill(&mut measured.summary, outcome);
            simulation::set_classes(&mut measured.summary, workload);
        }
        recorded.push(measured);
        files.extend(outputs.tables.as_ref().map(|tables| tables.recorded(&run)));
        let events = outputs.events.as_ref();
        kept.extend(events.map(|dir| kernel_runs::keep(&run, dir)));
        if let Some(output) = trace.take() {
            written = kernel_runs::write_perfetto(&run, of.nr_cpus, output);
        }
    };
    let mut listener = Listener {
        prints: prints.as_ref(),
        progress,
    };
    let report = match of.vm {
        true => vm::run(of.job, &mut listener, &mut hear),
        false => here::run(of.job, kernel_runs::spread, &mut listener, &mut hear),
    }?;
    Ok(Done {
        report,
        recorded,
        timelines,
        files: Files {
            trace: written,
            tables: outputs.tables.map(|tables| (tables, files)),
            events: outputs.events.map(|events| (events, kept)),
        },
    })
}

impl Files {
    /// Completes them: `recorded` are the runs of the job that `of` describes.
    ///
    /// Each is completed even if another one cannot be.
    pub fn finish(self, recorded: &[Recorded], of: &KernelOrigin) -> Result<(), Error> {
        let tables = self.tables.map_or(Ok(()), |(tables, files)| {
            let mut files: Vec<RunFiles> = files.into_iter().collect::<Result<_, _>>()?;
            files.extend(tables.figures(recorded, of)?);
            tables.finish(files)
        });
        let events = self.events.map_or(Ok(()), |(events, kept)| {
            for (ended, recorded) in kept.into_iter().zip(recorded) {
                events.write(ended?, &of.about(recorded))?;
            }
            events.finish()
        });
        self.trace.and(tables).and(events)
    }
}

/// Passes on progress, and keeps what workloads print.
struct Listener<'a> {
    prints: Option<&'a Prints>,
    progress: &'a dyn Progress,
}

impl tiltyard_kernel::Progress for Listener<'_> {
    fn step(&mut self, what: &str) {
        self.progress.step(what);
    }

    fn output(&mut self, _scheduler: &str, text: &str) {
        match self.prints {
            Some(prints) => prints.output(text),
            None => self.progress.output(text),
        }
    }

    fn ran(&mut self, so_far: &Report) {
        for line in self.prints.map_or(Vec::new(), Prints::run_ended) {
            self.progress.message(&line);
        }
        self.progress.ran(so_far);
    }

    fn stop(&mut self) -> Option<String> {
        self.progress.stop()
    }
}
