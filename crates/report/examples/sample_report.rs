// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the sample of the tests, to look at: `cargo run -p tiltyard-report --example sample_report -- FILE
//! [CPUS]`, and prints its table.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/page.rs"]
mod page;

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("usage: sample_report FILE [CPUS]");
    let nr_cpus = args
        .next()
        .map_or(1, |text| text.parse().expect("CPUS is a number"));
    let runs = common::runs(nr_cpus);
    std::fs::write(&file, page::page(&runs, &page::timelines(nr_cpus, 20_000)))
        .expect("the file can be written");
    print!(
        "{}",
        tiltyard_report::table::render(&tiltyard_measure::compare(&runs), 100)
    );
}
