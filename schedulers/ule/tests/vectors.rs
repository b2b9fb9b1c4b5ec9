// SPDX-License-Identifier: GPL-2.0-or-later
//! ULE's arithmetic, number by number: the C code itself, built for the simulated machine and called a function at a
//! time through vectors.bpf.c. Times are in hz ticks << 10 unless named otherwise.

use tiltyard_native::{Instance, Value};
use tiltyard_schedtest::{globals, object, vectors};

/// FreeBSD's figures at hz 1000, stathz 127; ties without noise.
const FREEBSD: &[(&str, i128)] = &[("mode", 1), ("hz", 1000), ("search_noise", 0)];
/// The port's figures at HZ 250.
const PORT: &[(&str, i128)] = &[("mode", 0), ("hz", 250), ("search_noise", 0)];

struct Ule {
    instance: Instance,
    setup: [i64; 8],
}

struct Cpus<'a> {
    count: i128,
    /// Last-level cache of each CPU; empty: one for all.
    llc: &'a [u32],
}

const ONE_CPU: Cpus = Cpus { count: 1, llc: &[] };

impl Ule {
    fn new(tunables: &[(&str, i128)]) -> Ule {
        Ule::on(tunables, ONE_CPU)
    }

    fn on(tunables: &[(&str, i128)], cpus: Cpus) -> Ule {
        let mut globals = globals(tunables);
        globals.push(("nr_cpu_ids".to_owned(), Value::Int(cpus.count)));
        let llc: Vec<u8> = cpus.llc.iter().flat_map(|id| id.to_le_bytes()).collect();
        if !llc.is_empty() {
            globals.push(("cpu_llc_id".to_owned(), Value::Bytes(llc)));
        }
        let instance = vectors::load(object("schedulers/ule/tests/vectors.bpf.c", 2), &globals);
        let mut ule = Ule {
            instance,
            setup: [0; 8],
        };
        ule.setup = ule.call("t_setup", &[]);
        ule
    }

    fn call(&self, program: &str, words: &[i64]) -> [i64; 8] {
        vectors::call(&self.instance, program, words).1
    }

    /// Full penalty, penalty, score.
    fn score(&self, run: i64, slept: i64, nice: i64) -> [i64; 3] {
        let out = self.call("t_score", &[run, slept, nice]);
        [out[3], out[4], out[5]]
    }

    fn pri(&self, run: i64, slept: i64, cpu_ticks: i64, window: i64, nice: i64) -> i64 {
        self.call("t_pri", &[run, slept, cpu_ticks, window, nice])[5]
    }

    /// Priority of a task that always runs, from hz ticks on a CPU of a window.
    fn batch_pri(&self, ran: i64, window: i64, nice: i64) -> i64 {
        self.pri(9 << 20, 1, ran << 10, window, nice)
    }

    fn pair(&self, program: &str, a: i64, b: i64) -> (i64, i64) {
        let out = self.call(program, &[a, b]);
        (out[0], out[1])
    }

    fn tickincr(&self) -> i64 {
        self.setup[1]
    }

    /// One more tick of running.
    fn run_tick(&self, history: (i64, i64)) -> (i64, i64) {
        self.pair("t_cap", history.0 + self.tickincr(), history.1)
    }

    fn slice(&self, load: i64) -> i64 {
        self.call("t_slice", &[load])[1]
    }

    /// Slot as a place in the ring.
    fn slot(&self, pri: i64, idx: i64, ridx: i64) -> i64 {
        self.call("t_slot", &[pri, idx, ridx])[3] % self.setup[7]
    }

    fn key(&self, pri: i64, head: bool) -> i64 {
        self.call("t_queue_key", &[0, pri, head.into()])[3]
    }

    fn set_loads(&self, loads: &[i64]) {
        for (cpu, &load) in loads.iter().enumerate() {
            let lowpri = if load == 0 { 255 } else { 180 };
            self.call("t_cpu_set", &[cpu as i64, load, lowpri]);
        }
    }

    fn lowest(&self, cpu: i64, min_pri: i64) -> i64 {
        self.call("t_search", &[cpu, 0, 0, i32::MAX.into(), min_pri, -1, 0])[7]
    }

    /// Most loaded CPU other than `cpu` with at least `limit` tasks.
    fn highest(&self, cpu: i64, limit: i64) -> i64 {
        self.call("t_search", &[cpu, 0, 1, limit, 0, -1, 1])[7]
    }
}

fn ms(ms: i64) -> i64 {
    ms << 10
}

#[test]
fn derived_figures() {
    // error, tickincr, slice, slice_min, longest history, history of a fork, balancer's interval, slots
    assert_eq!(
        Ule::new(FREEBSD).setup,
        [0, 8062, 12, 2, 5_120_000, 512_000, 127, 64]
    );
    assert_eq!(
        Ule::new(PORT).setup,
        [0, 1024, 10, 1, 1_280_000, 128_000, 128, 140]
    );
    let slow = Ule::new(&[("mode", 1), ("hz", 1000), ("stathz", 128)]);
    assert_eq!(slow.tickincr(), 8000);
    let guest = Ule::new(&[("mode", 1), ("hz", 100), ("stathz", 100)]);
    assert_eq!(guest.tickincr(), 1024);
    for bad in [("mode", 2), ("hz", 0), ("history_ms", 0)] {
        assert_eq!(Ule::new(&[bad]).setup[0], -22, "{bad:?}");
    }
    // The port has no statistics clock.
    for (mode, hz, stathz, error) in [(1, 1000, 0, -22), (1, 100, 127, -22), (0, 100, 127, 0)] {
        let set = [("mode", mode), ("hz", hz), ("stathz", stathz)];
        assert_eq!(Ule::new(&set).setup[0], error, "{set:?}");
    }
}

#[test]
fn scores() {
    let (freebsd, port) = (Ule::new(FREEBSD), Ule::new(PORT));
    for (run_ms, slept_ms, native, full) in [
        (0, 0, 50, 0),
        (0, 5000, 0, 0),
        (1000, 3000, 16, 16),
        (3000, 1000, 50, 84),
        (1000, 1000, 50, 50),
        (599, 1000, 29, 29),
        (600, 1000, 30, 30),
        (29, 100, 14, 14),
        (2500, 2499, 50, 51),
        (4999, 1, 50, 100),
        (10, 0, 50, 100),
    ] {
        let (run, slept) = (ms(run_ms), ms(slept_ms));
        assert_eq!(
            freebsd.score(run, slept, 0),
            [full, native, native],
            "{run_ms} {slept_ms}"
        );
        assert_eq!(
            port.score(run, slept, 0),
            [full, full, full],
            "{run_ms} {slept_ms}"
        );
    }
    assert_eq!(port.score(49, 10, 0)[0], 90);
    assert_eq!(freebsd.score(10, 49, 0)[0], 10);
    assert_eq!(freebsd.score(1, 5_120_000, 0)[0], 0);
    assert_eq!(
        port.score(ms(1000), ms(3000), -20)[2],
        0,
        "a score is never negative"
    );
    assert_eq!(port.score(ms(1000), ms(3000), 10)[2], 26);
}

/// "The Battle of the Schedulers", Section 2.2, with m = 50: truncation may cost a point.
#[test]
fn the_papers_penalty() {
    let port = Ule::new(PORT);
    for (run, slept, tenths) in [
        (1, 4, 125),
        (1, 2, 250),
        (3, 5, 300),
        (1, 1, 500),
        (2, 1, 750),
        (4, 1, 875),
        (0, 1, 0),
        (0, 0, 0),
    ] {
        let penalty = port.score(ms(1000 * run), ms(1000 * slept), 0)[0] * 10;
        assert!(
            (penalty - tenths).abs() <= 10,
            "{run}:{slept}: {penalty} for {tenths}"
        );
    }
    assert!(port.score(ms(1000), 0, 0)[0] >= 99);
    for run in (1..1000i64).step_by(7) {
        for slept in (1..1000i64)
            .step_by(7)
            .filter(|slept| (slept - run).abs() > run / 50 + 1)
        {
            let low = port.score(ms(run), ms(slept), 0)[0] <= 50;
            assert_eq!(low, slept >= run, "{run} {slept}");
        }
    }
}

#[test]
fn interactive_priorities() {
    let freebsd = Ule::new(FREEBSD);
    for (run, pri) in [(0, 120), (1600, 136), (2900, 149)] {
        assert_eq!(freebsd.pri(run * 1024, 5000 * 1024, 0, 0, 0), pri);
    }
    let quarter = |nice| freebsd.pri(ms(1000), ms(3000), 0, 0, nice);
    assert_eq!([quarter(13), quarter(14), quarter(-20)], [149, 186, 120]);

    let port = Ule::new(PORT);
    for run in [0, 1_000_000, 2_900_000] {
        assert_eq!(
            port.pri(run, 5_120_000, 0, 0, 0),
            100,
            "one FIFO for all interactive tasks"
        );
    }
    let linear = Ule::new(&[("mode", 0), ("interact_linear", 1)]);
    let levels: Vec<_> = (0..30)
        .map(|score| linear.pri(score * 1000, 50_000, 0, 0, 0))
        .collect();
    assert_eq!((levels[0], levels[29]), (100, 111));
    assert!(levels.is_sorted());
}

#[test]
fn batch_priorities() {
    let freebsd = Ule::new(FREEBSD);
    for (ran_ms, window_ms, nice, pri) in [
        (0, 10_000, 0, 172),
        (1000, 10_000, 0, 175),
        (5000, 10_000, 0, 187),
        (10_000, 10_000, 0, 203),
        (500, 1000, 0, 187),
        (500, 500, 0, 187),
        (10_000, 10_000, 20, 223),
        (10_000, 10_000, -20, 183),
        (0, 10_000, -20, 152),
    ] {
        assert_eq!(
            freebsd.batch_pri(ran_ms, window_ms, nice),
            pri,
            "{ran_ms} {window_ms} {nice}"
        );
    }
    let port = Ule::new(PORT);
    for (ran, nice, pri) in [
        (0, 0, 119),
        (1250, 0, 125),
        (2500, 0, 131),
        (2500, 19, 138),
        (2500, -20, 124),
    ] {
        assert_eq!(port.batch_pri(ran, 2500, nice), pri, "{ran} {nice}");
    }
}

#[test]
fn history_is_capped() {
    let freebsd = Ule::new(FREEBSD);
    for (run, slept, capped) in [
        (1_000_000, 4_119_999, (1_000_000, 4_119_999)),
        (1_000_000, 4_120_000, (800_000, 3_296_000)),
        (3_000_000, 3_144_000, (2_400_000, 2_515_200)),
        (3_000_000, 3_144_001, (1_500_000, 1_572_000)),
        (5_120_000, 5_120_000, (2_560_000, 2_560_000)),
        (5_120_001, 5_120_000, (5_120_000, 1)),
        (5_000_000, 5_240_001, (1, 5_120_000)),
    ] {
        assert_eq!(freebsd.pair("t_cap", run, slept), capped, "{run} {slept}");
    }
    // One long sleep of a batch task.
    for (slept_s, capped, score) in [
        (4, (2_048_000, 2_048_000), 50),
        (5, (2_048_000, 2_560_000), 40),
        (6, (2_048_000, 3_072_000), 33),
        (7, (1, 5_120_000), 0),
    ] {
        assert_eq!(
            freebsd.pair("t_cap", 4_096_000, ms(1000 * slept_s)),
            capped,
            "{slept_s}"
        );
        assert_eq!(freebsd.score(capped.0, capped.1, 0)[1], score, "{slept_s}");
    }
}

#[test]
fn a_fork_takes_half_a_second_along() {
    let freebsd = Ule::new(FREEBSD);
    for (run, slept, child) in [
        (2_048_000, 3_072_000, (204_800, 307_200)),
        (409_600, 307_200, (409_600, 307_200)),
        (1_024_000, 0, (512_000, 0)),
        (100, 200, (100, 200)),
    ] {
        assert_eq!(freebsd.pair("t_fork", run, slept), child, "{run} {slept}");
    }
}

#[test]
fn a_hog_that_has_slept_turns_batch() {
    let ule = Ule::new(FREEBSD);
    let mut history = ule.pair("t_cap", 0, ms(5000));
    assert_eq!(history, (0, 4_096_000));
    let child = ule.pair("t_fork", history.0, history.1);

    let mut scores = Vec::new();
    let mut ticks = 0;
    while ule.score(history.0, history.1, 0)[1] < 30 {
        history = ule.run_tick(history);
        ticks += 1;
        if ticks % 25 == 0 {
            scores.push(ule.score(history.0, history.1, 0)[1]);
        }
        if ticks == 150 {
            assert_eq!(history, (1_002_912, 3_276_800));
        }
    }
    assert_eq!(scores, [2, 4, 7, 9, 12, 15, 18, 21, 24, 27]);
    assert_eq!((ticks, history), (267, (1_576_280, 2_621_440)));

    let (mut history, mut ticks) = (child, 0);
    assert_eq!(history, (0, 512_000));
    while ule.score(history.0, history.1, 0)[1] < 30 {
        history = ule.run_tick(history);
        ticks += 1;
    }
    assert_eq!((ticks, history.0), (39, 314_418));
}

#[test]
fn a_pure_hogs_history_decays() {
    let ule = Ule::new(FREEBSD);
    let (mut history, mut decays) = ((0, 0), Vec::new());
    for tick in 1..=890 {
        let before = history.0 + ule.tickincr();
        history = ule.run_tick(history);
        if history.0 != before {
            decays.push((tick, before, history.0));
        }
    }
    assert_eq!(
        decays,
        [
            (636, 5_127_432, 4_101_944),
            (763, 5_125_818, 4_100_652),
            (890, 5_124_526, 4_099_620)
        ]
    );
    assert_eq!(history.1, 0);
}

#[test]
fn slices() {
    let loads = [1, 2, 3, 4, 5, 6, 7, 20];
    let of = |ule: &Ule| loads.map(|load| ule.slice(load));
    assert_eq!(of(&Ule::new(FREEBSD)), [12, 12, 6, 4, 3, 2, 2, 2]);
    assert_eq!(of(&Ule::new(PORT)), [10, 10, 5, 3, 2, 2, 1, 1]);
    let text = Ule::new(&[("mode", 0), ("slice_by_load", 1)]);
    assert_eq!(of(&text), [10, 5, 3, 2, 2, 1, 1, 1]);
    let long = Ule::new(&[("mode", 0), ("slice_ticks", 100), ("slice_min_ticks", 3)]);
    assert_eq!(
        of(&long),
        [100, 100, 50, 33, 25, 20, 3, 3],
        "six waiting tasks get the minimum"
    );
}

#[test]
fn slots() {
    let ule = Ule::new(FREEBSD);
    for (pri, idx, ridx, slot) in [
        (152, 10, 10, 10),
        (172, 10, 10, 27),
        (203, 10, 10, 55),
        (223, 10, 10, 9),
        (152, 11, 10, 11),
        (223, 11, 10, 9),
        (223, 1, 0, 63),
        (187, 60, 60, 27),
    ] {
        assert_eq!(ule.slot(pri, idx, ridx), slot, "{pri} {idx} {ridx}");
    }
    let port = Ule::new(PORT);
    assert_eq!(
        [119, 131, 138].map(|pri| port.slot(pri, 0, 0)),
        [35, 95, 130]
    );
}

#[test]
fn the_calendar_waits_for_its_tail() {
    let ule = Ule::new(FREEBSD);
    let step = |(idx, ridx): (i64, i64), first: i64, tick: bool| {
        let out = ule.call("t_calendar", &[idx, ridx, first, tick.into()]);
        (out[0], out[1])
    };
    // Slot 0 holds a task for three ticks.
    let mut at = (0, 0);
    for _ in 0..3 {
        at = step(at, 0, true);
        assert_eq!(at, (1, 0));
    }
    at = step(at, i64::MAX, false);
    assert_eq!(at, (1, 1), "its removal lets ridx follow");
    assert_eq!(
        step(at, i64::MAX, true),
        (2, 2),
        "an empty calendar turns with each tick"
    );
    assert_eq!(
        step((1, 1), 30, true),
        (2, 2),
        "and so does one whose slots lie ahead"
    );
}

#[test]
fn cpu_share_window() {
    let ule = Ule::new(FREEBSD);
    for (ran_ms, ftick, ltick, now, run, ticks, start) in [
        (5000, 0, 10_999, 11_000, 1, 4_650_559, 1000),
        (5500, 0, 10_900, 11_000, 0, 5_108_400, 1000),
        (9000, 0, 10_000, 20_000, 1, 10_240_000, 10_000),
    ] {
        let out = ule.call("t_pctcpu", &[ms(ran_ms), ftick, ltick, now, run]);
        assert_eq!(out[..3], [ticks, start, now], "{ran_ms}");
    }
    let late = ule.call("t_pctcpu", &[ms(7), 0, 100, 99, 1]);
    assert_eq!(
        late[..3],
        [ms(7), 0, 100],
        "a clock that lags changes nothing"
    );
}

#[test]
fn queue_keys_keep_the_order() {
    let ule = Ule::new(FREEBSD);
    assert_eq!(
        ule.key(120, false),
        ule.key(123, false),
        "four priorities share a FIFO"
    );
    assert!(ule.key(123, false) < ule.key(124, false));
    assert!(
        ule.key(151, false) < ule.key(152, false),
        "interactive before batch"
    );
    assert!(
        ule.key(222, false) < ule.key(224, false),
        "batch before the idle class"
    );
    let tail = ule.key(120, false);
    let heads = [ule.key(120, true), ule.key(120, true)];
    assert!(
        heads[1] < heads[0] && heads[0] < tail,
        "the last one put in front is the first"
    );
    assert!(heads[1] > ule.key(119, false));

    let port = Ule::new(PORT);
    assert!(
        port.key(100, false) < port.key(101, false),
        "one FIFO per priority"
    );
    assert!(port.key(111, false) < port.key(112, false));
}

#[test]
fn ticks_of_a_machine_at_the_same_rate() {
    let ule = Ule::new(PORT);
    let tick = |at_ns: i64| ule.call("t_ticks", &[0, at_ns, 1])[3];
    let starts = |at_ns: i64| ule.call("t_ticks", &[0, at_ns, 0]);
    let period = 4_000_000;
    for n in 1..100 {
        let jitter = [0, 300_000, -200_000, 900_000][n as usize % 4];
        assert_eq!(tick(7_777_777 + n * period + jitter), 1, "{n}");
    }
    starts(7_777_777 + 150 * period + period / 2);
    assert_eq!(
        tick(7_777_777 + 151 * period),
        1,
        "50 idle ticks belong to nobody"
    );
}

#[test]
fn ticks_of_other_rates_add_up() {
    for (tunables, machine_hz, ule_hz) in [
        (FREEBSD, 1000, 127),
        (FREEBSD, 250, 127),
        (PORT, 1000, 250),
        (PORT, 100, 250),
    ] {
        let ule = Ule::new(tunables);
        let due: i64 = (1..=10 * machine_hz)
            .map(|n| ule.call("t_ticks", &[0, n * 1_000_000_000 / machine_hz, 1])[3])
            .sum();
        assert!(
            (due - 10 * ule_hz).abs() <= 1,
            "{machine_hz} Hz: {due} ticks in 10 s"
        );
    }
}

#[test]
fn a_search_follows_the_tree() {
    let pairs = || Cpus {
        count: 4,
        llc: &[0, 0, 1, 1],
    };
    let flat = || Cpus { count: 4, llc: &[] };
    for (cpus, lowest, highest) in [(pairs(), 2, 3), (flat(), 0, 1)] {
        let ule = Ule::on(FREEBSD, cpus);
        ule.set_loads(&[0, 3, 1, 1]);
        assert_eq!(ule.lowest(0, 0), lowest);
        assert_eq!(ule.lowest(0, 223), 0, "only an idle CPU will do");
        ule.set_loads(&[0, 4, 2, 3]);
        assert_eq!(ule.highest(0, 2), highest);
        assert_eq!(ule.highest(0, 5), -1);
    }
    let ties = Ule::on(FREEBSD, pairs());
    ties.set_loads(&[1, 1, 1, 1]);
    assert_eq!(ties.lowest(0, 0), 2, "the last group is visited first");
    ties.set_loads(&[2, 2, 2, 2]);
    assert_eq!(ties.highest(2, 1), 3, "a group counts its CPU 2 as well");
    let ties = Ule::on(FREEBSD, flat());
    ties.set_loads(&[1, 3, 3, 1]);
    assert_eq!(ties.highest(0, 2), 1, "the first of equals");
    let port = Ule::on(PORT, pairs());
    port.set_loads(&[0, 3, 1, 1]);
    assert_eq!(port.lowest(0, 0), 0, "the port knows no tree");
}

#[test]
fn a_search_prefers_the_last_cpu() {
    let ule = Ule::on(FREEBSD, Cpus { count: 4, llc: &[] });
    for (cpu, lowpri) in [130, 180, 180, 180].into_iter().enumerate() {
        ule.call("t_cpu_set", &[cpu as i64, 1, lowpri]);
    }
    let lowest =
        |min_pri, prefer| ule.call("t_search", &[0, 0, 0, i32::MAX.into(), min_pri, prefer, 0])[7];
    assert_eq!(lowest(125, 1), 1);
    assert_eq!(lowest(150, 0), 1, "CPU 0 runs something better");
}

#[test]
fn random_numbers() {
    let ule = Ule::new(FREEBSD);
    let mut state = 0;
    for number in [0, 5, 36_287, 53_438] {
        let out = ule.call("t_lcg", &[state]);
        state = out[0];
        assert_eq!(out[1], number);
    }
}

/// One hog of [`shares`].
#[derive(Default)]
struct Hog {
    nice: i64,
    history: (i64, i64),
    window: [i64; 3],
    pri: i64,
    /// Absolute slot, and order of arrival in it; none while it runs.
    slot: Option<(i64, i64)>,
    used: i64,
    ran: i64,
}

/// CPU time in tenths of a per cent of hogs on one CPU, and their last priorities: the rules of the C code strung
/// together as the tick and the choice do.
fn shares(nices: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let ule = Ule::new(FREEBSD);
    let load = nices.len() as i64;
    let (mut idx, mut ridx, mut arrivals) = (0, 0, 0);
    let mut hogs: Vec<Hog> = nices
        .iter()
        .map(|&nice| Hog {
            nice,
            pri: 172 + nice,
            ..Hog::default()
        })
        .collect();
    let first = |hogs: &[Hog]| {
        hogs.iter()
            .filter_map(|h| h.slot)
            .map(|(slot, _)| slot)
            .min()
            .unwrap_or(i64::MAX)
    };
    let put = |hog: &mut Hog, idx, ridx, arrivals: &mut i64| {
        *arrivals += 1;
        hog.slot = Some((ule.call("t_slot", &[hog.pri, idx, ridx])[3], *arrivals));
    };
    let choose = |hogs: &mut [Hog]| {
        let at = (0..hogs.len())
            .filter(|&i| hogs[i].slot.is_some())
            .min_by_key(|&i| hogs[i].slot)
            .unwrap();
        hogs[at].slot = None;
        at
    };
    for hog in &mut hogs {
        put(hog, idx, ridx, &mut arrivals);
    }
    let mut current = choose(&mut hogs);
    for tick in 1..=120 * 127 {
        let now = tick * 1000 / 127;
        let out = ule.call("t_calendar", &[idx, ridx, first(&hogs), 1]);
        (idx, ridx) = (out[0], out[1]);
        let hog = &mut hogs[current];
        let [ticks, from, to] = hog.window;
        hog.window = ule.call("t_pctcpu", &[ticks, from, to, now, 1])[..3]
            .try_into()
            .unwrap();
        hog.history = ule.run_tick(hog.history);
        let [ticks, from, to] = hog.window;
        hog.pri = ule.pri(hog.history.0, hog.history.1, ticks, to - from, hog.nice);
        hog.ran += i64::from(tick > 20 * 127);
        hog.used += 1;
        if hog.used >= ule.slice(load) {
            hog.used = 0;
            put(hog, idx, ridx, &mut arrivals);
            current = choose(&mut hogs);
            let [ticks, from, to] = hogs[current].window;
            hogs[current].window = ule.call("t_pctcpu", &[ticks, from, to, now, 0])[..3]
                .try_into()
                .unwrap();
        }
    }
    let total: i64 = hogs.iter().map(|h| h.ran).sum();
    let share = |h: &Hog| (h.ran * 2000 / total + 1) / 2;
    (
        hogs.iter().map(share).collect(),
        hogs.iter().map(|h| h.pri).collect(),
    )
}

#[test]
fn hogs_share_one_cpu() {
    for (nices, tenths) in [
        (&[0, 0][..], &[500, 500][..]),
        (&[0, 10], &[500, 500]),
        (&[0, 19], &[586, 414]),
        (&[0, 20], &[601, 399]),
        (&[-20, 20], &[694, 306]),
        (&[0, 0, 20], &[387, 388, 225]),
    ] {
        assert_eq!(shares(nices).0, tenths, "nice {nices:?}");
    }
    let (eight, pris) = shares(&[0; 8]);
    assert_eq!(eight, [125; 8]);
    assert_eq!(pris, [175; 8]);
}
