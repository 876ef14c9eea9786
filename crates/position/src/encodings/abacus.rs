//! `abacus`: the place of a digit in its number.
//!
//! `h_t = x_t + table[index_t]`, where the index of a token that is no digit is 0, and that of a digit is k plus its place
//! in its run of digits, counted from 1 at the run's first token (Mc Leish et al. 2024, arXiv:2405.17399, section 3; the
//! authors' `abacus.py`). Numbers are written lowest digit first, so that the place is the power of ten. Row 0 is added
//! at every other token, and trained too. Enters once, before the first block; one table `[table_size, width]` from
//! N(0, 0.02) for the whole model.
//!
//! Training draws k from 0 to `max_offset`, once a step and for all its rows: the rows of longer numbers are trained so.
//! A text is read with k = 0. Positions do not enter: the order of the tokens does. A text of n tokens may be one number,
//! so the table must have more than n rows to read it, and more than n + `max_offset` to begin the training. In a later
//! stage on longer texts a row whose numbers would leave the table is raised by less, as far as it holds them.

use super::learned::INIT_STD;
use crate::encoding::TrainingDraw;
use crate::prelude::*;
use burn::tensor::Bool;

/// The bytes `0` to `9`.
const BYTES: std::ops::RangeInclusive<u32> = 48..=57;

keys! {
    /// Keys of `kind = "abacus"`.
    pub struct Config {
        /// Rows of the table: row 0 for tokens that are no digits, the others for places.
        pub table_size: usize = 1024,
        /// The largest number that training adds to every place, drawn for each step.
        pub max_offset: usize = 99,
        /// The tokens that are digits; those of the tokenizer unless given.
        pub digits: Option<Vec<u32>> = None,
    }
}

/// The table, and what a digit is.
#[derive(Module, Debug)]
pub struct Abacus {
    /// `[table_size, width]`.
    pub table: Param<Tensor<2>>,
    #[module(skip)]
    max_offset: usize,
    #[module(skip)]
    digits: Vec<u32>,
    /// Whether the tokenizer says what a digit is.
    #[module(skip)]
    from_tokenizer: bool,
}

impl Configure for Config {
    type Encoding = Abacus;
    const KIND: &'static str = "abacus";
    const DESCRIPTION: &'static str = "a learned vector for the place of a digit in its number (Abacus)";
    const SOURCE: &'static str = "arXiv:2405.17399";
    const FORMULA: &'static str = "x'_m = x_m + e_{j(m)}, e learned\n\
        j(m) = c + place of the digit in its number, from 1; 0 for other tokens\n\
        c = 0; in training drawn from 0..99 in every step";
    const PYTORCH: Option<&'static str> = Some(include_str!("abacus.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported(
        "defined up to `table_size`: random offsets train the rows of longer numbers, up to the trained digits + `max_offset`",
    );
    const LENGTHS: &'static [&'static str] = &["table_size"];
    const VARIANTS: &'static [&'static str] = &["digits = [0, 3, 4]\nmax_offset = 3"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        if self.digits.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::value(
                &format!("{section}.digits"),
                "[]",
                "it lists the tokens that are digits",
            )
            .hint("leave it out: the tokenizer says which they are"));
        }
        let needed = dimensions.train_length + self.max_offset;
        if self.table_size > needed {
            return Ok(());
        }
        Err(Error::value(
            &format!("{section}.table_size"),
            self.table_size,
            format!(
                "it must be above `train.length` + `max_offset` = {needed}: a text may be one number, whose places \
                 training raises by up to {}",
                self.max_offset
            ),
        )
        .hint("give a larger one, such as \"16L\", or a smaller `max_offset`"))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Abacus {
        Abacus {
            table: init.normal("position.abacus.table", [self.table_size, dimensions.width], INIT_STD),
            max_offset: self.max_offset,
            digits: self.digits.clone().unwrap_or_else(|| BYTES.collect()),
            from_tokenizer: self.digits.is_none(),
        }
    }
}

impl Abacus {
    fn table_size(&self) -> usize {
        self.table.lazy_shape().dims::<2>()[0]
    }

    /// What is added to the places: 0, or in training a draw, the same for all parts of a step.
    pub fn offset(&self, draw: Option<TrainingDraw>) -> usize {
        draw.map_or(0, |draw| draw.stream("abacus").below(self.max_offset as u64 + 1) as usize)
    }

    /// The place of every token in its run of digits, from 1, and 0 where it is no digit, `[batch, length]`, where `open`
    /// digits `[batch, 1]` lie before the first token.
    pub fn places(&self, tokens: &Tensor<2, Int>, open: Option<Tensor<2, Int>>) -> Tensor<2, Int> {
        let mut is_digit: Tensor<2, Bool> = tokens.clone().equal_elem(self.digits[0]);
        for &digit in &self.digits[1..] {
            is_digit = is_digit.bool_or(tokens.clone().equal_elem(digit));
        }
        let counted = is_digit.clone().int().cumsum(1);
        let counted = match open {
            Some(open) => counted + open,
            None => counted,
        };
        // Digits up to the last token that is none.
        let before = counted.clone().mask_fill(is_digit.clone(), 0).cummax(1);
        (counted - before).mask_fill(is_digit.bool_not(), 0)
    }

    /// The hidden state with the rows of the table, at places that are known; each row is raised as far as its longest number allows.
    fn added(&self, hidden: Tensor<3>, places: Tensor<2, Int>, offset: usize) -> Tensor<3> {
        let [batch, length, width] = hidden.dims();
        let is_digit = places.clone().not_equal_elem(0);
        let last = self.table_size() as i64 - 1;
        let raised = places.clone().max_dim(1).neg().add_scalar(last).clamp(0, offset as i64); // [batch, 1]
        let index = places.clone().mask_where(is_digit, places + raised);
        hidden + self.table.val().select(0, index.reshape([batch * length])).reshape([batch, length, width])
    }

    /// The tokens that are digits, where the tokenizer says which they are: its own take their place before a text is read.
    pub fn of_tokenizer(&mut self) -> Option<&mut Vec<u32>> {
        self.from_tokenizer.then_some(&mut self.digits)
    }
}

impl Position for Abacus {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::decayed("table", &["table_size", "width"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            hidden_use: HiddenUse::Enters,
            position_use: PositionUse::Order,
            ..Capabilities::default()
        }
    }

    /// `before` carries the length of the run of digits that is open, `[batch, 1, 1]`.
    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let [batch, length, _] = hidden.dims();
        let open = before.take().map(|open| open.reshape([batch, 1]).int());
        let places = self.places(rows.tokens, open);
        let last = places.clone().slice_dim(1, length - 1..length);
        *before = Some(last.float().reshape([batch, 1, 1]));
        self.added(hidden, places, self.offset(rows.draw))
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        let (length, size) = (positions.length(), self.table_size());
        if length < size {
            return Ok(());
        }
        Err(Error::usage(format!(
            "`abacus` has {size} rows, and a text of {length} tokens may be a number of as many digits"
        ))
        .hint(format!(
            "train with a `table_size` above {length}, or read texts of at most {} tokens",
            size - 1
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, dimensions, message_of, random};

    /// Digits are 1, 2 and 4.
    const TEXT: &str = "kind = \"abacus\"\ndigits = [1, 2, 4]\nmax_offset = 3\ntable_size = 24";

    fn tokens(tokens: &[i64]) -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(tokens.to_vec(), [1, tokens.len()]), &Device::flex())
    }

    fn abacus() -> Abacus {
        build(TEXT, &Device::flex()).get::<Abacus>().unwrap().clone()
    }

    fn numbers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i32> {
        tensor.into_data_as::<i32>().try_to_vec().unwrap()
    }

    #[test]
    fn places_count_from_the_first_digit_of_a_run() {
        let places = |text: &[i64], open: Option<i64>| {
            numbers(abacus().places(&tokens(text), open.map(|open| tokens(&[open]))))
        };
        assert_eq!(places(&[1, 4, 3, 2, 0, 1, 1, 1], None), [1, 2, 0, 1, 0, 1, 2, 3]);
        assert_eq!(places(&[3, 0, 5], None), [0, 0, 0]);
        assert_eq!(places(&[2, 2, 3, 2], Some(5)), [6, 7, 0, 1]);
        assert_eq!(places(&[3, 2, 2], Some(5)), [0, 1, 2]);
    }

    #[test]
    fn training_raises_the_places_of_digits_alone() {
        let (abacus, text) = (abacus(), tokens(&[3, 1, 2, 0]));
        let positions = Positions::range(0..4);
        let x = random::<3>("x", [1, 4, dimensions().width], &Device::flex());
        let embedded = |draw| {
            let rows = Rows { draw, ..Rows::new(0, &text, &positions) };
            abacus.embed(x.clone(), rows, &mut None)
        };
        let offset = |step| abacus.offset(Some(TrainingDraw { seed: 7, step }));
        let mut drawn: Vec<usize> = (0..50).map(offset).collect();
        let step = (0..50).find(|&step| offset(step) == 2).unwrap();
        let found = embedded(Some(TrainingDraw { seed: 7, step })) - x.clone();
        let expected = abacus.table.val().select(0, tokens(&[0, 3, 4, 0]).reshape([4])).unsqueeze::<3>();
        assert!((found - expected).abs().max().into_scalar::<f32>() < 1e-6);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [0, 1, 2, 3], "every offset, the largest included");
        assert_eq!(abacus.offset(None), 0, "a text is read without");
    }

    /// Whatever stands beside it in its part of a step: rows 0 to 23 leave room for 1 behind a number of 22 digits.
    #[test]
    fn a_row_is_raised_as_far_as_its_own_numbers_allow() {
        let abacus = abacus();
        let (short, long) = ([&[1, 2], &[0; 20][..]].concat(), vec![1; 22]);
        let positions = Positions::range(0..22);
        let raised = |texts: &[&[i64]], row: usize, step| {
            let tokens = Tensor::<2, Int>::from_data(
                TensorData::new(texts.concat(), [texts.len(), 22]),
                &Device::flex(),
            );
            let x = Tensor::zeros([texts.len(), 22, dimensions().width], &Device::flex());
            let rows =
                Rows { draw: Some(TrainingDraw { seed: 7, step }), ..Rows::new(0, &tokens, &positions) };
            let first = abacus.embed(x, rows, &mut None).slice([row..row + 1, 0..1]).squeeze_dim::<2>(0);
            let away = |index: usize| {
                let vector = abacus.table.val().slice_dim(0, index..index + 1);
                (first.clone() - vector).abs().max().into_scalar::<f32>()
            };
            (1..24).find(|&index| away(index) < 1e-6).unwrap() - 1
        };
        for step in 0..50 {
            let drawn = abacus.offset(Some(TrainingDraw { seed: 7, step }));
            assert_eq!(raised(&[&short], 0, step), drawn);
            assert_eq!(raised(&[&long], 0, step), drawn.min(1));
            assert_eq!([0, 1].map(|row| raised(&[&short, &long], row, step)), [drawn, drawn.min(1)]);
        }
    }

    #[test]
    fn texts_longer_than_the_table_are_rejected() {
        let abacus = abacus();
        assert!(abacus.check(&Positions::range(0..23)).is_ok());
        let error = abacus.check(&Positions::range(0..24)).unwrap_err().to_string();
        assert!(error.contains("a text of 24 tokens") && error.contains("above 24"), "{error}");
        let small = message_of("kind = \"abacus\"\ntable_size = 20\nmax_offset = 4");
        assert!(small.starts_with("`position.table_size = 20`") && small.contains("= 20:"), "{small}");
        assert!(message_of("kind = \"abacus\"\ndigits = []").starts_with("`position.digits = []`"));
    }

    #[test]
    fn digits_come_from_the_tokenizer_unless_they_are_given() {
        let mut given = build(TEXT, &Device::flex());
        assert!(given.get_mut().and_then(Abacus::of_tokenizer).is_none());
        let mut open = build("kind = \"abacus\"", &Device::flex());
        let digits = open.get_mut().and_then(Abacus::of_tokenizer).unwrap();
        assert_eq!(digits.as_slice(), (48..58).collect::<Vec<u32>>());
    }
}
