//! The time of day.
//!
//! A clock may be wrong, and may be set back or forward while the program works. So nothing but times that are shown may depend on
//! it: how long something took comes from [`std::time::Instant`], which nobody sets. Tests let the clock jump: with
//! `LONGWAVE_CLOCK=0,-1000000000,1000000000` the times that are asked for are shifted by so many seconds in turn.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static SHIFTS: LazyLock<Vec<i64>> =
    LazyLock::new(|| shifts(&std::env::var("LONGWAVE_CLOCK").unwrap_or_default()));

static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Time since 1970; nothing before that.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    shifted(now, &SHIFTS, ASKED.fetch_add(1, Ordering::Relaxed))
}

fn shifts(text: &str) -> Vec<i64> {
    text.split(',').filter_map(|shift| shift.parse().ok()).collect()
}

fn shifted(now: Duration, shifts: &[i64], asked: usize) -> Duration {
    let Some(shift) = shifts.get(asked % shifts.len().max(1)) else { return now };
    let by = Duration::from_secs(shift.unsigned_abs());
    if *shift < 0 { now.saturating_sub(by) } else { now.saturating_add(by) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_lets_the_clock_jump() {
        let jumps = shifts("0,-1000000000,1000000000");
        let now = Duration::from_secs(1_500_000_007);
        let seen: Vec<u64> = (0..4).map(|asked| shifted(now, &jumps, asked).as_secs()).collect();
        assert_eq!(seen, [1_500_000_007, 500_000_007, 2_500_000_007, 1_500_000_007]);
        assert_eq!(shifted(now, &shifts("-2000000000"), 7), Duration::ZERO);
        assert_eq!(shifted(now, &shifts(""), 7), now);
    }
}
