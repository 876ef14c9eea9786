//! Some windows of a split: what is looked at more closely than by a loss.

use crate::source::Source;
use longwave_core::{Error, Result};
use longwave_data::{Dataset, Split};
use longwave_position::layout::TextLayout;

/// Windows of a split, spread over its documents. The same for the same text, whatever the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub split: Split,
    pub windows: Vec<Vec<u32>>,
    /// The documents that they lie in, or the sequences of a task.
    pub documents: usize,
    /// Which of both.
    pub unit: &'static str,
}

impl Sample {
    /// At most `most` windows of `length` tokens: one from the beginning of each document that is that long, of evenly spread
    /// ones where there are more of them, and where there are fewer also the windows that follow. Of a task, as many sequences,
    /// each as long as fits.
    pub fn of(dataset: &Dataset, split: Split, length: usize, most: usize) -> Result<Self> {
        let source = Source::open(dataset, None, split)?;
        if source.has_task() {
            let questions = source.questions(most, length)?;
            let lengths = questions.lengths();
            let windows: Vec<_> = lengths
                .iter()
                .enumerate()
                .map(|(index, &tokens)| questions.read(index, 0..tokens.min(length)))
                .collect();
            return Ok(Self { split, documents: windows.len(), windows, unit: questions.material().unit() });
        }
        let text = source.documents();
        let lengths = text.lengths();
        let places = places(&lengths, length, most);
        if places.is_empty() {
            let longest = lengths.iter().max().copied().unwrap_or_default();
            let longest = match longest {
                0 => "it is empty".to_owned(),
                longest => format!("its longest one has {longest}"),
            };
            return Err(Error::usage(format!(
                "no document of the split `{split}` of `{}` has {length} tokens; {longest}",
                source.name
            ))
            .hint("read a shorter length"));
        }
        let mut documents: Vec<usize> = places.iter().map(|&(document, _)| document).collect();
        documents.sort_unstable();
        documents.dedup();
        let windows = places.iter().map(|&(document, start)| {
            let mut window = text.read(document, start..start + length);
            text.begin(&mut window, length, TextLayout::Contiguous);
            window
        });
        let unit = text.material().unit();
        Ok(Self { split, windows: windows.collect(), documents: documents.len(), unit })
    }
}

/// Where windows begin, as documents and tokens.
fn places(lengths: &[usize], length: usize, most: usize) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for start in (0..).step_by(length) {
        let long_enough = |&document: &usize| lengths[document] >= start + length;
        let documents: Vec<usize> = (0..lengths.len()).filter(long_enough).collect();
        let taken = documents.len().min(most - places.len());
        if taken == 0 {
            break;
        }
        places.extend((0..taken).map(|index| (documents[index * documents.len() / taken], start)));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_spread_over_documents() {
        assert_eq!(places(&[100; 6], 10, 3), [(0, 0), (2, 0), (4, 0)]);
        assert_eq!(places(&[25, 9, 10], 10, 8), [(0, 0), (2, 0), (0, 10)]);
        assert_eq!(places(&[40, 30], 10, 5), [(0, 0), (1, 0), (0, 10), (1, 10), (0, 20)]);
        assert_eq!(places(&[40, 30], 10, 4), [(0, 0), (1, 0), (0, 10), (1, 10)]);
        assert!(places(&[9, 8], 10, 4).is_empty() && places(&[], 10, 4).is_empty());
    }
}
