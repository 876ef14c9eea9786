//! Settings of an extension and what they promise: tests compare every promise with what the extension does.

/// What an extension does to one end of the spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// The frequency stays.
    Same,
    /// It is divided by the scale L'/L.
    ByScale,
    /// It is divided by this number.
    By(f64),
    /// It is divided by more than 1 and less than the scale.
    Between,
    /// It is divided by more than the scale.
    More,
    /// The encoding has no frequencies.
    Absent,
}

/// Which shifts of all positions leave the attention as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shifts {
    /// All of them.
    All,
    /// Multiples of this number: groups or blocks of positions lie on a fixed grid.
    Multiples(usize),
    /// None: the first positions differ from the others.
    None,
}

/// A setting of an extension, the encoding it is tested with, and what it promises.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The keys beside `kind`, in TOML, with a comma between them.
    pub keys: String,
    /// `position.kind` of the encoding that every promise is tested with.
    pub encoding: &'static str,
    /// Whether texts of L tokens and fewer are read as trained.
    pub keeps_short_texts: bool,
    /// What happens to the fastest and to the slowest frequency.
    pub bands: [Band; 2],
    /// Which shifts of all positions leave the attention as it is.
    pub shifts: Shifts,
}

impl Example {
    /// These keys with `rope`, and the promises of `direct`: short texts are read as trained, the frequencies stay, and
    /// only distances count.
    pub fn new(keys: impl Into<String>) -> Self {
        Self {
            keys: keys.into(),
            encoding: "rope",
            keeps_short_texts: true,
            bands: [Band::Same; 2],
            shifts: Shifts::All,
        }
    }

    /// The same, tested with another encoding, which has no frequencies.
    #[must_use]
    pub fn with_encoding(self, encoding: &'static str) -> Self {
        Self { encoding, bands: [Band::Absent; 2], ..self }
    }

    /// The same for an extension that changes texts of L tokens too.
    #[must_use]
    pub fn changes_short_texts(self) -> Self {
        Self { keeps_short_texts: false, ..self }
    }

    /// The same with other promises for the fastest and the slowest frequency.
    #[must_use]
    pub fn bands(self, fastest: Band, slowest: Band) -> Self {
        Self { bands: [fastest, slowest], ..self }
    }

    /// The same with another promise about shifts.
    #[must_use]
    pub fn shifts(self, shifts: Shifts) -> Self {
        Self { shifts, ..self }
    }
}
