//! `multiplicative`: token embeddings times a learned vector per position.
//!
//! `h_t = x_t * table[position_t]`, channel by channel, table `[table_size, width]` from 1 + N(0, `init_std`)
//! (kexue.fm/archives/8130, multiplicative encoding). Enters once, before the first block. A position at or
//! past `table_size` is rejected; interpolated by s, the table is read at m / s, between rows.

use super::learned::check_rows;
use crate::prelude::*;
use crate::table::{Fresh, Longer, read_at};

keys! {
    /// Keys of `kind = "multiplicative"`.
    pub struct Config {
        /// Positions the table holds; the training length unless given.
        pub table_size: Option<usize> = None,
        /// Standard deviation of the factors around 1 at the start.
        pub init_std: f64 = 0.5,
    }
}

/// The table.
#[derive(Module, Debug)]
pub struct Multiplicative {
    /// `[table_size, width]`.
    pub table: Param<Tensor<2>>,
    /// Decides the rows of a longer table that is filled at random.
    #[module(skip)]
    fresh: Fresh,
}

impl Configure for Config {
    type Encoding = Multiplicative;
    const KIND: &'static str = "multiplicative";
    const DESCRIPTION: &'static str = "a learned vector per position, multiplied with the token embeddings";
    const SOURCE: &'static str = "kexue.fm/archives/8130";
    const FORMULA: &'static str = "x'_m = x_m ⊙ e_m, e_m learned, for m < L";
    const LENGTHS: &'static [&'static str] = &["table_size"];
    const PYTORCH: Option<&'static str> = Some(include_str!("multiplicative.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Rejected(
        "no vector there; a larger `table_size` adds rows that texts of L tokens never train; `linear` interpolates, \
         `table` makes it longer",
    );

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "init_std", self.init_std)?;
        self.table_size
            .map_or(Ok(()), |size| check_at_least(section, "table_size", size, dimensions.train_length))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Multiplicative {
        let shape = [self.table_size.unwrap_or(dimensions.train_length), dimensions.width];
        let table = init.normal_around("position.multiplicative.table", shape, 1.0, self.init_std);
        let fresh = Fresh { seed: init.seed(), mean: 1.0, deviation: self.init_std };
        Multiplicative { table, fresh }
    }
}

impl Position for Multiplicative {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("table", &["table_size", "width"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            domain: Domain::Rows(self.table.lazy_shape()[0]),
            ..Capabilities::default()
        }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let shape = [rows.positions.rows(), rows.positions.length(), self.table.dims()[1]];
        hidden * read_at(self.table.val(), rows.positions.values().iter().copied()).reshape(shape)
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        check_rows("multiplicative", positions, self.table.lazy_shape()[0])
    }

    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        self.table = longer.extend(&self.table, self.fresh)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::build;

    #[test]
    fn the_table_ends() {
        let encoding = build("kind = \"multiplicative\"", &Device::flex());
        assert!(encoding.check(&Positions::range(0..16)).is_ok());
        assert!(encoding.check(&Positions::range(0..17)).is_err());
        assert!(encoding.check(&Positions::range(0..32).over(2.0)).is_ok());
    }
}
