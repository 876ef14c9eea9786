//! Hook (e): which positions pairs of q and k are read at.

/// How a position is read in one entry of a [`Geometry`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PositionMap {
    /// The position itself.
    Identity,
    /// The same position for every row (`ReRoPE`'s clamped side).
    Constant(f64),
    /// `offset + scale * position` (Leaky `ReRoPE`'s far side).
    Affine {
        /// Factor on the position.
        scale: f64,
        /// Added after scaling.
        offset: f64,
    },
    /// `min(position, limit)` (a cache that stops growing).
    AtMost(f64),
    /// `floor(position / group) + offset` (Self-Extend's far side).
    Grouped {
        /// Positions that share one value.
        group: f64,
        /// Added after the division.
        offset: f64,
    },
    /// `min(position mod chunk + offset, limit)` (dual chunk attention).
    Chunked {
        /// Length of a chunk.
        chunk: f64,
        /// Added to the position in the chunk.
        offset: f64,
        /// The largest value.
        limit: f64,
    },
}

impl PositionMap {
    /// The mapped position.
    pub fn at(self, position: f64) -> f64 {
        match self {
            Self::Identity => position,
            Self::Constant(value) => value,
            Self::Affine { scale, offset } => scale.mul_add(position, offset),
            Self::AtMost(limit) => position.min(limit),
            Self::Grouped { group, offset } => (position / group).floor() + offset,
            Self::Chunked { chunk, offset, limit } => (position.rem_euclid(chunk) + offset).min(limit),
        }
    }
}

/// Which entry of a [`Geometry`] a pair of positions uses.
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    /// By distance n = i - j: entry 0 below `near`, entry 1 from there on.
    Distance {
        /// The first distance of entry 1.
        near: f64,
    },
    /// By chunk: entry 0 in the same chunk, 1 in the previous one, 2 further back.
    Chunk {
        /// Length of a chunk in positions.
        chunk: f64,
    },
}

impl Selector {
    /// The entry for a query and a key position.
    pub fn entry(&self, query: f64, key: f64) -> usize {
        match self {
            Self::Distance { near } => usize::from(query - key >= *near),
            Self::Chunk { chunk } => {
                ((query / chunk).floor() - (key / chunk).floor()).clamp(0.0, 2.0) as usize
            }
        }
    }

    /// The first whole distance of entry 1, where it is the distance that chooses; for whole positions that is
    /// all there is to know.
    pub fn near(&self) -> Option<usize> {
        match self {
            Self::Distance { near } if !near.is_nan() => Some(near.ceil().max(0.0) as usize),
            Self::Distance { .. } | Self::Chunk { .. } => None,
        }
    }
}

/// Which positions q and k are read at. One pair of maps is plain attention, two are `ReRoPE`, Leaky
/// `ReRoPE` and Self-Extend, three are dual chunk attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// (query position map, key position map), one per entry.
    pub maps: Vec<(PositionMap, PositionMap)>,
    /// Chooses the entry; not asked where there is one.
    pub selector: Selector,
}

impl Geometry {
    /// Plain attention: every pair at its own positions.
    pub fn plain() -> Self {
        Self {
            maps: vec![(PositionMap::Identity, PositionMap::Identity)],
            selector: Selector::Distance { near: f64::INFINITY },
        }
    }

    /// Pairs at distances below `near` at their own positions, and those further apart as `far` maps them.
    pub fn from_distance(near: f64, far: (PositionMap, PositionMap)) -> Self {
        Self {
            maps: vec![(PositionMap::Identity, PositionMap::Identity), far],
            selector: Selector::Distance { near },
        }
    }

    /// Which of its maps a query and a key are read by.
    pub fn entry(&self, query: f64, key: f64) -> usize {
        if self.maps.len() > 1 { self.selector.entry(query, key) } else { 0 }
    }

    /// The maps that a query and a key are read by.
    pub fn maps_of(&self, query: f64, key: f64) -> (PositionMap, PositionMap) {
        self.maps[self.entry(query, key)]
    }

    /// Whether every pair is read at its own positions.
    pub fn is_plain(&self) -> bool {
        self.maps == [(PositionMap::Identity, PositionMap::Identity)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_and_selectors_read_positions_as_published() {
        // Leaky ReRoPE (kexue.fm/archives/9708): distance w + (n - w) / k past the window w.
        let (w, k) = (4.0, 2.0);
        let query = PositionMap::Affine { scale: 1.0 / k, offset: w - w / k };
        let key = PositionMap::Affine { scale: 1.0 / k, offset: 0.0 };
        assert!((query.at(10.0) - key.at(0.0) - (w + 6.0 / k)).abs() < 1e-12);
        // Self-Extend (arXiv:2401.01325): floor division by the group.
        assert!((PositionMap::Grouped { group: 4.0, offset: 1.0 }.at(11.0) - 3.0).abs() < 1e-12);
        // Dual chunk attention (arXiv:2402.17463): position in the chunk, capped.
        let chunked = PositionMap::Chunked { chunk: 6.0, offset: 6.0, limit: 8.0 };
        assert_eq!(vec![chunked.at(6.0), chunked.at(11.0)], vec![6.0, 8.0]);
        let selector = Selector::Chunk { chunk: 6.0 };
        assert_eq!(
            [selector.entry(7.0, 6.0), selector.entry(7.0, 5.0), selector.entry(20.0, 0.0)],
            [0, 1, 2]
        );
        assert_eq!(Selector::Distance { near: 4.0 }.entry(9.0, 5.0), 1);
        assert_eq!(selector.near(), None);
        for near in [-1.0, 0.0, 0.5, 1.0, 2.5, 4.0, 1e9, f64::INFINITY] {
            let selector = Selector::Distance { near };
            for distance in 0..6_usize {
                let far = selector.near().is_some_and(|near| distance >= near);
                assert_eq!(
                    selector.entry(distance as f64 + 70.0, 70.0),
                    usize::from(far),
                    "{near} {distance}"
                );
            }
        }
        assert_eq!(vec![PositionMap::AtMost(7.0).at(6.0), PositionMap::AtMost(7.0).at(90.0)], vec![6.0, 7.0]);
        assert!(Geometry::plain().is_plain());
    }
}
