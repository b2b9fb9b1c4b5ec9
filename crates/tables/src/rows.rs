// SPDX-License-Identifier: GPL-2.0-or-later
//! Rows in, record batches out.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use crate::schema::{self, ColumnKind, Spec};

/// Rows of a full batch.
pub const BATCH_ROWS: usize = 64 * 1024;

/// Rows of one table of [`crate::schema`].
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub name: &'static str,
    pub batches: Vec<RecordBatch>,
}

/// Who takes batches as they become full. All batches of a table have its [`crate::schema`].
pub trait BatchSink {
    fn batch(&mut self, table: &'static str, batch: RecordBatch);
}

/// Keeps all of them: tables in order of their first batch.
impl BatchSink for Vec<Table> {
    fn batch(&mut self, table: &'static str, batch: RecordBatch) {
        match self.iter_mut().find(|known| known.name == table) {
            Some(known) => known.batches.push(batch),
            None => self.push(Table {
                name: table,
                batches: vec![batch],
            }),
        }
    }
}

impl<S: BatchSink + ?Sized> BatchSink for &mut S {
    fn batch(&mut self, table: &'static str, batch: RecordBatch) {
        (**self).batch(table, batch);
    }
}

/// One cell. A number fits a column of either sign; one too large for it becomes the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Uint(u64),
    Text(&'a str),
    Bool(bool),
}

macro_rules! value_from {
    ($($from:ty => $to:ident),*) => {
        $(impl From<$from> for Value<'_> {
            fn from(value: $from) -> Self {
                Value::$to(value.into())
            }
        })*
    };
}
value_from!(i8 => Int, i64 => Int, u32 => Uint, u64 => Uint, bool => Bool);

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(value)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Value::Text(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The cells of a column that are not in a batch yet.
enum Cells {
    Int(Int64Builder),
    Uint(UInt64Builder),
    Text(StringBuilder),
    Bool(BooleanBuilder),
}

impl Cells {
    fn new(kind: ColumnKind) -> Cells {
        match kind {
            ColumnKind::Int => Cells::Int(Int64Builder::new()),
            ColumnKind::Uint => Cells::Uint(UInt64Builder::new()),
            ColumnKind::Text => Cells::Text(StringBuilder::new()),
            ColumnKind::Bool => Cells::Bool(BooleanBuilder::new()),
        }
    }

    #[inline]
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Cells::Int(cells), Value::Int(v)) => cells.append_value(v),
            (Cells::Int(cells), Value::Uint(v)) => {
                cells.append_value(i64::try_from(v).unwrap_or(i64::MAX));
            }
            (Cells::Int(cells), Value::Null) => cells.append_null(),
            (Cells::Uint(cells), Value::Uint(v)) => cells.append_value(v),
            (Cells::Uint(cells), Value::Null) => cells.append_null(),
            (Cells::Text(cells), Value::Text(v)) => cells.append_value(v),
            (Cells::Text(cells), Value::Null) => cells.append_null(),
            (Cells::Bool(cells), Value::Bool(v)) => cells.append_value(v),
            (_, value) => panic!("a column of another kind got {value:?}"),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Cells::Int(cells) => ArrayBuilder::finish(cells),
            Cells::Uint(cells) => ArrayBuilder::finish(cells),
            Cells::Text(cells) => ArrayBuilder::finish(cells),
            Cells::Bool(cells) => ArrayBuilder::finish(cells),
        }
    }
}

/// Gathers rows of one table of one run.
pub(crate) struct Rows {
    spec: &'static Spec,
    run: i64,
    cells: Vec<Cells>,
    len: usize,
    is_kept: bool,
}

impl Rows {
    pub fn new(table: &str, run: u32) -> Rows {
        let spec = schema::spec(table);
        let own = &spec.columns[1..]; // all but the run
        Rows {
            spec,
            run: run.into(),
            cells: own.iter().map(|column| Cells::new(column.kind)).collect(),
            len: 0,
            is_kept: true,
        }
    }

    /// From now on rows given to [`Self::push_to`] are dropped.
    pub fn drop_all(&mut self) {
        self.is_kept = false;
    }

    pub fn keeps(&self) -> bool {
        self.is_kept
    }

    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// One row: every column but the first, which is the run.
    pub fn push(&mut self, row: &[Value]) {
        assert_eq!(row.len(), self.cells.len(), "columns of {}", self.spec.name);
        for (cells, value) in self.cells.iter_mut().zip(row) {
            cells.push(*value);
        }
        self.len += 1;
    }

    /// The same; a batch that is full goes to `out`.
    #[inline]
    pub fn push_to(&mut self, out: &mut impl BatchSink, row: &[Value]) {
        if self.is_kept {
            self.push(row);
            if self.len == BATCH_ROWS {
                self.flush(out);
            }
        }
    }

    /// What is gathered goes to `out`.
    pub fn flush(&mut self, out: &mut impl BatchSink) {
        if self.len > 0 {
            let batch = self.take();
            out.batch(self.spec.name, batch);
        }
    }

    /// The rows as a table, be it an empty one.
    pub fn into_table(mut self) -> Table {
        Table {
            name: self.spec.name,
            batches: vec![self.take()],
        }
    }

    fn take(&mut self) -> RecordBatch {
        let run = Int64Array::from_value(self.run, std::mem::take(&mut self.len));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(run)];
        columns.extend(self.cells.iter_mut().map(Cells::take));
        RecordBatch::try_new(schema::schema(self.spec.name), columns)
            .unwrap_or_else(|error| panic!("{}: {error}", self.spec.name))
    }
}
