//! Some layers of a reading, changed apart from the others.

use super::Reading;
use burn::module::Module;

impl Reading {
    /// These layers alone, in this order, with the encodings that they read.
    pub(crate) fn part(&self, layers: &[usize]) -> Self {
        let layers = layers.iter().map(|&layer| self.layers[layer].clone()).collect();
        Self { layers, ..self.clone() }
    }

    /// The same with these layers as `part` reads them. An encoding that other layers read too stays for them as it
    /// is, and the part's stands behind all others as a copy.
    #[must_use]
    pub(crate) fn with_part(mut self, layers: &[usize], part: Self) -> Self {
        let mut read_by_others = vec![false; self.encodings.len()];
        let others = self.layers.iter().enumerate().filter(|(layer, _)| !layers.contains(layer));
        for place in others.flat_map(|(_, layer)| &layer.encodings) {
            read_by_others[place.encoding] = true;
        }
        let changed = part.layers.iter().flat_map(|layer| &layer.encodings).map(|place| place.encoding);
        let mut places: Vec<Option<usize>> = vec![None; self.encodings.len()];
        for index in changed {
            if places[index].is_some() {
                continue;
            }
            let encoding = part.encodings[index].clone();
            places[index] = Some(if read_by_others[index] {
                self.encodings.push(encoding);
                self.encodings.len() - 1
            } else {
                self.encodings[index] = encoding;
                index
            });
        }
        for (&index, mut layer) in layers.iter().zip(part.layers) {
            for place in &mut layer.encodings {
                place.encoding = places[place.encoding].unwrap_or(place.encoding);
            }
            self.layers[index] = layer;
        }
        if layers.len() == self.layers.len() {
            // All of it may be something else now.
            self.name = part.name;
        }
        self.layout = part.layout;
        self
    }

    /// Whether a learned encoding stands in it twice: as some layers read it, and as others do.
    pub fn has_learned_copies(&self, before: &Self) -> bool {
        self.encodings.iter().skip(before.encodings.len()).any(|encoding| encoding.num_params() > 0)
    }
}
