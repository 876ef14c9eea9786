//! `table`: a learned table of vectors by position, made as long as the text.
//!
//! The table of N rows becomes one of L' rows, filled by `interpolate`, `random` or `hierarchical`: formulas at
//! [`Fill`]. Read without training, it shows what the rule makes of a trained table; in a `[[stage]]` all L' rows
//! train further. A table that is long enough stays as it is. For `learned`, `multiplicative` and `tupe`.

use crate::extension::Extend;
use crate::prelude::*;
use crate::table::{Fill, Longer, check_alpha};

keys! {
    /// Keys of `table`.
    pub struct LongerTable {
        /// Where the new rows come from.
        pub fill: Fill = Fill::Interpolate,
        /// `hierarchical`: the share of the quotient's vector, between 0 and 1 and not 0.5.
        pub alpha: f64 = 0.4,
    }
}

impl Extend for LongerTable {
    const KIND: &'static str = "table";
    const DESCRIPTION: &'static str =
        "makes a learned table as long as the text: interpolated, random or hierarchical";
    const SOURCE: &'static str = "arXiv:2306.15595; kexue.fm/archives/7947";
    const FORMULA: &'static str = "e'_m = (1 − f) e_j + f e_{j+1}, j = ⌊u⌋, f = u − j, for N < T\n\
        u = min(m N / T, N − 1), N rows of the table";

    fn validate(&self, section: &str) -> Result<()> {
        check_alpha(section, self.alpha)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").with_encoding("learned")]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let longer = Longer { size: lengths.length, fill: self.fill, alpha: self.alpha };
        let needs = "a learned table of vectors by position";
        change_encodings(Self::KIND, needs, reading, |encoding| {
            if encoding.capabilities().table_rows().is_some() && encoding.interpolation() > 1.0 {
                return Err(Error::usage(
                    "the table is read between its rows already, and cannot be made longer as well",
                )
                .hint("extend the table or interpolate it, not both"));
            }
            encoding.extend_table(&longer)
        })
    }
}
