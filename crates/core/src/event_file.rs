//! Event files, which `TensorBoard` shows as curves.
//!
//! A file is a sequence of records: the length (u64), a checksum of it (u32), the bytes, and a checksum of these (u32), all
//! little-endian. A checksum is `rotate(CRC-32C) + 0xA282EAD8` (TensorFlow's `lib/io/record_writer.h`). The bytes are an
//! `Event` as a protocol buffer (TensorFlow's `core/util/event.proto` and `core/framework/summary.proto`); of its fields
//! these are written: the wall time (1, double), the step (2, varint), the version in the first event (3, text), and a
//! summary (5) with values (1), each a tag (1, text) and a number (2, float).

use crate::clock;

/// What the names of all event files contain.
pub const NAME: &str = "events.out.tfevents";

/// The bytes of a file's first record.
pub fn header() -> Vec<u8> {
    let mut event = Vec::new();
    push_double(&mut event, 1, now());
    push_bytes(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// The bytes of the record of some numbers at a step, `wall_time` seconds after 1970. Numbers that are not finite are kept
/// as they are: `TensorBoard` marks them.
pub fn scalars<'a>(step: u64, wall_time: f64, values: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut one = Vec::new();
        push_bytes(&mut one, 1, tag.as_bytes());
        push_key(&mut one, 2, 5);
        one.extend((value as f32).to_le_bytes());
        push_bytes(&mut summary, 1, &one);
    }
    let mut event = Vec::new();
    push_double(&mut event, 1, wall_time);
    push_key(&mut event, 2, 0);
    push_varint(&mut event, step);
    push_bytes(&mut event, 5, &summary);
    record(&event)
}

/// Seconds after 1970.
pub fn now() -> f64 {
    clock::now().as_secs_f64()
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(bytes.len() + 16);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(bytes);
    record.extend(masked(bytes).to_le_bytes());
    record
}

/// The key of a field: its number and the type of what follows.
fn push_key(to: &mut Vec<u8>, field: u64, wire_type: u64) {
    push_varint(to, field << 3 | wire_type);
}

fn push_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn push_double(to: &mut Vec<u8>, field: u64, value: f64) {
    push_key(to, field, 1);
    to.extend(value.to_le_bytes());
}

fn push_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_key(to, field, 2);
    push_varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), bit by bit: a record is a hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let of_byte = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 }
            },
        )
    };
    !bytes.iter().fold(!0, of_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 3720, B.4: 32 bytes of zeros; and the usual check value.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_record_is_framed_and_holds_its_numbers() {
        let bytes = scalars(300, 1.5, [("loss/train", 2.25)]);
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(bytes.len(), length + 16);
        assert_eq!(bytes[8..12], masked(&bytes[..8]).to_le_bytes());
        let event = &bytes[12..12 + length];
        assert_eq!(bytes[12 + length..], masked(event).to_le_bytes());
        let mut expected = vec![0x09];
        expected.extend(1.5f64.to_le_bytes());
        expected.extend([0x10, 0xAC, 0x02]); // 300
        expected.extend([0x2A, 19, 0x0A, 17, 0x0A, 10]);
        expected.extend(b"loss/train");
        expected.push(0x15);
        expected.extend(2.25f32.to_le_bytes());
        assert_eq!(event, expected);
    }
}
