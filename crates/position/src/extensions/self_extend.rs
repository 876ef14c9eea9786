//! `self_extend`: far positions are shared by groups of tokens.
//!
//! A pair at distance n is read at n below the window w, else at `floor(i / G) - floor(j / G) + shift` (Jin et al.
//! 2024, arXiv:2401.01325). `shift = "floor"`: `w - floor(w / G)`, the paper's; `"exact"`: `w - w / G`, the
//! published program's; the same where G divides w. A text of `(L - w) G + w` tokens reads no distance that
//! training did not show (one of G tokens less where G does not divide w and `shift = "floor"`); a longer one is
//! rejected unless `allow_untrained = true`. `group = "auto"` is 1 up to L. For a longer text of T tokens it is `ceil(2 (T - w) / (L - w))`,
//! which reads the first token about halfway between the window and L, where published choices lie: it is about twice the fewest that keep the
//! text within trained distances. With `w = L - 1` that may be a distance of L; then it is the next larger G that reads none.

use crate::auto::word;
use crate::extension::Extend;
use crate::prelude::*;
use schemars::{Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Tokens that share a far position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it must be \"auto\" or a whole number of at least 1")]
pub enum Group {
    /// By the length at hand.
    #[default]
    #[serde(with = "word")]
    Auto,
    /// The same at every length.
    Tokens(usize),
}

/// What is added to far distances, so that they follow the near ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shift {
    /// `w - floor(w / G)`.
    #[default]
    Floor,
    /// `w - w / G`.
    Exact,
}

keys! {
    /// Keys of `self_extend`.
    pub struct SelfExtend {
        /// w: distances below it are read as they are.
        pub window: Tokens = Tokens::part(4.0),
        /// G: tokens that share a far position.
        pub group: Group = Group::Auto,
        /// What is added to far distances.
        pub shift: Shift = Shift::Floor,
        /// Allows a text that is longer than the group reaches with trained distances.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl SelfExtend {
    /// What is added to far distances.
    fn offset(&self, window: usize, group: usize) -> f64 {
        match self.shift {
            Shift::Floor => (window - window / group) as f64,
            Shift::Exact => window as f64 - window as f64 / group as f64,
        }
    }

    /// The largest distance that a text is read at.
    fn farthest(&self, window: usize, group: usize, length: usize) -> f64 {
        let last = length.saturating_sub(1);
        if last < window { last as f64 } else { (last / group) as f64 + self.offset(window, group) }
    }

    /// The text must end where the trained distances do, read by groups.
    fn check_reach(&self, window: usize, group: usize, lengths: Lengths) -> Result<()> {
        let Lengths { train, length } = lengths;
        let distance = self.farthest(window, group, length);
        let farthest = Farthest { distance, allowed: self.allow_untrained };
        if window >= train {
            let better = || "take a window below L, such as \"L/4\"".to_owned();
            return farthest.check(Self::KIND, ("window", window), lengths, better);
        }
        farthest.check(Self::KIND, ("group", group), lengths, || {
            let least = self.least_group(window, group, lengths);
            format!("take a group of at least {least}, or `group = \"auto\"`")
        })
    }

    /// `group`, or the next larger one that keeps the text within trained distances, for a window below L.
    fn least_group(&self, window: usize, group: usize, lengths: Lengths) -> usize {
        let Lengths { train, length } = lengths;
        // The first token is at most `window` away once a group holds the whole text.
        let fits = |&group: &usize| self.farthest(window, group, length) < train as f64;
        (group..=length.max(group)).find(fits).unwrap_or(length)
    }

    fn group(&self, window: usize, lengths: Lengths) -> Result<usize> {
        let Lengths { train, length } = lengths;
        match self.group {
            Group::Tokens(group) => Ok(group),
            Group::Auto if length <= train => Ok(1),
            Group::Auto if window >= train => Err(Error::usage(format!(
                "`{}` has no group for a window of {window}: it leaves no trained distances (L = {train}) for what is \
                 further away",
                Self::KIND
            ))
            .hint("take a window below L, such as \"L/4\"")),
            Group::Auto => {
                let halfway = (2 * (length - window)).div_ceil(train - window);
                Ok(self.least_group(window, halfway, lengths))
            }
        }
    }
}

impl Extend for SelfExtend {
    const KIND: &'static str = "self_extend";
    const DESCRIPTION: &'static str = "groups of tokens share their far positions (Self-Extend)";
    const SOURCE: &'static str = "arXiv:2401.01325";
    const FORMULA: &'static str = "(m − n)' = m − n, for m − n < w = ⌊L/4⌋\n\
        (m − n)' = ⌊m/G⌋ − ⌊n/G⌋ + w − ⌊w/G⌋, for m − n ≥ w\n\
        G = ⌈2(T − w) / (L − w)⌉, for T > L; G = 1, for T ≤ L";

    fn validate(&self, section: &str) -> Result<()> {
        if self.group == Group::Tokens(0) {
            return Err(Error::value(&format!("{section}.group"), 0, "it must be \"auto\" or at least 1")
                .hint("1 reads as trained; 8 reads 8 far tokens at one position"));
        }
        Ok(())
    }

    fn examples(_bands: usize, lengths: Lengths) -> Vec<Example> {
        let automatic = Self::default();
        let window = automatic.window.whole("window", lengths);
        let group = window.and_then(|window| automatic.group(window, lengths)).unwrap_or(1);
        vec![
            Example::new("").shifts(Shifts::Multiples(group)),
            Example::new("group = 6").changes_short_texts().shifts(Shifts::Multiples(6)),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window.whole("window", lengths)?;
        let group = self.group(window, lengths)?;
        self.check_reach(window, group, lengths)?;
        let offset = self.offset(window, group);
        let group = group as f64;
        let far = [offset, 0.0].map(|offset| PositionMap::Grouped { group, offset });
        set_geometry(Self::KIND, reading, &Geometry::from_distance(window as f64, far.into()))
    }
}

impl JsonSchema for Group {
    fn schema_name() -> Cow<'static, str> {
        "Group".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "So many tokens, or `auto`: 1 up to L, and for a longer text of T tokens ceil(2 (T - w) / (L - w)).",
            "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 1 }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_group_stays_within_training() {
        let extend = SelfExtend::default();
        for length in [128, 129, 256, 1000, 4096] {
            let group = extend.group(32, Lengths { train: 128, length }).unwrap();
            // floor(i / G) - floor(j / G) is at most n / G + 1.
            let farthest = 32.0 + (length - 32) as f64 / group as f64 + 1.0;
            assert!(length == 128 || farthest <= 82.0, "{length}: {farthest}");
            assert_eq!(group == 1, length == 128);
        }
        assert!(extend.group(128, Lengths { train: 128, length: 256 }).is_err());
    }

    /// The first token of 48 lies 47 back. Groups of 34 to 47 read it at `floor(47 / G) + 31 - floor(31 / G)` = 32 = L, groups of 48 at 31.
    #[test]
    fn the_automatic_group_is_never_refused() {
        let lengths = Lengths { train: 32, length: 48 };
        assert_eq!(SelfExtend::default().group(31, lengths).unwrap(), 48);
        for shift in [Shift::Floor, Shift::Exact] {
            let extend = SelfExtend { shift, ..SelfExtend::default() };
            for (window, length) in (24..32).flat_map(|window| (33..200).map(move |length| (window, length)))
            {
                let lengths = Lengths { train: 32, length };
                let group = extend.group(window, lengths).unwrap();
                assert!(extend.check_reach(window, group, lengths).is_ok(), "{shift:?} {window} {length}");
                let halfway = 2.0 * (length - window) as f64 / (32 - window) as f64;
                assert!(window == 31 || (group as f64 - halfway).abs() < 1.0, "{window} {length}: {group}");
            }
        }
    }

    #[test]
    fn a_text_past_the_reach_is_refused() {
        let lengths = |length| Lengths { train: 128, length };
        let extend = SelfExtend::default();
        assert!(extend.check_reach(32, 4, lengths(96 * 4 + 32)).is_ok());
        let error = extend.check_reach(32, 4, lengths(96 * 4 + 33)).unwrap_err();
        assert!(error.hint_text().unwrap().starts_with("take a group of at least 5,"), "{error}");
        assert!(extend.check_reach(200, 4, lengths(201)).is_err());
        assert!(extend.check_reach(128, 1, lengths(128)).is_ok());
        // 5 does not divide 32: rounded down, far distances begin a step late.
        assert!(extend.check_reach(32, 5, lengths(96 * 5 + 32)).is_err());
        assert!(extend.check_reach(32, 5, lengths(96 * 5 + 32 - 2)).is_ok());
        let exact = SelfExtend { shift: Shift::Exact, ..extend };
        assert!(exact.check_reach(32, 5, lengths(96 * 5 + 32)).is_ok());
    }
}
