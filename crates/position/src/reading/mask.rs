//! Windows and sinks.

use crate::positions::Positions;

/// Which keys a query sees besides the causal mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Keys at a distance below this, the query itself included; all of them without it.
    pub window: Option<usize>,
    /// Keys at positions below this stay visible past the window.
    pub sinks: usize,
}

impl Mask {
    /// Whether a query does not see an earlier key, both given by position.
    pub fn hides(self, query: f64, key: f64) -> bool {
        self.window.is_some_and(|window| query - key >= window as f64) && key >= self.sinks as f64
    }

    /// The same mask for keys counted from 0, where that is all it takes; else it must be asked pair
    /// by pair.
    pub fn by_index(self, positions: &Positions) -> Option<Self> {
        if self.window.is_none() {
            return Some(Self::default());
        }
        let mut firsts = positions.values().iter().step_by(positions.length().max(1));
        let first = *firsts.next()?;
        let alike = self.sinks == 0 || firsts.all(|other| other.to_bits() == first.to_bits());
        let sinks = (self.sinks as f64 - first).max(0.0) as usize;
        (positions.consecutive() && alike).then_some(Self { window: self.window, sinks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_by_index_hides_what_the_mask_hides() {
        for (mask, start) in [(Some(3), 0), (Some(3), 1), (Some(1), 5), (None, 0)]
            .map(|(w, s)| (Mask { window: w, sinks: 2 }, s))
        {
            let positions = Positions::range(start..start + 8);
            let by_index = mask.by_index(&positions).unwrap();
            for (i, &query) in positions.values().iter().enumerate() {
                for (j, &key) in positions.values()[..=i].iter().enumerate() {
                    assert_eq!(
                        by_index.hides(i as f64, j as f64),
                        mask.hides(query, key),
                        "{mask:?} {start} {i} {j}"
                    );
                }
            }
        }
        let mask = Mask { window: Some(3), sinks: 2 };
        assert_eq!(mask.by_index(&Positions::range(0..8).map(|p| p / 2.0)), None);
        assert_eq!(mask.by_index(&Positions::explicit(2, vec![0.0, 1.0, 5.0, 6.0])), None);
    }
}
