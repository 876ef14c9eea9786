//! What the model must know of an encoding before it calls a hook.

/// What an encoding does with the channels of q and k, apart from rotating them. It decides which encodings a layer may
/// combine, and whether the model calls the maps of q and k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadUse {
    /// Nothing: [`map_heads`](super::Position::map_heads) gives back what it is given, and the model may leave it out.
    #[default]
    None,
    /// It changes them, or multiplies them with vectors of width `head_dim`.
    Reads,
    /// It appends channels to them.
    Widens,
}

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

/// What an encoding uses and changes beside what its hooks return. Tests compare each field with what the hooks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each read on its own")]
pub struct Capabilities {
    /// What the encoding reads of the positions; by default the positions themselves.
    pub position_use: PositionUse,
    /// What it does with the channels of q and k.
    pub head_use: HeadUse,
    /// q.k depends on the difference of the positions that q and k are read at. Only then does a
    /// [`Geometry`](super::Geometry) mean something.
    pub is_relative_qk: bool,
    /// [`Position::bias`](super::Position::bias) adds something.
    pub adds_bias: bool,
    /// That bias is one of so many first heads alone; the others have no encoding of it.
    pub first_heads: Option<usize>,
    /// [`ScoreForm::Vectors`](super::ScoreForm::Vectors) describes what the encoding does with scores, at consecutive
    /// positions and wherever else [`Position::needs_scores`](super::Position::needs_scores) is false.
    pub adds_vectors: bool,
    /// [`Position::embed`](super::Position::embed) discards the hidden state, so that the encoding must come first.
    pub replaces_hidden: bool,
    /// The hidden state is complex, `[real | imag]`, and the model ties its linear maps accordingly.
    pub complex_hidden: bool,
    /// [`Position::map_heads`](super::Position::map_heads) of q reads the projection of keys, `rows.key_matrix`.
    pub reads_key_matrix: bool,
    /// A hook reads `block.input` or `rows.input` of all rows. Without it, a text that is read piece by piece has only the input of the
    /// new rows.
    pub reads_input: bool,
    /// [`Position::scores`](super::Position::scores) multiplies scores by a factor that grows with the distance. Log-n
    /// scaling would adapt them to the length a second time.
    pub scales_scores: bool,
    /// [`Position::scores`](super::Position::scores) computes scores from q and k, and discards those that it is given: no
    /// other encoding of the layer may rotate q and k or change scores.
    pub computes_scores: bool,
    /// Numbers per score that the encoding holds at once where the model reads it by blocks of queries (the hidden layer
    /// of a network over distances). Blocks become smaller by this factor.
    pub scratch_per_score: usize,
    /// It has a value for whole positions or distances alone, and reads others as the whole number below.
    pub whole_positions: bool,
    /// Rows of a learned table with one vector for each position; texts of L tokens train the first L of them.
    pub table_rows: Option<usize>,
}

impl Capabilities {
    /// Those of an encoding that does nothing.
    pub const NONE: Self = Self {
        position_use: PositionUse::Order,
        head_use: HeadUse::None,
        is_relative_qk: false,
        adds_bias: false,
        first_heads: None,
        adds_vectors: false,
        replaces_hidden: false,
        complex_hidden: false,
        reads_key_matrix: false,
        reads_input: false,
        scales_scores: false,
        computes_scores: false,
        scratch_per_score: 1,
        whole_positions: false,
        table_rows: None,
    };

    /// Those of two encodings together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            position_use: self.position_use.max(other.position_use),
            head_use: self.head_use.max(other.head_use),
            is_relative_qk: self.is_relative_qk || other.is_relative_qk,
            adds_bias: self.adds_bias || other.adds_bias,
            first_heads: self.first_heads.max(other.first_heads),
            adds_vectors: self.adds_vectors || other.adds_vectors,
            replaces_hidden: self.replaces_hidden || other.replaces_hidden,
            complex_hidden: self.complex_hidden || other.complex_hidden,
            reads_key_matrix: self.reads_key_matrix || other.reads_key_matrix,
            reads_input: self.reads_input || other.reads_input,
            scales_scores: self.scales_scores || other.scales_scores,
            computes_scores: self.computes_scores || other.computes_scores,
            scratch_per_score: self.scratch_per_score.max(other.scratch_per_score),
            whole_positions: self.whole_positions || other.whole_positions,
            table_rows: self.table_rows.or(other.table_rows),
        }
    }
}

impl Default for Capabilities {
    /// An encoding that reads absolute positions, and for which nothing else holds.
    fn default() -> Self {
        Self { position_use: PositionUse::Positions, ..Self::NONE }
    }
}
