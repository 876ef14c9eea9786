//! `learned`: a table of vectors, one per position, added to the token embeddings.
//!
//! `h_t = x_t + p[position_t]`, p of shape `[table_size, width]`, drawn from N(0, `init_std`), 0.02 (Radford et
//! al. 2019, GPT-2; Vaswani et al. 2017, arXiv:1706.03762, section 3.5, learned variant). Enters once,
//! before the first block; one table for the whole model.
//!
//! A position at or past N = `table_size` has no vector. `past_table` says what to do there:
//! - `error`: it is an error.
//! - `random`: vectors as before training, N(0, 0.02), the same for the same position and seed.
//! - `interpolate` (arXiv:2306.15595 applied to a table): with s = max(1, length / N), read at
//!   u = min(m / s, N - 1), between rows floor(u) and floor(u) + 1, at every position.
//! - `hierarchical` (kexue.fm/archives/7947): `u_k = (p_k - alpha p_0) / (1 - alpha)`, and position
//!   i N + j has `alpha u_i + (1 - alpha) u_j`, which is `p_j` for i = 0; reaches N^2.
//! - `segment`: row m mod N.
//!
//! The extension `linear` divides every position by its scale before any of them.

use crate::prelude::*;
use crate::table::{Fresh, Longer, check_alpha, read_at, read_hierarchical};

/// GPT-2's standard deviation of vectors at the start, which the token embeddings have too.
pub(super) const INIT_STD: f64 = 0.02;

/// The share in the article.
const ALPHA: f64 = 0.4;

/// What a position past the table reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PastTable {
    /// Nothing: reading it is an error.
    #[default]
    Error,
    /// A vector as before training.
    Random,
    /// The table, stretched over the length.
    Interpolate,
    /// Two rows, for the position's quotient and remainder by the table's size.
    Hierarchical,
    /// The row of the remainder.
    Segment,
}

keys! {
    /// Keys of `kind = "learned"`.
    pub struct Config {
        /// Positions the table holds; the training length unless given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub table_size: Option<usize> = None,
        /// What a position past the table reads.
        pub past_table: PastTable = PastTable::Error,
        /// `hierarchical`: the share of the quotient's vector, between 0 and 1 and not 0.5.
        pub alpha: f64 = ALPHA,
        /// `interpolate`: the length the table is stretched over; that of the text that is read unless given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub length: Option<usize> = None,
        /// Standard deviation of the vectors at the start.
        pub init_std: f64 = INIT_STD,
    }
}

/// The table and how it is read.
#[derive(Module, Debug)]
pub struct Learned {
    /// `[table_size, width]`.
    pub table: Param<Tensor<2>>,
    #[module(skip)]
    config: Config,
    /// Decides the vectors of `random`.
    #[module(skip)]
    fresh: Fresh,
}

impl Configure for Config {
    type Encoding = Learned;
    const KIND: &'static str = "learned";
    const DESCRIPTION: &'static str = "a learned vector per position, added to the token embeddings (GPT-2)";
    const SOURCE: &'static str = "arXiv:1706.03762, section 3.5";
    const FORMULA: &'static str = "x'_m = x_m + e_m, e_m learned, for m < L";
    const PYTORCH: Option<&'static str> = Some(include_str!("learned.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Rejected(
        "no vector there; a larger `table_size` adds rows that texts of L tokens never train; `past_table` chooses \
         another reading, `linear` interpolates, `table` makes it longer",
    );
    const LENGTHS: &'static [&'static str] = &["table_size", "length"];
    const VARIANTS: &'static [&'static str] = &["past_table = 'hierarchical'", "past_table = 'segment'"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "init_std", self.init_std)?;
        check_alpha(section, self.alpha)?;
        let unread = (self.past_table != PastTable::Hierarchical && self.alpha.to_bits() != ALPHA.to_bits())
            .then(|| self.alpha.to_string());
        check_without(section, "alpha", unread, "past_table = \"hierarchical\"")?;
        let unread = self.length.filter(|_| self.past_table != PastTable::Interpolate);
        check_without(section, "length", unread.map(|it| it.to_string()), "past_table = \"interpolate\"")?;
        match self.table_size {
            Some(size) if size < dimensions.train_length => Err(Error::value(
                &format!("{section}.table_size"),
                size,
                format!("it must be at least `train.length = {}`", dimensions.train_length),
            )
            .hint("leave it out to take the training length")),
            _ => Ok(()),
        }
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Learned {
        let size = self.table_size.unwrap_or(dimensions.train_length);
        Learned {
            table: init.normal("position.learned.table", [size, dimensions.width], self.init_std),
            config: self.clone(),
            fresh: Fresh { seed: init.seed(), mean: 0.0, deviation: self.init_std },
        }
    }
}

/// Refuses positions from `reach` on, counted as those of the text, which a table of `size` rows does not hold.
pub(super) fn check_reach(kind: &str, positions: &Positions, reach: f64, size: usize) -> Result<()> {
    match positions.largest() {
        Some(largest) if largest >= reach => Err(Error::usage(format!(
            "`{kind}` has no vector for position {largest}: its table holds positions 0 to {}",
            size - 1
        ))
        .hint(
            "evaluate lengths up to the table's size, read it interpolated (`extend = [\"linear\"]`) or made longer \
             (`extend = [\"table\"]`), or train with a larger `position.table_size`",
        )),
        _ => Ok(()),
    }
}

/// The same where every row is one position.
pub(super) fn check_rows(kind: &str, positions: &Positions, size: usize) -> Result<()> {
    check_reach(kind, positions, size as f64 * positions.scale(), size)
}

impl Learned {
    fn size(&self) -> usize {
        self.table.lazy_shape()[0]
    }

    /// The first position without a vector, in a text at these.
    fn reach(&self, text: &Positions) -> f64 {
        let (size, scale) = (self.size() as f64, text.scale());
        match self.config.past_table {
            PastTable::Error => size * scale,
            PastTable::Hierarchical => size * size * scale,
            PastTable::Interpolate => size.max(self.config.length.unwrap_or(text.length()) as f64) * scale,
            PastTable::Random | PastTable::Segment => f64::INFINITY,
        }
    }

    /// The vectors of all positions, `[rows, length, width]`.
    fn vectors(&self, positions: &Positions) -> Tensor<3> {
        let [size, width] = self.table.dims();
        let n = size as f64;
        let at = positions.values();
        let (table, places) = (self.table.val(), at.iter().copied());
        let vectors = match self.config.past_table {
            PastTable::Error => read_at(table, places),
            PastTable::Interpolate => {
                let length = self.config.length.unwrap_or_else(|| positions.length());
                let stretch = (length as f64 / n).max(1.0);
                read_at(table, places.map(|m| m / stretch))
            }
            PastTable::Segment => read_at(table, places.map(|m| m.rem_euclid(n))),
            PastTable::Random => self.or_random(read_at(table, places), at),
            PastTable::Hierarchical => read_hierarchical(&table, places, self.config.alpha),
        };
        vectors.reshape([positions.rows(), positions.length(), width])
    }

    /// `rows` `[positions, width]`, and fresh vectors where the position lies past the table.
    fn or_random(&self, rows: Tensor<2>, at: &[f64]) -> Tensor<2> {
        let [size, width] = self.table.dims();
        let device = rows.device();
        if at.iter().all(|&m| m < size as f64) {
            return rows;
        }
        let (mut inside, mut fresh) = (Vec::with_capacity(at.len()), Vec::with_capacity(at.len() * width));
        for &m in at {
            let past = m >= size as f64;
            inside.push(if past { 0.0f32 } else { 1.0 });
            if past {
                fresh.extend(self.fresh.vector(m.floor() as usize, width));
            } else {
                fresh.extend(std::iter::repeat_n(0.0, width));
            }
        }
        let upload = |values: Vec<f32>, width| {
            constant::<2, burn::tensor::Float>(TensorData::new(values, [at.len(), width]), &device)
        };
        rows * upload(inside, 1) + upload(fresh, width)
    }
}

impl Position for Learned {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::decayed("table", &["table_size", "width"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            domain: Domain::Rows(self.table.lazy_shape()[0]),
            ..Capabilities::default()
        }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer == 0 { hidden + self.vectors(rows.positions) } else { hidden }
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        check_reach("learned", positions, self.reach(positions), self.size())
    }

    fn extend_table(&mut self, longer: &Longer) -> Result<bool> {
        self.table = longer.extend(&self.table, self.fresh)?;
        Ok(true)
    }

    fn prepare(&mut self, text: &Positions) {
        self.config.length.get_or_insert(text.length());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(config: &Config) -> Learned {
        let dimensions = Dimensions { train_length: 3, width: 2, ..crate::testing::dimensions() };
        let init = Init::new(0, &Device::flex());
        let table = init.values([3, 2], &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
        Learned { table, ..config.build(&dimensions, &init) }
    }

    fn table() -> Learned {
        reading(&Config::default())
    }

    fn read(learned: &Learned, positions: &Positions) -> Vec<f32> {
        learned.vectors(positions).into_data().try_to_vec().unwrap()
    }

    #[test]
    fn reads_rows_and_between_rows() {
        assert_eq!(read(&table(), &Positions::range(1..3)), [10.0, 11.0, 20.0, 21.0]);
        // Position 5 of 6 is read at 2.5 and stays at the last row.
        let interpolated = Positions::explicit(1, vec![1.0, 2.0, 5.0]).over(2.0);
        assert_eq!(read(&table(), &interpolated), [5.0, 6.0, 10.0, 11.0, 20.0, 21.0]);
    }

    #[test]
    fn refuses_a_position_past_the_table() {
        let learned = table();
        assert!(learned.check(&Positions::range(0..3)).is_ok());
        let error = learned.check(&Positions::range(0..4)).unwrap_err();
        assert!(error.message().contains("position 3"), "{error}");
        assert!(learned.check(&Positions::range(0..6).over(2.0)).is_ok());
    }

    #[test]
    fn past_the_table() {
        let at = |past_table, positions| {
            let learned = reading(&Config { past_table, ..Config::default() });
            assert!(learned.check(&positions).is_ok(), "{past_table:?}");
            read(&learned, &positions)
        };
        assert_eq!(at(PastTable::Segment, Positions::range(4..5)), [10.0, 11.0]);
        let inside = at(PastTable::Hierarchical, Positions::range(0..3));
        assert_eq!(inside, [0.0, 1.0, 10.0, 11.0, 20.0, 21.0], "the table itself");
        let random = at(PastTable::Random, Positions::range(2..5));
        assert_eq!(random[..2], [20.0, 21.0]);
        assert!(random[2..].iter().all(|x| *x != 0.0 && x.abs() < 0.2), "{random:?}");
        assert_eq!(random[4..], at(PastTable::Random, Positions::range(4..5))[..], "by position");
        let hierarchical = reading(&Config { past_table: PastTable::Hierarchical, ..Config::default() });
        assert!(hierarchical.check(&Positions::range(0..10)).is_err(), "it reaches the size squared");
        assert!(
            crate::testing::message_of("kind = \"learned\"\nalpha = 0.5")
                .starts_with("`position.alpha = 0.5`")
        );
    }
}
