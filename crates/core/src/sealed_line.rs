//! Lines of JSON that carry a checksum, so that a reader notices what was cut or altered.
//!
//! The checksum is the last field of the object, `"checksum":"0123456789abcdef"`: the beginning of SHA-256 of the line without
//! it. A line without the field is one that somebody changed on purpose and took the field out of: it is read as it stands.

use crate::file::sha256_of;

const FIELD: &str = ",\"checksum\":\"";
/// Hexadecimal digits of the checksum.
const DIGITS: usize = 16;
const END: &str = "\"}";

/// A JSON object of one line or more fields, with its checksum.
///
/// # Panics
/// It is no object.
pub fn seal(object: &str) -> String {
    let fields = object.strip_suffix('}').expect("an object ends with a brace");
    format!("{fields}{FIELD}{}{END}", checksum(object))
}

/// Checks a line; gives whether it carries a checksum.
pub fn check(line: &str) -> Result<bool, &'static str> {
    let line = line.trim_end();
    let sealed = line.strip_suffix(END).and_then(|line| {
        let (line, digits) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
        Some((line.strip_suffix(FIELD)?, digits))
    });
    match sealed {
        Some((fields, digits)) if checksum(&format!("{fields}}}")) == digits => Ok(true),
        Some(_) => Err("it was cut or altered: its checksum is that of another line"),
        None if line.contains(FIELD.trim_matches(',')) => {
            Err("it was altered: its checksum does not stand at its end")
        }
        None => Ok(false),
    }
}

fn checksum(text: &str) -> String {
    sha256_of(text.as_bytes())[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_of_a_line_shows() {
        let object = r#"{"step":3,"loss":1.5,"name":"Δ"}"#;
        let line = seal(object);
        assert_eq!(check(&line), Ok(true));
        assert_eq!((check(object), check(&format!("{line}\n"))), (Ok(false), Ok(true)));
        let content = object.len() - 1;
        for place in 0..content {
            let mut bytes = line.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            assert!(check(&text).is_err(), "{text}");
        }
        for length in content + 1..line.len() {
            let is_noticed = check(&line[..length]).is_err();
            assert!(is_noticed || serde_json::from_str::<serde_json::Value>(&line[..length]).is_err());
        }
        assert!(check(&line.replace('}', ",\"more\":1}")).is_err());
    }
}
