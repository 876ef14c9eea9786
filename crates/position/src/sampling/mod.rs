//! The positions that training reads its rows at: `train.positions`.
//!
//! Training reads positions 0, 1, 2, .. unless it says otherwise; a model that has met larger positions, or
//! gaps between them, is then read where it has been. Any encoding takes what it can read: see
//! [`TrainingPositions::check`].
//!
//! - [`randpos`]: a random subset of a longer range, in order (Ruoss et al. 2023, arXiv:2305.16843).
//! - [`pose`]: two chunks with a gap between them (Zhu et al. 2023, arXiv:2309.10400).
//! - `offset`: a random start for every row (Kiyono et al. 2021, SHAPE, arXiv:2109.05644).
//! - [`float`]: sorted real numbers from a range (Random Float Sampling, arXiv:2602.14050).
//! - [`segments`]: consecutive pieces of one text, each a row of its own.
//!
//! Every draw is a pure function of (seed, step) on a stream of its own, so that a run resumes without any
//! saved state and batches do not depend on how positions are drawn.

pub mod float;
pub mod pose;
pub mod randpos;
pub mod segments;
mod shown;

use crate::encoding::PositionUse;
use crate::extent::Extent;
use crate::positions::Positions;
use crate::reading::Reading;
use crate::tokens::{Lengths, Tokens};
use longwave_core::config::{check_keys_of_kind, missing_key_of_kind};
use longwave_core::random::Stream;
use longwave_core::{Error, Result};
use pose::Pose;
use schemars::JsonSchema;
use segments::Segments;
use serde::{Deserialize, Deserializer, Serialize};
pub use shown::Shown;

/// `max_position` of the `RandPos` paper.
fn randpos_positions() -> Tokens {
    Tokens::Count(2048)
}

/// From 2,048 to 16,384 positions in the `PoSE` paper.
fn pose_positions() -> Tokens {
    Tokens::times(8.0)
}

/// As far as the other kinds reach by default.
fn float_span() -> Extent {
    Extent::Multiple(Tokens::times(8.0))
}

/// Which positions training reads its rows at, chosen by `kind`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TrainingPositions {
    /// 0, 1, 2, ..
    #[default]
    Contiguous,
    /// As many positions as there are tokens, drawn without replacement and sorted: the same for all rows
    /// of a batch, new ones for every step (arXiv:2305.16843).
    Randpos {
        /// Positions are drawn below it. Default: 2048.
        #[schemars(default = "randpos_positions")]
        max_position: Tokens,
    },
    /// As many real numbers as there are tokens, drawn uniformly from `[0, span)` and sorted: the same for all rows of a
    /// batch, new ones for every step (arXiv:2602.14050).
    Float {
        /// Positions are drawn below it. Default: `"8L"`.
        #[schemars(default = "float_span")]
        span: Extent,
    },
    /// Two chunks: the first from 0 on, the second shifted by a random amount; its tokens skip ahead in the
    /// text by another one. Drawn for every row (arXiv:2309.10400).
    Pose {
        /// Positions stay below it. Default: `"8L"`.
        #[schemars(default = "pose_positions")]
        max_position: Tokens,
        /// The most tokens that the second chunk skips, 0 to read on without a gap. Default:
        /// `max_position` less the length.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_skip: Option<usize>,
    },
    /// Positions in a row, from a random start; drawn for every row (SHAPE, arXiv:2109.05644).
    Offset {
        /// Positions stay below it.
        max_position: Tokens,
    },
    /// `count` rows are consecutive pieces of one text; each is read by itself, from position 0 or
    /// from a random start, and no attention crosses from one to the next.
    Segments {
        /// Rows that are consecutive pieces of one text; it divides the rows of a batch.
        count: usize,
        /// Draws the start of every segment, so that its positions stay below it. Default: all begin at 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_position: Option<Tokens>,
    },
}

/// The keys as written; read first, so that an unknown key is named with its path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with a `kind`")]
struct Written {
    kind: SamplingKind,
    max_position: Option<Tokens>,
    max_skip: Option<usize>,
    count: Option<usize>,
    span: Option<Extent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SamplingKind {
    Contiguous,
    Randpos,
    Float,
    Pose,
    Offset,
    Segments,
}

impl<'de> Deserialize<'de> for TrainingPositions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let Written { kind, max_position, max_skip, count, span } = Written::deserialize(deserializer)?;
        let keys = [
            ("max_position", max_position.is_some()),
            ("max_skip", max_skip.is_some()),
            ("count", count.is_some()),
            ("span", span.is_some()),
        ];
        let missing = missing_key_of_kind::<D::Error>;
        let (takes, positions): (&[&str], _) = match kind {
            SamplingKind::Contiguous => (&[], Self::Contiguous),
            SamplingKind::Randpos => {
                let max_position = max_position.unwrap_or_else(randpos_positions);
                (&["max_position"], Self::Randpos { max_position })
            }
            SamplingKind::Float => (&["span"], Self::Float { span: span.unwrap_or_else(float_span) }),
            SamplingKind::Pose => {
                let max_position = max_position.unwrap_or_else(pose_positions);
                (&["max_position", "max_skip"], Self::Pose { max_position, max_skip })
            }
            SamplingKind::Offset => {
                let max_position = max_position
                    .ok_or_else(|| missing("max_position", "{ kind = \"offset\", max_position = \"8L\" }"))?;
                (&["max_position"], Self::Offset { max_position })
            }
            SamplingKind::Segments => {
                let count = count.ok_or_else(|| missing("count", "{ kind = \"segments\", count = 4 }"))?;
                (&["count", "max_position"], Self::Segments { count, max_position })
            }
        };
        check_keys_of_kind(positions.kind(), takes, &keys).map(|()| positions)
    }
}

/// What one step reads: positions and, where rows leave tokens out, which.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Positions `[1 or rows, length]`.
    pub positions: Positions,
    /// The tokens of each row, `[rows][length]`, counted from the row's start in the text; `None` where
    /// rows take the first `length`.
    pub tokens: Option<Vec<Vec<usize>>>,
}

impl TrainingPositions {
    /// `kind` in a config.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Randpos { .. } => "randpos",
            Self::Float { .. } => "float",
            Self::Pose { .. } => "pose",
            Self::Offset { .. } => "offset",
            Self::Segments { .. } => "segments",
        }
    }

    /// Whether training reads 0, 1, 2, .. in every row, as any training does.
    pub fn is_contiguous(&self) -> bool {
        *self == Self::Contiguous
    }

    /// Consecutive rows of a batch that are one piece of text.
    pub fn rows_per_text(&self) -> usize {
        match self {
            Self::Segments { count, .. } => *count,
            _ => 1,
        }
    }

    /// Tokens of text that the rows of one piece of text are taken from.
    pub fn text_length(&self, lengths: Lengths) -> usize {
        match self {
            Self::Pose { .. } => lengths.length + self.max_skip(lengths),
            _ => lengths.length * self.rows_per_text(),
        }
    }

    /// The positions that training may meet lie below it.
    pub fn reach(&self, lengths: Lengths) -> usize {
        let written = match self {
            Self::Float { span } => return span.at(lengths).ceil() as usize,
            Self::Contiguous => None,
            Self::Randpos { max_position }
            | Self::Pose { max_position, .. }
            | Self::Offset { max_position } => Some(*max_position),
            Self::Segments { max_position, .. } => *max_position,
        };
        written.map_or(lengths.length, |tokens| (tokens.at(lengths) + 1e-9).floor() as usize)
    }

    /// The distances that rows of `lengths.length` tokens show. A start of its own moves a row, and leaves its distances.
    pub fn shown(&self, lengths: Lengths) -> Shown {
        match self {
            Self::Float { span } => Shown { farthest: span.at(lengths), below: span.at(lengths) },
            Self::Randpos { .. } | Self::Pose { .. } => Shown::whole(self.reach(lengths)),
            Self::Contiguous | Self::Offset { .. } | Self::Segments { .. } => Shown::whole(lengths.length),
        }
    }

    /// Checks the values for rows of `lengths.length` tokens.
    pub fn validate(&self, section: &str, lengths: Lengths) -> Result<()> {
        if let Self::Segments { count: 0, .. } = self {
            return Err(Error::value(&format!("{section}.count"), 0, "it must be at least 1"));
        }
        if let Self::Float { span } = self {
            // However short, a range has room for any number of real positions.
            return span.validate(&format!("{section}.span"), false);
        }
        let (reach, length) = (self.reach(lengths), lengths.length);
        if reach >= length {
            return Ok(());
        }
        let allowed = format!("a row of {length} tokens needs as many positions");
        Err(Error::value(&format!("{section}.max_position"), reach, allowed)
            .hint("give a larger number, or a multiple of the training length such as \"8L\""))
    }

    /// Whether a model trained with these positions would learn anything from them, and has a value for
    /// all of them.
    pub fn check(&self, section: &str, reading: &Reading, lengths: Lengths) -> Result<()> {
        let name = reading.name();
        let rejected = |why: String, hint: &str| {
            Err(Error::value(section, format!("{{ kind = \"{}\" }}", self.kind()), why).hint(hint))
        };
        let wanted = match self {
            Self::Contiguous | Self::Segments { max_position: None, .. } => PositionUse::Order,
            Self::Randpos { .. } | Self::Pose { .. } | Self::Float { .. } => PositionUse::Distances,
            Self::Offset { .. } | Self::Segments { .. } => PositionUse::Positions,
        };
        match (wanted, reading.position_use()) {
            (PositionUse::Distances, PositionUse::Order) => {
                return rejected(
                    format!(
                        "`{name}` reads the order of the tokens alone, which drawn positions leave as it is"
                    ),
                    "leave it out, or use an encoding that reads positions, such as `rope`",
                );
            }
            (PositionUse::Positions, PositionUse::Order | PositionUse::Distances) => {
                return rejected(
                    format!("`{name}` does not see a shift of all positions"),
                    "random starts are for encodings that read absolute positions, such as `learned`; `randpos` and \
                     `pose` draw distances",
                );
            }
            _ => {}
        }
        if reading.memory() > 0 && !self.is_contiguous() {
            return rejected(
                format!("`{name}` carries a memory, whose positions lie just before those of the row"),
                "leave `train.positions` out, or train without `memory`",
            );
        }
        if let Self::Float { span } = self {
            let grid = float::grid(lengths.length, lengths.length, span.at(lengths));
            reading
                .check_between(&format!("`{section}` draws real positions"), &grid)
                .map_err(|error| error.context(format!("`{section}` reads real positions")))?;
        }
        let reach = self.reach(lengths);
        let first = reach.saturating_sub(lengths.length);
        reading
            .check(&Positions::range(first..reach))
            .map_err(|error| error.context(format!("`{section}` reads positions up to {}", reach - 1)))
    }

    /// The positions of the `rows` rows of a step; a pure function of its arguments.
    pub fn draw(&self, seed: u64, step: u64, rows: usize, lengths: Lengths) -> Draw {
        let (length, reach) = (lengths.length, self.reach(lengths));
        let mut stream = Stream::new(seed, "positions", step);
        let up_to = |stream: &mut Stream, most: usize| stream.below(most as u64 + 1) as usize;
        let from = |starts: Vec<usize>| {
            let segments = Segments::new(vec![length; starts.len()], starts);
            Draw { positions: Positions::drawn(segments.count(), segments.positions()), tokens: None }
        };
        match self {
            Self::Contiguous | Self::Segments { max_position: None, .. } => {
                Draw { positions: Positions::range(0..length), tokens: None }
            }
            Self::Randpos { .. } => {
                let sample = randpos::sample(&mut stream, length, reach);
                Draw { positions: randpos::positions(sample), tokens: None }
            }
            Self::Float { span } => {
                let sample = float::sample(&mut stream, length);
                Draw { positions: float::positions(sample, span.at(lengths)), tokens: None }
            }
            Self::Offset { .. } | Self::Segments { .. } => {
                from((0..rows).map(|_| up_to(&mut stream, reach - length)).collect())
            }
            Self::Pose { .. } => {
                let most = (reach - length, self.max_skip(lengths));
                let rows: Vec<Pose> = (0..rows).map(|_| Pose::draw(&mut stream, length, most)).collect();
                let positions: Vec<f64> = rows.iter().flat_map(Pose::positions).collect();
                let tokens = rows.iter().map(|row| row.token_indices().collect()).collect();
                Draw { positions: Positions::drawn(rows.len(), positions), tokens: Some(tokens) }
            }
        }
    }

    fn max_skip(&self, lengths: Lengths) -> usize {
        match self {
            Self::Pose { max_skip: Some(most), .. } => *most,
            Self::Pose { .. } => self.reach(lengths).saturating_sub(lengths.length),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
