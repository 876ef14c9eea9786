//! Some layers of a reading, changed apart from the others.

use super::Reading;
use burn::module::Module;
use std::collections::BTreeSet;

impl Reading {
    /// These layers alone, in this order, with the encodings that they read and no others.
    pub(crate) fn part(&self, layers: &[usize]) -> Self {
        let read = self.read_by(layers);
        let mut part = self.clone();
        part.encodings = read.iter().map(|&index| self.encodings[index].clone()).collect();
        part.published = self.published.as_ref().map(|kept| kept.part(&read));
        part.layers = layers.iter().map(|&layer| self.layers[layer].clone()).collect();
        for place in part.layers.iter_mut().flat_map(|layer| &mut layer.encodings) {
            // All of them are in the list.
            place.encoding = read.partition_point(|&index| index < place.encoding);
        }
        if layers.len() < self.layers.len() {
            part.name = format!("layers {layers:?} of {}", self.name);
        }
        part
    }

    /// The numbers of the encodings that these layers read, in rising order.
    fn read_by(&self, layers: &[usize]) -> Vec<usize> {
        let places = layers.iter().flat_map(|&layer| &self.layers[layer].encodings);
        let read: BTreeSet<usize> = places.map(|place| place.encoding).collect();
        read.into_iter().collect()
    }

    /// The same with these layers as `part` reads them. An encoding that other layers read too stays for them as it
    /// is, and the part's stands behind all others as a copy.
    #[must_use]
    pub(crate) fn with_part(mut self, layers: &[usize], part: Self) -> Self {
        let others: Vec<usize> = (0..self.layers.len()).filter(|layer| !layers.contains(layer)).collect();
        let read_by_others = self.read_by(&others);
        let mut places = Vec::new();
        for (index, encoding) in self.read_by(layers).into_iter().zip(part.encodings) {
            if read_by_others.contains(&index) {
                places.push(self.encodings.len());
                self.encodings.push(encoding);
            } else {
                places.push(index);
                self.encodings[index] = encoding;
            }
        }
        for (&index, mut layer) in layers.iter().zip(part.layers) {
            for place in &mut layer.encodings {
                place.encoding = places[place.encoding];
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
