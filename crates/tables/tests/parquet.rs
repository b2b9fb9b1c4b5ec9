// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables in files: what is read is what was written, and a folder comes whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use crate::common::{table, text};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tiltyard_measure::testing::random_stream;
use tiltyard_measure::{Recorder, RecorderSpec};
use tiltyard_tables::{
    BatchSink, Error, EventTables, NAMES, ParquetDir, RunFacts, RunFiles, Table, run_table, schema,
    summary_tables,
};

/// All tables of a run of some hundred events that differ from run to run.
fn tables(run: u32) -> Vec<Table> {
    let words: Vec<u32> = (0..400u32)
        .map(|i| (i + 1000 * run).wrapping_mul(2_654_435_761))
        .collect();
    let (stream, end_ns) = random_stream(2, 5, &words);
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 2,
        origin_ns: 0,
        starvation_ns: 1_000_000,
    });
    let mut events = EventTables::new(run, 0, Vec::new());
    stream.play(&mut (&mut recorder, &mut events));
    let mut tables = events.finish(end_ns);
    tables.extend(summary_tables(run, &recorder.finish(end_ns)));
    tables.push(run_table(run, &facts(u64::MAX)));
    tables
}

fn facts(seed: u64) -> RunFacts<'static> {
    RunFacts {
        command: "tiltyard run",
        arena: "sim",
        tiltyard: "0.0.0",
        workload: "some",
        workload_sha256: Some("1234"),
        machine: "two",
        machine_sha256: None,
        scheduler: "its",
        object_sha256: None,
        tunables: "{}",
        seed: Some(seed),
        round: None,
        duration_ns: 5,
        nr_cpus: 2,
        trace_hash: None,
        kernel: None,
        lost_events: 0,
    }
}

fn part(dir: &ParquetDir, run: u32) -> RunFiles {
    let mut part = dir.part(run);
    for table in tables(run) {
        part.table(table);
    }
    part.finish().unwrap()
}

fn read(dir: &Path, name: &'static str) -> Table {
    let file = File::open(dir.join(format!("{name}.parquet"))).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.schema(), &schema(name));
    let batches = builder.build().unwrap().map(Result::unwrap).collect();
    Table { name, batches }
}

fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(path).unwrap())
    };
    files.map(named).collect()
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let dir = ParquetDir::create(&path).unwrap();
    let parts = (0..3).map(|run| part(&dir, run)).collect();
    dir.finish(parts).unwrap();
    assert_eq!(bytes(&path).len(), NAMES.len());
    for name in NAMES {
        let all = (0..3).map(|run| text(&table(&tables(run), name)));
        assert_eq!(text(&read(&path, name)), all.collect::<String>(), "{name}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "leftovers");
}

#[test]
fn one_run_is_read_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let dir = ParquetDir::create(&path).unwrap();
    let parts = vec![part(&dir, 4)];
    dir.finish(parts).unwrap();
    for name in NAMES {
        assert_eq!(
            text(&read(&path, name)),
            text(&table(&tables(4), name)),
            "{name}"
        );
    }
}

#[test]
fn the_bytes_are_the_same_whoever_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let dir = ParquetDir::create(&one).unwrap();
    let parts = (0..4).map(|run| part(&dir, run)).collect();
    dir.finish(parts).unwrap();
    let dir = ParquetDir::create(&two).unwrap();
    let threads = std::thread::scope(|scope| {
        let started = [3, 1, 0, 2].map(|run| {
            (
                run,
                scope.spawn({
                    let dir = &dir;
                    move || part(dir, run)
                }),
            )
        });
        started.map(|(run, thread)| (run, thread.join().unwrap()))
    });
    let mut parts = Vec::from(threads);
    parts.sort_by_key(|(run, _)| *run);
    dir.finish(parts.into_iter().map(|(_, part)| part).collect())
        .unwrap();
    assert!(bytes(&one) == bytes(&two));
}

#[test]
fn many_rows_make_several_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let dir = ParquetDir::create(&path).unwrap();
    let rows = table(&tables(0), "migration").batches.remove(0);
    let mut part = dir.part(0);
    let times = 300_000 / rows.num_rows() + 1;
    for _ in 0..times {
        part.batch("migration", rows.clone());
    }
    let parts = vec![part.finish().unwrap()];
    dir.finish(parts).unwrap();
    let file = File::open(path.join("migration.parquet")).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let groups: Vec<i64> = builder
        .metadata()
        .row_groups()
        .iter()
        .map(|g| g.num_rows())
        .collect();
    assert_eq!(groups.iter().sum::<i64>() as usize, times * rows.num_rows());
    assert_eq!(groups[..2], [131_072, 131_072]);
}

#[test]
fn tables_that_are_there_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::create_dir(&path).unwrap();
    for run in [1, 2] {
        let dir = ParquetDir::create(&path).unwrap();
        let parts = vec![part(&dir, run)];
        dir.finish(parts).unwrap();
        assert_eq!(
            text(&read(&path, "run")),
            text(&run_table(run, &facts(u64::MAX)))
        );
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "leftovers");
}

#[test]
fn a_folder_of_others_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "years of work").unwrap();
    fs::write(path.join("run.parquet"), "").unwrap();
    let error = ParquetDir::create(&path).err().unwrap();
    assert!(error.is_about_the_name());
    assert_eq!(
        error.to_string(),
        format!(
            "{}: holds thesis.tex, which is none of Tiltyard's tables; name a folder that is new or empty",
            path.display()
        )
    );
    let file = path.join("run.parquet");
    let error = ParquetDir::create(&file).err().unwrap();
    assert!(matches!(error, Error::NotAFolder(_)), "{error}");
    let error = ParquetDir::create(Path::new("/nowhere/at/all"))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/at/all: cannot write: "),
        "{error}"
    );
}

/// Something may come into the folder while the runs go on.
#[test]
fn what_came_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let dir = ParquetDir::create(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "years of work").unwrap();
    let parts = vec![part(&dir, 1)];
    assert!(dir.finish(parts).unwrap_err().is_about_the_name());
    assert_eq!(bytes(&path).len(), 1);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "leftovers");
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = ParquetDir::create(&folder.path().join("out")).unwrap();
    let _files = part(&dir, 0);
    drop(dir);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
