//! What the model must know of an encoding before it calls a hook.

/// What an encoding reads of the positions. It decides which randomly drawn positions can train it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PositionUse {
    /// Only the order of the rows: any positions give the same output.
    Order,
    /// Distances: a shift of all positions changes nothing.
    Distances,
    /// The positions themselves.
    Positions,
}

/// Where an encoding has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// At all positions or distances.
    #[default]
    Real,
    /// At whole positions or distances alone; it reads others as the whole number below.
    Whole,
    /// In a learned table of so many rows, one vector for each position; texts of L tokens train the first L of them.
    Rows(usize),
}

/// What an encoding does with the hidden state that [`Position::embed`](super::Position::embed) is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HiddenUse {
    /// It adds to it, multiplies it, or leaves it as it is.
    #[default]
    Adds,
    /// It adds to it or multiplies it at the first layer that reads the encoding, and does nothing elsewhere.
    Enters,
    /// It discards it there, so that the encoding must come first.
    Replaces,
    /// It discards it there for a complex one, `[real | imag]`, and the model ties its linear maps accordingly.
    ReplacesByComplex,
}

/// What an encoding does with the channels of q and k, apart from rotating them. It decides which encodings a layer may
/// combine, and whether the model calls the maps of q and k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadUse {
    /// Nothing: [`map_heads`](super::Position::map_heads) gives back what it is given, and the model may leave it out.
    #[default]
    None,
    /// It appends channels that positions alone decide, and multiplies q or k by a number at most: it reads neither.
    Appends,
    /// It changes them, or multiplies them with vectors of width `head_dim`.
    Reads,
    /// It appends channels that are made of them.
    Widens,
}

impl HeadUse {
    /// Whether what it does depends on q or k, and not on their product alone. A rotation of the layer turns them before, so it reads
    /// them rotated.
    pub fn reads(self) -> bool {
        self >= Self::Reads
    }

    /// Whether it makes them wider.
    pub fn widens(self) -> bool {
        matches!(self, Self::Appends | Self::Widens)
    }
}

/// Which heads [`Position::bias`](super::Position::bias) adds something to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BiasUse {
    /// No head.
    #[default]
    None,
    /// Every head.
    AllHeads,
    /// So many first heads alone; the others have no encoding of it.
    FirstHeads(usize),
}

impl From<bool> for BiasUse {
    /// Of every head, or of none.
    fn from(adds: bool) -> Self {
        if adds { Self::AllHeads } else { Self::None }
    }
}

/// What an encoding does with scores, beside its bias. Where a layer has several encodings, [`Capabilities::and`] keeps the
/// variant that stands last here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScoreUse {
    /// Nothing that the model must know before.
    #[default]
    None,
    /// [`Position::scores`](super::Position::scores) multiplies scores by a factor that grows with the distance. Log-n
    /// scaling would adapt them to the length a second time.
    Scales,
    /// [`Position::scores`](super::Position::scores) computes scores from q and k, and discards those that it is given: no
    /// other encoding of the layer may rotate q and k or change scores.
    Computes,
    /// [`ScoreForm::Vectors`](super::ScoreForm::Vectors) describes what the encoding does with scores, at consecutive
    /// positions and wherever else [`Position::needs_scores`](super::Position::needs_scores) is false.
    AddsVectors,
}

/// What an encoding uses and changes beside what its hooks return. Tests compare each field with what the hooks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What the encoding reads of the positions; by default the positions themselves.
    pub position_use: PositionUse,
    /// Where it has a value.
    pub domain: Domain,
    /// What it does with the hidden state.
    pub hidden_use: HiddenUse,
    /// What it does with the channels of q and k.
    pub head_use: HeadUse,
    /// The heads that it adds a bias to.
    pub bias_use: BiasUse,
    /// What else it does with scores.
    pub score_use: ScoreUse,
    /// q.k depends on the difference of the positions that q and k are read at. Only then does a
    /// [`Geometry`](super::Geometry) mean something.
    pub is_relative_qk: bool,
    /// [`Position::map_heads`](super::Position::map_heads) of q reads the projection of keys, `rows.key_matrix`.
    pub reads_key_matrix: bool,
    /// A hook reads `block.input` or `rows.input` of all rows. Without it, a text that is read piece by piece has only the input of the
    /// new rows.
    pub reads_input: bool,
    /// Numbers per score that the encoding holds at once where the model reads it by blocks of queries (the hidden layer
    /// of a network over distances). Blocks become smaller by this factor.
    pub scratch_per_score: usize,
}

impl Capabilities {
    /// Those of an encoding that does nothing.
    pub const NONE: Self = Self {
        position_use: PositionUse::Order,
        domain: Domain::Real,
        hidden_use: HiddenUse::Adds,
        head_use: HeadUse::None,
        bias_use: BiasUse::None,
        score_use: ScoreUse::None,
        is_relative_qk: false,
        reads_key_matrix: false,
        reads_input: false,
        scratch_per_score: 1,
    };

    /// Those of a bias of every head that reads distances and does nothing else.
    pub const BY_DISTANCE: Self =
        Self { position_use: PositionUse::Distances, bias_use: BiasUse::AllHeads, ..Self::NONE };

    /// Whether it adds a bias to some head.
    pub fn adds_bias(self) -> bool {
        self.bias_use != BiasUse::None
    }

    /// Whether it discards the hidden state that it is given.
    pub fn replaces_hidden(self) -> bool {
        matches!(self.hidden_use, HiddenUse::Replaces | HiddenUse::ReplacesByComplex)
    }

    /// Whether the first layer that reads it is all that it changes.
    pub fn enters_once(self) -> bool {
        let is_nothing_else = self.head_use == HeadUse::None && self.score_use == ScoreUse::None;
        self.hidden_use != HiddenUse::Adds && is_nothing_else && !self.adds_bias()
    }

    /// Whether the hidden state becomes complex.
    pub fn makes_complex(self) -> bool {
        self.hidden_use == HiddenUse::ReplacesByComplex
    }

    /// How many first heads its bias is of, where the others have none.
    pub fn first_heads(self) -> Option<usize> {
        match self.bias_use {
            BiasUse::FirstHeads(heads) => Some(heads),
            BiasUse::None | BiasUse::AllHeads => None,
        }
    }

    /// Whether vectors describe what it does with scores.
    pub fn adds_vectors(self) -> bool {
        self.score_use == ScoreUse::AddsVectors
    }

    /// The rows of its learned table of positions.
    pub fn table_rows(self) -> Option<usize> {
        match self.domain {
            Domain::Rows(rows) => Some(rows),
            Domain::Real | Domain::Whole => None,
        }
    }

    /// Those of the encodings of one layer together. What reads q or k beside an encoding that turns them by position reads positions, even
    /// where each alone reads distances. Two turns in the same planes would commute (`selective_rope` beside `rope`); they are not told apart.
    #[must_use]
    pub fn of_layer(encodings: &[Self]) -> Self {
        let together = encodings.iter().copied().fold(Self::NONE, Self::and);
        let turned_for = |(reader, one): (usize, &Self)| {
            let mut others = encodings.iter().enumerate().filter(|(other, _)| *other != reader);
            one.head_use.reads() && others.any(|(_, other)| other.is_relative_qk)
        };
        let reads_turned = encodings.iter().enumerate().any(turned_for);
        let position_use = if reads_turned { PositionUse::Positions } else { together.position_use };
        Self { position_use, ..together }
    }

    /// Those of two encodings together, which need not be read by the same layer.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            position_use: self.position_use.max(other.position_use),
            domain: self.domain.max(other.domain),
            hidden_use: self.hidden_use.max(other.hidden_use),
            head_use: self.head_use.max(other.head_use),
            bias_use: self.bias_use.max(other.bias_use),
            score_use: self.score_use.max(other.score_use),
            is_relative_qk: self.is_relative_qk || other.is_relative_qk,
            reads_key_matrix: self.reads_key_matrix || other.reads_key_matrix,
            reads_input: self.reads_input || other.reads_input,
            scratch_per_score: self.scratch_per_score.max(other.scratch_per_score),
        }
    }
}

impl Default for Capabilities {
    /// An encoding that reads absolute positions, and for which nothing else holds.
    fn default() -> Self {
        Self { position_use: PositionUse::Positions, ..Self::NONE }
    }
}
