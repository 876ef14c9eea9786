//! A table as Apache Parquet.

use longwave_core::{Error, Result};
use longwave_report::{Column, Tidy};
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::sync::Arc;

/// What all values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Whole,
    Number,
    Text,
}

impl Kind {
    /// The narrowest kind for all values; a column of nothing is text.
    fn of(column: &Column) -> Self {
        let values = || column.values.iter().filter(|value| !value.is_null());
        if values().next().is_none() {
            Self::Text
        } else if values().all(Value::is_boolean) {
            Self::Boolean
        } else if values().all(|value| value.as_i64().is_some()) {
            Self::Whole
        } else if values().all(Value::is_number) {
            Self::Number
        } else {
            Self::Text
        }
    }

    fn physical(self) -> Physical {
        match self {
            Self::Boolean => Physical::BOOLEAN,
            Self::Whole => Physical::INT64,
            Self::Number => Physical::DOUBLE,
            Self::Text => Physical::BYTE_ARRAY,
        }
    }
}

/// The whole file.
pub(super) fn bytes(table: &Tidy) -> Result<Vec<u8>> {
    write(table).map_err(|error| Error::failed(format!("the results cannot be written as Parquet: {error}")))
}

fn write(table: &Tidy) -> std::result::Result<Vec<u8>, ParquetError> {
    let fields = table
        .columns
        .iter()
        .map(|column| {
            let kind = Kind::of(column);
            let text = if kind == Kind::Text { ConvertedType::UTF8 } else { ConvertedType::NONE };
            Type::primitive_type_builder(&column.name, kind.physical())
                .with_repetition(Repetition::OPTIONAL)
                .with_converted_type(text)
                .build()
                .map(Arc::new)
        })
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("results").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().set_created_by("longwave".to_owned()).build());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties)?;
    let mut group = file.next_row_group()?;
    for column in &table.columns {
        let Some(mut writer) = group.next_column()? else { break };
        // One where there is a value.
        let levels: Vec<i16> = column.values.iter().map(|value| i16::from(!value.is_null())).collect();
        let values = column.values.iter().filter(|value| !value.is_null());
        match writer.untyped() {
            ColumnWriter::BoolColumnWriter(writer) => {
                let values: Vec<bool> = values.filter_map(Value::as_bool).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let values: Vec<i64> = values.filter_map(Value::as_i64).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let values: Vec<f64> = values.filter_map(Value::as_f64).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let values: Vec<ByteArray> =
                    values.map(|value| ByteArray::from(text(value).as_str())).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            _ => return Err(ParquetError::General(format!("column `{}` has no such kind", column.name))),
        }
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use serde_json::json;

    fn table() -> Tidy {
        let column = |name: &str, values: [Value; 2]| Column { name: name.to_owned(), values: values.into() };
        Tidy {
            columns: vec![
                column("label", [json!("a,b"), json!("say \"x\"")]),
                column("length", [json!(128), Value::Null]),
                column("nll", [json!(0.1), json!(2.0)]),
                column("exact", [Value::Null, json!(true)]),
                column("stride", [Value::Null, Value::Null]),
            ],
        }
    }

    #[test]
    fn a_reader_finds_types_and_values() {
        let written = bytes(&table()).unwrap();
        assert_eq!(written, bytes(&table()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.parquet");
        std::fs::write(&path, &written).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get_string(0).unwrap(), "a,b");
        assert_eq!((rows[0].get_long(1).unwrap(), rows[0].get_double(2).unwrap()), (128, 0.1));
        assert!(rows[1].get_long(1).is_err() && rows[1].get_bool(3).unwrap());
    }
}
