//! The distances between positions that a training shows.

/// The distances from a token to those before it in its row that a training shows, over all of its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// The longest.
    pub farthest: f64,
    /// They lie below it: so many there are where positions are whole.
    pub below: f64,
}

impl Shown {
    /// Those of whole positions below `count`.
    pub fn whole(count: usize) -> Self {
        Self { farthest: count.saturating_sub(1) as f64, below: count as f64 }
    }

    /// The same where so many tokens before the row are seen too.
    #[must_use]
    pub fn after(self, memory: usize) -> Self {
        Self { farthest: self.farthest + memory as f64, below: self.below + memory as f64 }
    }

    /// Those that a window leaves.
    #[must_use]
    pub fn within(self, window: usize) -> Self {
        let end = window as f64;
        if end >= self.below {
            return self;
        }
        // Real positions come as near to the window as one likes.
        let farthest = if self.farthest < self.below { end - 1.0 } else { end };
        Self { farthest: farthest.max(0.0), below: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingPositions;
    use crate::tokens::Lengths;

    #[test]
    fn a_range_of_positions_shows_all_its_distances() {
        let shown = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            let positions: TrainingPositions = table.try_into().unwrap();
            let Shown { farthest, below } = positions.shown(Lengths { train: 16, length: 32 });
            (farthest, below)
        };
        assert_eq!(shown("kind = 'contiguous'"), (31.0, 32.0));
        assert_eq!(shown("kind = 'offset'\nmax_position = 64"), (31.0, 32.0));
        assert_eq!(shown("kind = 'segments'\ncount = 2\nmax_position = 64"), (31.0, 32.0));
        assert_eq!(shown("kind = 'randpos'\nmax_position = '8L'"), (127.0, 128.0));
        assert_eq!(shown("kind = 'pose'\nmax_position = '8L'\nmax_skip = 3"), (127.0, 128.0));
        assert_eq!(shown("kind = 'float'\nspan = '8L'"), (128.0, 128.0));
    }

    #[test]
    fn a_window_leaves_the_distances_below_it() {
        let of = |shown: Shown| (shown.farthest, shown.below);
        assert_eq!(of(Shown::whole(32).within(8)), (7.0, 8.0));
        assert_eq!(of(Shown::whole(32).within(40)), (31.0, 32.0));
        assert_eq!(of(Shown { farthest: 32.5, below: 32.5 }.within(8)), (8.0, 8.0));
        assert_eq!(of(Shown::whole(32).after(4)), (35.0, 36.0));
    }
}
