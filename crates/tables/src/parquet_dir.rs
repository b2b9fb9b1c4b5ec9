// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder of Parquet files, one a table, written whole or not at all.
//!
//! Runs come in any order and side by side: each writes parts of its own, which are joined in order
//! of the runs at the end. The bytes depend on the rows alone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::rows::{BATCH_ROWS, BatchSink, Table};
use crate::schema::{NAMES, schema};

/// Rows that a reader takes at once, and a writer keeps in memory: what DuckDB does in one piece.
const ROW_GROUP_ROWS: usize = 2 * BATCH_ROWS;

/// Columns whose values hardly repeat and differ little from row to row.
const GROWING: [&str; 3] = ["id", "ts", "dur"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: is not a folder; name one that is new or empty", .0.display())]
    NotAFolder(PathBuf),
    #[error("{}: holds {entry}, which is none of Tiltyard's tables; name a folder that is new or empty", .dir.display())]
    Occupied { dir: PathBuf, entry: String },
    #[error("{}: cannot write: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: cannot write: {source}", .path.display())]
    Parquet { path: PathBuf, source: ParquetError },
}

impl Error {
    /// Whether another folder is the way out.
    pub fn is_about_the_name(&self) -> bool {
        matches!(self, Error::NotAFolder(_) | Error::Occupied { .. })
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        path: path.clone(),
        source,
    }
}

fn parquet_error(path: &Path) -> impl Fn(ParquetError) -> Error {
    let path = path.to_owned();
    move |source| Error::Parquet {
        path: path.clone(),
        source,
    }
}

/// The tables of all runs, on their way into a folder.
pub struct ParquetDir {
    dir: PathBuf,
    /// Beside `dir`, so that what is in it can take its name.
    temporary: TempDir,
}

impl ParquetDir {
    /// Looks whether `dir` may be written, before hours of work: it is new, empty, or holds nothing
    /// but tables, which are replaced at the end.
    pub fn create(dir: &Path) -> Result<ParquetDir, Error> {
        check(dir)?;
        // A link stays, and what it leads to is replaced.
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let beside = dir
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let temporary = tempfile::Builder::new()
            .prefix(".tiltyard-")
            .tempdir_in(beside)
            .map_err(io_error(&dir))?;
        for folder in ["parts", "tables"] {
            fs::create_dir(temporary.path().join(folder)).map_err(io_error(&dir))?;
        }
        Ok(ParquetDir { dir, temporary })
    }

    /// What is left behind if the process ends before [`ParquetDir::finish`].
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Takes the tables of one run.
    pub fn part(&self, run: u32) -> RunPart {
        RunPart {
            folder: self.temporary.path().join("parts"),
            run,
            files: Vec::new(),
            error: None,
        }
    }

    /// Joins the runs, in the order of `parts`, and puts the folder under its name. A table in which
    /// no run has a row is a file without rows.
    pub fn finish(self, mut parts: Vec<RunFiles>) -> Result<(), Error> {
        let tables = self.temporary.path().join("tables");
        for name in NAMES {
            let mut files = Vec::new();
            for part in &mut parts {
                files.extend(part.take(name));
            }
            join(name, &files, &tables.join(file_name(name)))?;
        }
        replace(&self.dir, &tables)
    }
}

/// The file of a table.
fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}

/// Whether `dir` is new, empty, or holds nothing but tables.
fn check(dir: &Path) -> Result<(), Error> {
    let entries = match dir.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.file_name().is_some() => {
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NotAFolder(dir.to_owned()));
        }
        entries => entries.map_err(io_error(dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(io_error(dir))?.file_name();
        let is_ours = |table: &&str| entry.to_str() == Some(&file_name(table));
        if !NAMES.iter().any(is_ours) {
            return Err(Error::Occupied {
                dir: dir.to_owned(),
                entry: entry.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

/// Puts `tables` in the place of `dir`.
fn replace(dir: &Path, tables: &Path) -> Result<(), Error> {
    check(dir)?; // the run took its time
    let old = tables.with_file_name("old");
    let was_there = dir.exists();
    if was_there {
        fs::rename(dir, &old).map_err(io_error(dir))?;
    }
    fs::rename(tables, dir).map_err(|error| {
        if was_there {
            let _ = fs::rename(&old, dir);
        }
        io_error(dir)(error)
    })
}

/// Takes the tables of one run. [`RunPart::finish`] returns errors.
pub struct RunPart {
    folder: PathBuf,
    run: u32,
    files: Vec<Part>,
    error: Option<Error>,
}

struct Part {
    table: &'static str,
    path: PathBuf,
    writer: ArrowWriter<File>,
}

impl RunPart {
    /// Takes a whole table.
    pub fn table(&mut self, table: Table) {
        for batch in table.batches {
            self.batch(table.name, batch);
        }
    }

    fn write(&mut self, table: &'static str, batch: &RecordBatch) -> Result<(), Error> {
        let known = self.files.iter().position(|part| part.table == table);
        let at = match known {
            Some(at) => at,
            None => {
                let name = format!("{}-{}", self.run, file_name(table));
                let path = self.folder.join(name);
                let writer = writer(table, &path)?;
                self.files.push(Part {
                    table,
                    path,
                    writer,
                });
                self.files.len() - 1
            }
        };
        let Part { path, writer, .. } = &mut self.files[at];
        writer.write(batch).map_err(parquet_error(path))
    }

    /// Closes the files of a run that went well; those of another go with the temporary folder.
    pub fn finish(self) -> Result<RunFiles, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut files = Vec::new();
        for part in self.files {
            part.writer.close().map_err(parquet_error(&part.path))?;
            files.push((part.table, part.path));
        }
        Ok(RunFiles(files))
    }
}

/// The tables of one run, in files of their own.
pub struct RunFiles(Vec<(&'static str, PathBuf)>);

impl RunFiles {
    fn take(&mut self, table: &str) -> Option<PathBuf> {
        let at = self.0.iter().position(|(known, _)| *known == table)?;
        Some(self.0.swap_remove(at).1)
    }
}

impl BatchSink for RunPart {
    fn batch(&mut self, table: &'static str, batch: RecordBatch) {
        if self.error.is_none() && batch.num_rows() > 0 {
            self.error = self.write(table, &batch).err();
        }
    }
}

fn writer(table: &str, path: &Path) -> Result<ArrowWriter<File>, Error> {
    let file = File::create(path).map_err(io_error(path))?;
    let mut properties = WriterProperties::builder()
        .set_created_by("tiltyard".to_owned())
        .set_compression(Compression::ZSTD(Default::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for column in GROWING {
        properties = properties
            .set_column_dictionary_enabled(column.into(), false)
            .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
    }
    // Parquet's own types say all there is to say.
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(file, schema(table), options).map_err(parquet_error(path))
}

/// One file of several, which go.
fn join(table: &str, files: &[PathBuf], to: &Path) -> Result<(), Error> {
    if let [only] = files {
        return fs::rename(only, to).map_err(io_error(to));
    }
    let mut writer = writer(table, to)?;
    for path in files {
        let file = File::open(path).map_err(io_error(path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
            .map_err(parquet_error(path))?;
        for batch in reader {
            let batch = batch.map_err(|error| parquet_error(path)(error.into()))?;
            writer.write(&batch).map_err(parquet_error(to))?;
        }
        fs::remove_file(path).map_err(io_error(path))?;
    }
    writer.close().map_err(parquet_error(to))?;
    Ok(())
}
