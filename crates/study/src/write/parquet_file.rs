//! A table as Apache Parquet.

use longwave_core::{Error, Result};
use longwave_eval::column::ColumnType;
use longwave_report::Tidy;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::sync::Arc;

/// How a column is stored, whatever its values: files of different studies have one schema, and can be put together.
fn physical(of: ColumnType) -> Physical {
    match of {
        ColumnType::Boolean => Physical::BOOLEAN,
        ColumnType::Whole => Physical::INT64,
        ColumnType::Number => Physical::DOUBLE,
        ColumnType::Text => Physical::BYTE_ARRAY,
    }
}

pub(super) fn bytes(table: &Tidy) -> Result<Vec<u8>> {
    write(table).map_err(|error| Error::failed(format!("the results cannot be written as Parquet: {error}")))
}

fn write(table: &Tidy) -> std::result::Result<Vec<u8>, ParquetError> {
    let fields = table
        .columns
        .iter()
        .map(|column| {
            let is_text = column.of == ColumnType::Text;
            let text = if is_text { ConvertedType::UTF8 } else { ConvertedType::NONE };
            Type::primitive_type_builder(&column.name, physical(column.of))
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
        let fits = |value: &&Value| match column.of {
            ColumnType::Boolean => value.is_boolean(),
            ColumnType::Whole => value.as_i64().is_some(),
            ColumnType::Number => value.is_number(),
            ColumnType::Text => true,
        };
        let values = column.values.iter().filter(|value| !value.is_null());
        if let Some(wrong) = values.clone().find(|value| !fits(value)) {
            return Err(ParquetError::General(format!("`{}` cannot hold {wrong}", column.name)));
        }
        // One where there is a value.
        let levels: Vec<i16> = column.values.iter().map(|value| i16::from(!value.is_null())).collect();
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
    use longwave_report::Column;
    use serde_json::json;

    #[test]
    fn a_table_gives_the_same_bytes_and_a_column_refuses_what_it_cannot_hold() {
        let table = |length| Tidy { columns: vec![Column::new("length", ColumnType::Whole, vec![length])] };
        assert_eq!(bytes(&table(json!(128))).unwrap(), bytes(&table(json!(128))).unwrap());
        let error = bytes(&table(json!(1.5))).unwrap_err();
        assert!(error.message().contains("`length` cannot hold 1.5"), "{error}");
    }
}
