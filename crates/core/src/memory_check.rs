//! How much memory there is, and whether it is enough.

/// What a 64-bit process can address at most: a bound where the system does not say what is free.
const ADDRESSABLE: u64 = 1 << 47;

/// Memory that programs may still take, in bytes; `None` where the system does not say.
pub fn available() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:").map(|kibibytes| kibibytes * 1024)
}

/// Memory of this process that lies in RAM, in bytes; `None` where the system does not say.
pub fn resident() -> Option<u64> {
    kibibytes("/proc/self/status", "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

/// The most memory of this process that ever lay in RAM, in bytes; `None` where the system does not say.
pub fn peak() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:").map(|kibibytes| kibibytes * 1024)
}

/// The number of a line that begins so in one of the system's files.
fn kibibytes(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Describes a need, in bytes, that exceeds what is `available`; `None` where it fits.
pub fn shortage(needed: u64, available: Option<u64>) -> Option<String> {
    match available {
        Some(free) if needed > free => Some(format!("about {}, and {} are free", shown(needed), shown(free))),
        None if needed > ADDRESSABLE => {
            Some(format!("about {}, more than a program can address", shown(needed)))
        }
        _ => None,
    }
}

/// The product of sizes, or the largest number where it is larger: what absurd sizes would take must not overflow.
pub fn product(sizes: &[usize]) -> u64 {
    sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(size as u64))
}

/// Bytes for people.
pub fn shown(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} EiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_needed_and_free() {
        assert_eq!(shortage(3 << 30, Some(1 << 30)).unwrap(), "about 3.0 GiB, and 1.0 GiB are free");
        assert_eq!(shortage(1 << 48, None).unwrap(), "about 256.0 TiB, more than a program can address");
        assert!(shortage(1, Some(2)).is_none() && shortage(1 << 40, None).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_written_becomes_resident() {
        let before = resident().unwrap();
        let written = vec![1_u8; 64 << 20];
        let grown = resident().unwrap() - before;
        assert!(grown > 32 << 20, "{grown} of {}", written.len());
        drop(written);
        // The kernel counts in steps, so both are a little off.
        assert!(peak().unwrap() > before + (32 << 20), "what was given back still counts");
    }

    #[test]
    fn bytes_for_people() {
        assert_eq!([12, 1536, 3 << 40, u64::MAX].map(shown), ["12 bytes", "1.5 KiB", "3.0 TiB", "16.0 EiB"]);
        assert_eq!((product(&[3, 4, 5]), product(&[usize::MAX, 9])), (60, u64::MAX));
    }
}
