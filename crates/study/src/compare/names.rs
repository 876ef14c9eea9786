//! What each comparison is called: by its extensions, and by what else tells it from others of a list.

use super::Comparison;
use super::obstacle::{fields, shown};
use crate::extensions::Extensions;
use std::collections::BTreeMap;

/// Fills in what the two sides were read with, in a word each.
pub(super) fn name_readings(list: &mut [Comparison]) {
    let mut extensions = Extensions::default();
    for it in list.iter().flat_map(|one| &one.extensions) {
        extensions.add(it.clone());
    }
    for one in list {
        let [label, other] = one.extensions.each_ref().map(|it| extensions.label(it));
        one.reading = if label == other { label } else { format!("{label} - {other}") };
    }
}

/// Adds to readings what tells them from others of the list beside their extension: protocol and split wherever these vary, and else what differs
/// between readings of one name and length.
pub(super) fn tell_apart(list: &mut [Comparison]) {
    let keys: Vec<BTreeMap<String, String>> = list.iter().map(settings).collect();
    let varies = |key: &str, among: &[usize]| {
        among.windows(2).any(|pair| keys[pair[0]].get(key) != keys[pair[1]].get(key))
    };
    let all: Vec<usize> = (0..list.len()).collect();
    let named: Vec<(String, usize)> =
        list.iter().map(|one| (one.reading.clone(), one.settings.length)).collect();
    for (index, one) in list.iter_mut().enumerate() {
        let alike: Vec<usize> = all.iter().copied().filter(|other| named[*other] == named[index]).collect();
        let of_two = one.checkpoint != one.other_checkpoint;
        let of_all = |key: &str| matches!(key, "protocol" | "split") && varies(key, &all);
        let told: Vec<String> = keys[index]
            .iter()
            .filter(|(key, _)| of_all(key) || varies(key, &alike) || key.as_str() == "checkpoint" && of_two)
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        if !told.is_empty() {
            one.reading = format!("{} ({})", one.reading, told.join(", "));
        }
    }
}

/// The keys that a comparison was measured by, and its checkpoints. What the text was is said by others.
fn settings(one: &Comparison) -> BTreeMap<String, String> {
    let keys = fields(&one.settings).into_iter().filter(|(key, value)| key != "task" && !value.is_null());
    let keys = keys.map(|(key, value)| (key, shown(Some(&value))));
    let both = [&one.checkpoint, &one.other_checkpoint];
    let checkpoint = if both[0] == both[1] { both[0].clone() } else { format!("{} - {}", both[0], both[1]) };
    keys.chain([("checkpoint".to_owned(), checkpoint)]).collect()
}
