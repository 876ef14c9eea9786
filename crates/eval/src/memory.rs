//! Whether a reading fits in memory, before it starts.

use longwave_core::{Error, Result};

/// Memory that programs may still take, in bytes; `None` where the system does not say.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Refuses a reading that needs more than is there.
///
/// # Errors
/// `needed` exceeds `available`, both in bytes.
pub fn check(length: usize, needed: u64, available: Option<u64>) -> Result<()> {
    match available {
        Some(available) if needed > available => Err(Error::failed(format!(
            "reading {length} tokens needs about {}, and {} are free",
            shown(needed),
            shown(available)
        ))
        .hint("evaluate shorter lengths, or use a smaller model or vocabulary")),
        _ => Ok(()),
    }
}

/// Bytes for people.
pub fn shown(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_needed_and_free() {
        let error = check(1_000_000, 3 << 30, Some(1 << 30)).unwrap_err();
        assert_eq!(error.message(), "reading 1000000 tokens needs about 3.0 GiB, and 1.0 GiB are free");
        assert!(check(10, 1, Some(2)).is_ok() && check(10, 1, None).is_ok());
        assert_eq!([shown(12), shown(1536)], ["12 bytes", "1.5 KiB"]);
    }
}
