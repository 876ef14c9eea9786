//! What an explanation leaves out, and why, a sentence each.

use longwave_position::Reading;
use longwave_position::encoding::HeadUse;

/// Sentences in the order in which they came up, each with the readings, or the runs, that it is about.
#[derive(Debug, Default)]
pub(super) struct Notes {
    found: Vec<(String, Vec<String>)>,
}

impl Notes {
    pub(super) fn add(&mut self, reading: &str, note: impl Into<String>) {
        let note = note.into();
        let known = self.found.iter().position(|(other, _)| *other == note);
        let place = known.unwrap_or_else(|| {
            self.found.push((note, Vec::new()));
            self.found.len() - 1
        });
        let readings = &mut self.found[place].1;
        if readings.iter().all(|other| other != reading) {
            readings.push(reading.to_owned());
        }
    }

    /// Each sentence after the readings that it is about, where these are not all.
    pub(super) fn sentences(self, readings: usize) -> Vec<String> {
        let sentence = |(note, of): (String, Vec<String>)| {
            if of.len() == readings { note } else { format!("{}: {note}", of.join(", ")) }
        };
        self.found.into_iter().map(sentence).collect()
    }
}

/// Why some attention, or all, is not held against the angles of training; none where all of it is. `counted` says that some layer was.
pub(super) fn on_angles(trained: &Reading, read: &Reading, watched: bool, counted: bool) -> Option<String> {
    let layers = 0..read.layers().len();
    let turns = |layer: usize| read.rotation(layer).is_some();
    let otherwise = |layer: usize| {
        let capabilities = read.layer_capabilities(layer);
        capabilities.head_use != HeadUse::None || capabilities.makes_complex()
    };
    if !layers.clone().any(|layer| turns(layer) || otherwise(layer)) {
        return Some(
            "queries and keys are not rotated, so there are no angles that training did not show".to_owned(),
        );
    }
    if !watched {
        return Some(
            "attention on unseen angles is not counted, since attention is not looked at".to_owned(),
        );
    }
    if layers.clone().any(|layer| !turns(layer) && otherwise(layer)) {
        let of = if counted { " in those layers" } else { "" };
        return Some(format!(
            "attention on unseen angles is not counted{of}: what `{}` does with queries and keys is no rotation by fixed angles alone",
            read.name()
        ));
    }
    let new = layers.clone().any(|layer| turns(layer) && trained.rotation(layer).is_none());
    (!counted && new).then(|| {
        "attention on unseen angles is not counted: training rotated nothing, so it showed no angles"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_which_reading_it_is_about_where_others_are_not() {
        let mut notes = Notes::default();
        for (extend, note) in [("direct", "a"), ("direct", "a"), ("yarn", "a"), ("yarn", "b")] {
            notes.add(extend, note);
        }
        assert_eq!(notes.sentences(2), ["a", "yarn: b"]);
        let mut notes = Notes::default();
        notes.add("drop", "c");
        notes.add("none", "c");
        assert_eq!(notes.sentences(3), ["drop, none: c"]);
    }
}
