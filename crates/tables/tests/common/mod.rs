// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading tables, for tests.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use tiltyard_tables::{Table, schema};

/// A table by name; one without rows if it is not there.
pub fn table(tables: &[Table], name: &'static str) -> Table {
    let known = tables.iter().find(|table| table.name == name).cloned();
    known.unwrap_or(Table {
        name,
        batches: vec![RecordBatch::new_empty(schema(name))],
    })
}

pub fn maybe_ints(table: &Table, column: &str) -> Vec<Option<i64>> {
    let batches = table.batches.iter();
    batches
        .flat_map(|batch| {
            let cells = batch.column_by_name(column).expect(column);
            cells.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        })
        .collect()
}

pub fn ints(table: &Table, column: &str) -> Vec<i64> {
    let cells = maybe_ints(table, column).into_iter();
    cells.map(|cell| cell.expect("not null")).collect()
}

pub fn texts(table: &Table, column: &str) -> Vec<Option<String>> {
    let batches = table.batches.iter();
    batches
        .flat_map(|batch| {
            let cells = batch.column_by_name(column).expect(column);
            let cells = cells.as_string::<i32>().iter();
            cells.map(|c| c.map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect()
}

/// Rows as lines, cells between commas, `-` for null.
pub fn text(table: &Table) -> String {
    let mut page = String::new();
    for batch in &table.batches {
        for row in 0..batch.num_rows() {
            let cells = batch
                .columns()
                .iter()
                .map(|column| match column.data_type() {
                    _ if column.is_null(row) => "-".to_owned(),
                    DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                    DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
                    DataType::Boolean => column.as_boolean().value(row).to_string(),
                    _ => column.as_string::<i32>().value(row).to_owned(),
                });
            page += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
    }
    page
}
