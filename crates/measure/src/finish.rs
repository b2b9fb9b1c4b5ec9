// SPDX-License-Identifier: GPL-2.0-or-later
//! From the recorder's counters to the summary of the run.

use crate::grid::Grid;
use crate::recorder::{Class, Recorder};
use crate::states::State;
use crate::summary::*;
use crate::task::{App, Facts, NONE, Task};
use std::cmp::Reverse;
use tiltyard_model::is_shells_name;

impl Recorder {
    /// Ends the window at `end_ns` on the arena's clock, or at the last event if that came later.
    pub fn finish(mut self, end_ns: u64) -> Summary {
        let end_ns = end_ns.max(self.states.now_ns()).max(self.spec.origin_ns);
        self.cross(end_ns);
        self.settle_all(end_ns);
        let tasks = self.busiest();
        let apps = (0..self.apps.len())
            .map(|app| self.app_summary(app, end_ns))
            .collect();
        let app_name = |app: u32| self.app_name(app);
        let summaries = self
            .probes
            .iter()
            .map(|p| p.summary(&self.fine, &self.coarse, app_name));
        let probes = summaries.filter(|p| !(p.apps.is_empty() && p.keys.is_empty()));
        Summary {
            format: SUMMARY_FORMAT,
            duration_ns: end_ns - self.spec.origin_ns,
            starvation_ns: self.spec.starvation_ns,
            events: self.events,
            irregular: self.irregular + self.states.irregular(),
            cpus: self.cpu_summaries(),
            apps,
            tasks_left_out: (self.tasks.len() - tasks.len()) as u64,
            tasks: tasks
                .into_iter()
                .map(|slot| self.task_summary(slot, end_ns))
                .collect(),
            requests: self.request_summaries(),
            marks: self.mark_summaries(),
            switches: self.switches,
            preemptions: self.preemptions(),
            migrations: self.migrations,
            overhead: self.overhead.into(),
            starvation: self.starvation_summaries(),
            runtime: self.runtime_series(end_ns),
            depth: self.depth_series(end_ns),
            probes: probes.collect(),
        }
    }

    /// Accounts what is under way when the window ends, and the last, open bucket of each series.
    fn settle_all(&mut self, end_ns: u64) {
        self.states.advance(end_ns);
        for cpu in 0..self.cpus.len() {
            self.pass_cpu(cpu, end_ns, NONE);
            self.cpus[cpu].depth.close(end_ns, self.spec.origin_ns);
        }
        self.waste.close(end_ns);
        for app in &mut self.apps {
            app.longest_over_ns = app.longest_wait_ns;
        }
        for slot in self.states.slots() {
            let transition = self.states.close(slot);
            self.account(transition);
        }
        for probe in &mut self.probes {
            probe.close_fine(false);
            probe.close_coarse(false);
        }
    }

    fn since_origin(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.spec.origin_ns)
    }

    fn app_name(&self, app: u32) -> String {
        let app = self.apps.get(app as usize);
        app.map(|app| app.name.clone()).unwrap_or_default()
    }

    /// The slots of the [`MAX_TASKS`] tasks with the most runtime and wait; in order of tid, then birth.
    fn busiest(&self) -> Vec<usize> {
        let by_birth = |slot: &u32| {
            let facts = &self.facts[*slot as usize];
            (facts.tid, self.since_origin(facts.born_ns), *slot)
        };
        let mut slots: Vec<u32> = (0..self.tasks.len() as u32).collect();
        if slots.len() > MAX_TASKS {
            slots.select_nth_unstable_by_key(MAX_TASKS, |slot| {
                let task = &self.tasks[*slot as usize];
                (Reverse(task.runtime_ns + task.wait_ns), by_birth(slot))
            });
            slots.truncate(MAX_TASKS);
        }
        slots.sort_unstable_by_key(by_birth);
        slots.into_iter().map(|slot| slot as usize).collect()
    }

    fn lifetime_ns(&self, slot: usize, end_ns: u64) -> u64 {
        let facts = &self.facts[slot];
        let last_ns = self.since_origin(facts.ended_ns().unwrap_or(end_ns));
        last_ns.saturating_sub(self.since_origin(facts.born_ns))
    }

    fn task_summary(&self, slot: usize, end_ns: u64) -> TaskSummary {
        let (task, facts): (&Task, &Facts) = (&self.tasks[slot], &self.facts[slot]);
        let wakeup = match &facts.end {
            Some(end) => end.wakeup.clone(),
            None => task.wakeup.summary(),
        };
        let summary = TaskSummary {
            tid: facts.tid,
            tgid: facts.tgid,
            name: facts.name.as_str().to_owned(),
            app: self.app_name(task.app),
            nice: facts.nice,
            started_ns: self.since_origin(facts.born_ns),
            ended_ns: facts.ended_ns().map(|ns| self.since_origin(ns)),
            lifetime_ns: self.lifetime_ns(slot, end_ns),
            runtime_ns: task.runtime_ns,
            wait_ns: task.wait_ns,
            sleep_ns: task.sleep_ns,
            overhead_ns: task.overhead_ns,
            wakeups: task.wakeups,
            wakeup,
            longest_wait_ns: task.longest_wait_ns,
            starved_episodes: task.starved_episodes,
            starved_ns: task.starved_ns,
            switches: task.switches,
            migrations: task.migrations,
            preempted_by: task.preemptors.top(),
        };
        debug_assert_eq!(
            summary.runtime_ns + summary.wait_ns + summary.sleep_ns,
            summary.lifetime_ns,
            "runtime + wait + sleep = lifetime of {} ({})",
            facts.tid,
            facts.name.as_str()
        );
        summary
    }

    fn app_summary(&self, app: usize, end_ns: u64) -> AppSummary {
        let state: &App = &self.apps[app];
        let slots: Vec<usize> = (0..self.tasks.len())
            .filter(|slot| self.tasks[*slot].app as usize == app)
            .collect();
        let tasks = || slots.iter().map(|slot| &self.tasks[*slot]);
        let sum = |of: fn(&Task) -> u64| tasks().map(of).sum();
        let mut switches = Switches::default();
        tasks().for_each(|task| switches.add(&task.switches));
        let started_ns = |slot: usize| self.since_origin(self.facts[slot].born_ns);
        // All but the shell, which is an artefact of how workloads are started. It counts in what adds up to the
        // machine's.
        let own_slots = slots.iter().copied();
        let own_slots = own_slots.filter(|slot| !self.tasks[*slot].is_shell());
        let own = || own_slots.clone().map(|slot| &self.tasks[slot]);
        // If its shell could not start a task, the whole app waited. A row that is only a shell for another reason has another name.
        let is_its_shell =
            |slot: &usize| is_shells_name(self.facts[*slot].name.as_str(), &state.name);
        let kept_out_ns = match slots.iter().all(is_its_shell) {
            true => sum(|t| t.wait_ns),
            false => 0,
        };
        let duration_ns = self.since_origin(end_ns);
        let is_kept_out = kept_out_ns > self.spec.starvation_ns;
        let kept_out_ns = if is_kept_out { kept_out_ns } else { 0 };
        let longest_wait_ns = state.longest_wait_ns.max(kept_out_ns);
        AppSummary {
            app: state.name.clone(),
            tasks: own().count() as u64,
            started_ns: slots
                .iter()
                .map(|slot| started_ns(*slot))
                .min()
                .unwrap_or(0),
            ended_ns: self.last_end_ns(slots.iter().copied()),
            completed_ns: self.last_end_ns(own_slots.clone()),
            active_ns: (state.active_from_ns <= state.active_until_ns).then(|| {
                let (first_ns, last_ns) = (state.active_from_ns, state.active_until_ns);
                (self.since_origin(first_ns), self.since_origin(last_ns))
            }),
            runtime_ns: sum(|t| t.runtime_ns),
            wait_ns: sum(|t| t.wait_ns),
            sleep_ns: sum(|t| t.sleep_ns),
            overhead_ns: sum(|t| t.overhead_ns),
            wait: state.wakeup.and(&state.other_wait).summary(),
            wakeup: state.wakeup.summary(),
            longest_wait_ns,
            longest_wait_cut: longest_wait_ns > state.longest_over_ns,
            starved_tasks: own().filter(|t| t.starved_episodes > 0).count() as u64
                + u64::from(is_kept_out),
            never_ran: own()
                .filter(|t| t.runtime_ns == 0 && t.wait_ns > 0 && 10 * t.wait_ns >= duration_ns)
                .count() as u64,
            starved_episodes: state.starved_episodes + u64::from(is_kept_out),
            starved_ns: state.starved_ns + kept_out_ns,
            switches,
            migrations: sum(|t| t.migrations),
            request_classes: Vec::new(),
            fairness: fairness(own_slots.clone().map(|slot| {
                let runtime_ns = self.tasks[slot].runtime_ns;
                (runtime_ns, self.lifetime_ns(slot, end_ns))
            })),
        }
    }

    fn cpu_summaries(&self) -> Vec<CpuSummary> {
        let cpus = self.cpus.iter().enumerate();
        cpus.map(|(number, cpu)| CpuSummary {
            busy_ns: cpu.busy_ns,
            idle_ns: cpu.idle_ns,
            overhead_ns: cpu.overhead_ns,
            wasted_ns: self.waste.wasted_ns(number).map(|all| all.iter().sum()),
            switches: cpu.switches,
            migrations_in: cpu.migrations_in,
        })
        .collect()
    }

    /// When the last of these tasks ended; `None` while one lives.
    fn last_end_ns(&self, slots: impl Iterator<Item = usize> + Clone) -> Option<u64> {
        let mut all = slots.clone();
        let all_ended = all.all(|slot| self.states.state(slot) == State::Dead);
        let last_ns = slots.filter_map(|slot| self.facts[slot].ended_ns()).max();
        last_ns
            .filter(|_| all_ended)
            .map(|ns| self.since_origin(ns))
    }

    fn request_summaries(&self) -> Vec<RequestSummary> {
        let of_class = |class: &Class| {
            let of_app = class.requests.iter().map(|(app, requests)| RequestSummary {
                class: class.name.clone(),
                app: self.app_name(*app),
                latency: requests.latency.summary(),
                first_begin_ns: self.since_origin(requests.first_begin_ns),
                last_end_ns: self.since_origin(requests.last_end_ns),
            });
            of_app.collect::<Vec<_>>()
        };
        self.classes.iter().flat_map(of_class).collect()
    }

    fn mark_summaries(&self) -> Vec<MarkSummary> {
        let passed = self.classes.iter().filter(|c| c.marks > 0);
        passed
            .map(|class| MarkSummary {
                mark: class.name.clone(),
                count: class.marks,
                first_ns: self.since_origin(class.first_mark_ns),
                last_ns: self.since_origin(class.last_mark_ns),
            })
            .collect()
    }

    fn preemptions(&self) -> Vec<Preemption> {
        let mut pairs = Vec::new();
        for app in &self.apps {
            for (by, &count) in app.preempted_by.iter().enumerate().filter(|(_, c)| **c > 0) {
                pairs.push(Preemption {
                    by: self.app_name(by as u32),
                    of: app.name.clone(),
                    count,
                });
            }
        }
        pairs.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.by, &a.of).cmp(&(&b.by, &b.of)))
        });
        pairs
    }

    fn starvation_summaries(&self) -> Vec<Starvation> {
        let episodes = self.starvation.iter();
        episodes
            .map(|episode| Starvation {
                tid: self.facts[episode.slot as usize].tid,
                app: self.app_name(self.tasks[episode.slot as usize].app),
                begin_ns: self.since_origin(episode.begin_ns),
                wait_ns: episode.wait_ns,
                open: episode.open,
            })
            .collect()
    }

    fn runtime_series(&self, end_ns: u64) -> RuntimeSeries {
        let duration_ns = self.since_origin(end_ns);
        let mut at_ns = self.fine.begins_ns();
        let partial = at_ns.last().is_none_or(|&ns| ns < duration_ns);
        at_ns.extend(partial.then_some(duration_ns));
        let curve = |app: &App| {
            let mut runtime_ns = vec![0];
            runtime_ns.extend(&app.runtime_samples);
            runtime_ns.extend(partial.then_some(app.settled_ns));
            AppRuntime {
                app: app.name.clone(),
                runtime_ns,
            }
        };
        RuntimeSeries {
            apps: self.apps.iter().map(curve).collect(),
            at_ns,
        }
    }

    fn depth_series(&self, end_ns: u64) -> DepthSeries {
        let duration_ns = self.since_origin(end_ns);
        let begin_ns = begun(&self.coarse, duration_ns);
        let ends = begin_ns
            .iter()
            .map(|&ns| (ns + self.coarse.width_ns).min(duration_ns));
        let spans: Vec<u64> = ends
            .zip(&begin_ns)
            .map(|(end, begin)| end - begin)
            .collect();
        let cpus = self.cpus.iter().enumerate().map(|(number, cpu)| {
            let buckets = cpu.depth.closed.iter().zip(&spans);
            CpuDepth {
                mean_milli: buckets
                    .clone()
                    .map(|(b, &span)| (u128::from(b.area) * 1000 / u128::from(span)) as u64)
                    .collect(),
                max: buckets.map(|(b, _)| b.max).collect(),
                wasted_ns: self.waste.wasted_ns(number).map(|mut wasted_ns| {
                    wasted_ns.truncate(spans.len());
                    wasted_ns
                }),
            }
        });
        DepthSeries {
            cpus: cpus.collect(),
            begin_ns,
        }
    }
}

/// Begins of the buckets that hold any time at all.
fn begun(grid: &Grid, duration_ns: u64) -> Vec<u64> {
    let begins = grid.begins_ns().into_iter();
    begins.filter(|&ns| ns < duration_ns).collect()
}

/// `tasks`: runtime and lifetime of each; one without a lifetime does not count.
fn fairness(tasks: impl Iterator<Item = (u64, u64)>) -> Fairness {
    const PPM: u128 = 1_000_000;
    let lived = tasks.filter(|(_, lifetime_ns)| *lifetime_ns > 0);
    let mut shares_ppm: Vec<u128> = lived
        .map(|(runtime_ns, lifetime_ns)| u128::from(runtime_ns) * PPM / u128::from(lifetime_ns))
        .collect();
    shares_ppm.sort_unstable();
    let n = shares_ppm.len();
    let sum: u128 = shares_ppm.iter().sum();
    let squares: u128 = shares_ppm.iter().map(|x| x * x).sum();
    if n == 0 || squares == 0 {
        return Fairness::default();
    }
    Fairness {
        share_min_ppm: shares_ppm[0] as u32,
        share_median_ppm: shares_ppm[n / 2] as u32,
        share_max_ppm: shares_ppm[n - 1] as u32,
        jain_ppm: (sum * sum * PPM / (n as u128 * squares)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::fairness;

    #[test]
    fn jains_index_of_known_shares() {
        let equal = fairness([(5, 10), (50, 100)].into_iter());
        assert_eq!(
            (equal.jain_ppm, equal.share_median_ppm),
            (1_000_000, 500_000)
        );
        let one_of_four = fairness([(0, 10), (10, 10), (0, 10), (0, 10)].into_iter());
        assert_eq!(
            (one_of_four.jain_ppm, one_of_four.share_max_ppm),
            (250_000, 1_000_000)
        );
        assert_eq!(fairness([(0, 0)].into_iter()).jain_ppm, 0);
        // Of an even number, the upper one of the two in the middle.
        let four = fairness([(3, 10), (1, 10), (4, 10), (2, 10)].into_iter());
        assert_eq!(four.share_median_ppm, 300_000);
    }
}
