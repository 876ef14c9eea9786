//! A model whose file scales its positions: the scaling is part of the model, so every reading has it.

use super::Reading;
use crate::frequency::Frequencies;
use crate::tokens::Lengths;
use longwave_core::Result;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

/// What makes the reading of a length from that of a model: an extension.
pub trait Rescale: Debug + Send + Sync {
    fn at(&self, trained: &Reading, lengths: Lengths) -> Result<Reading>;
}

/// What the file of a published model says of its positions.
#[derive(Clone, Debug)]
pub struct Published {
    /// The length in tokens that its scaling counts from. L, from which texts are measured, may be another one.
    pub length: usize,
    /// Its scaling, where the model was trained with it.
    pub scaling: Option<Arc<dyn Rescale>>,
}

/// What a reading keeps of its file, so that it can be made for another length.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    published: Published,
    /// The frequencies of every encoding before the scaling.
    plain: Vec<Option<Frequencies>>,
}

impl Kept {
    /// That of these encodings alone.
    pub(super) fn part(&self, encodings: &[usize]) -> Self {
        let plain = encodings.iter().map(|&index| self.plain.get(index).cloned().flatten()).collect();
        Self { published: self.published.clone(), plain }
    }
}

impl Reading {
    /// The reading of a model whose file says this, for texts of L tokens. What extensions make of it for a longer text
    /// begins with the scaling for that text, which may follow its length (`dynamic`, `longrope`).
    pub fn with_published(mut self, published: Published, train: usize) -> Result<Self> {
        let plain = self.encodings.iter().map(|encoding| encoding.frequencies().cloned()).collect();
        let kept = Kept { published, plain };
        self.published = Some(kept.clone());
        let mut reading = self.at(train)?.into_owned();
        reading.published = Some(kept);
        Ok(reading)
    }

    /// What the model's file says of its positions, where it was imported.
    pub fn published(&self) -> Option<&Published> {
        self.published.as_ref().map(|kept| &kept.published)
    }

    /// The model as its file reads a text of this length.
    pub(crate) fn at(&self, length: usize) -> Result<Cow<'_, Self>> {
        let Some(Kept { published: Published { length: train, scaling }, .. }) = &self.published else {
            return Ok(Cow::Borrowed(self));
        };
        let plain = self.without_scaling();
        let lengths = Lengths { train: *train, length };
        scaling.as_ref().map_or(Ok(plain.clone()), |scaling| scaling.at(&plain, lengths)).map(Cow::Owned)
    }

    /// The model without the scaling of its file.
    pub(crate) fn without_scaling(&self) -> Self {
        let mut reading = self.clone();
        if let Some(kept) = reading.published.take() {
            for (encoding, frequencies) in reading.encodings.iter_mut().zip(kept.plain) {
                if let Some(frequencies) = frequencies {
                    encoding.set_frequencies(frequencies);
                }
            }
        }
        reading
    }
}
