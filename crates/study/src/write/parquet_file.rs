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
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use serde_json::json;

    fn table() -> Tidy {
        let column = |name, of, values: [Value; 2]| Column::new(name, of, values.into());
        Tidy {
            columns: vec![
                column("label", ColumnType::Text, [json!("a,b"), json!("say \"x\"")]),
                column("length", ColumnType::Whole, [json!(128), Value::Null]),
                column("nll", ColumnType::Number, [json!(0.1), json!(2)]),
                column("exact", ColumnType::Boolean, [Value::Null, json!(true)]),
                column("stride", ColumnType::Whole, [Value::Null, Value::Null]),
            ],
        }
    }

    #[test]
    fn a_column_keeps_its_type_whatever_it_holds() {
        let schema = |table: &Tidy| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes(table).unwrap()).unwrap();
            let reader = SerializedFileReader::new(std::fs::File::open(file.path()).unwrap()).unwrap();
            let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
            columns
                .iter()
                .map(|column| (column.name().to_owned(), column.physical_type()))
                .collect::<Vec<_>>()
        };
        let mut empty = table();
        empty.columns.iter_mut().for_each(|column| column.values = vec![Value::Null; 2]);
        assert_eq!(schema(&table()), schema(&empty));
        assert_eq!(schema(&empty)[4], ("stride".to_owned(), Physical::INT64));
        empty.columns[1].values[0] = json!(1.5);
        assert!(bytes(&empty).unwrap_err().message().contains("`length` cannot hold 1.5"));
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
