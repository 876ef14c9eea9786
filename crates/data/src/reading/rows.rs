//! Parquet: the rows of one column, page by page.
//!
//! The pages are read by the library. It unpacks those of snappy and gzip; those of zstd it would hand to a library in C, so
//! they are read as if they were not packed and unpacked here.

use super::{Part, Sink, whole};
use crate::corpus::Source;
use crate::guarded::guarded;
use crate::packing::damaged;
use longwave_core::{Error, Result};
use parquet::basic::{Compression, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;
use ruzstd::decoding::StreamingDecoder;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Rows that are in memory at once, besides a page.
const ROWS: usize = 64;

pub(super) fn read(source: &Source, field: &str, sink: &mut Sink<'_>) -> Result<()> {
    let open = || File::open(&source.path).map_err(|error| Error::io("read", &source.path, &error));
    let (file, pages_of) = (open()?, Arc::new(open()?));
    let reader = library(source, || SerializedFileReader::new(file))?;
    let metadata = reader.metadata();
    let (column, description) = column_of(source, metadata, field)?;
    let all = metadata.file_metadata().num_rows().max(1) as u64;
    let mut number = 0;
    for group in metadata.row_groups() {
        let chunk = group.column(column);
        let zstd = matches!(chunk.compression(), Compression::ZSTD(_));
        let chunk = if zstd {
            let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build();
            library(source, || plain)?
        } else {
            chunk.clone()
        };
        let rows = group.num_rows().max(0) as usize;
        let pages = library(source, || SerializedPageReader::new(Arc::clone(&pages_of), &chunk, rows, None))?;
        let pages: Box<dyn PageReader> = if zstd { Box::new(Unpacked(pages)) } else { Box::new(pages) };
        let mut values = ColumnReaderImpl::<ByteArrayType>::new(Arc::clone(&description), pages);
        loop {
            let (mut texts, mut levels) = (Vec::with_capacity(ROWS), Vec::with_capacity(ROWS));
            let (rows, ..) =
                library(source, || values.read_records(ROWS, Some(&mut levels), None, &mut texts))?;
            if rows == 0 {
                break;
            }
            let mut texts = texts.iter().map(ByteArray::data);
            for row in 0..rows {
                number += 1;
                // A row without a value has a lower level, and no document.
                if levels.get(row).is_none_or(|level| *level == description.max_def_level())
                    && let Some(text) = texts.next()
                {
                    whole(number, text, sink)?;
                }
            }
            sink(Part::At(
                (u128::from(source.bytes) * u128::from(number.min(all)) / u128::from(all)) as u64,
            ))?;
        }
    }
    Ok(())
}

/// Calls the library, which may panic on a file that is damaged.
fn library<T>(source: &Source, call: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    match guarded("Parquet", call)? {
        Ok(value) => Ok(value),
        Err(ParquetError::General(said) | ParquetError::NYI(said)) if said.contains("isabled feature") => {
            let packed = said.rsplit(' ').next().unwrap_or_default();
            Err(Error::failed(format!(
                "the pages of `{}` are packed by {packed}, which is not read",
                source.path.display()
            ))
            .hint("write the file again with snappy, gzip or zstd"))
        }
        Err(error) => Err(damaged(&source.path, &error)),
    }
}

/// The column of a name, which must hold text.
fn column_of(source: &Source, metadata: &ParquetMetaData, field: &str) -> Result<(usize, ColumnDescPtr)> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let place = source.path.display();
    let Some(index) = columns.iter().position(|column| column.path().string() == field) else {
        let names: Vec<String> =
            columns.iter().map(|column| format!("`{}`", column.path().string())).collect();
        return Err(Error::failed(format!(
            "`{place}` has no column `{field}`; its columns: {}",
            names.join(", ")
        ))
        .hint("set `data.text_field` to the column that holds the text"));
    };
    let column = &columns[index];
    if column.physical_type() != Type::BYTE_ARRAY || column.max_rep_level() > 0 {
        return Err(Error::failed(format!(
            "the column `{field}` of `{place}` holds no text, or several in a row"
        ))
        .hint("set `data.text_field` to the column that holds the text"));
    }
    Ok((index, Arc::clone(column)))
}

/// Pages that are packed by zstd.
struct Unpacked(SerializedPageReader<File>);

/// The bytes of a page after the first `kept` ones, unpacked.
fn unpack(bytes: &[u8], kept: usize) -> ParquetResult<Vec<u8>> {
    let failed =
        |error: &dyn std::fmt::Display| ParquetError::General(format!("a page cannot be unpacked: {error}"));
    let (kept, packed) = bytes.split_at_checked(kept).ok_or_else(|| failed(&"it is too short"))?;
    let mut page = kept.to_vec();
    if !packed.is_empty() {
        let mut frame = StreamingDecoder::new(packed).map_err(|error| failed(&error))?;
        frame.read_to_end(&mut page).map_err(|error| failed(&error))?;
    }
    Ok(page)
}

impl Iterator for Unpacked {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Unpacked {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let Some(mut page) = self.0.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = unpack(buf, 0)?.into(),
            // The levels in front are never packed.
            Page::DataPageV2 {
                buf, is_compressed: true, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                *buf = unpack(buf, (*def_levels_byte_len + *rep_levels_byte_len) as usize)?.into();
            }
            Page::DataPageV2 { .. } => {}
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0.skip_next_page()
    }
}
