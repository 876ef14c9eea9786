//! Warns when a table of distances ends past every training text.
//!
//! Encodings such as `shaw` have a vector for each distance up to a largest one, which all pairs further apart share. Where no text
//! that is trained on reaches that distance, the shared vector stays as it was drawn, and longer texts are read with it. With
//! L = 64, five seeds of `shaw` had a perplexity of 29.1 at 8L with `p_max = 64`, and 15.0 with `p_max = 32` (`experiments/every-encoding.md`).

use longwave_train::RunConfig;

/// Warnings about the tables of a run's encodings. Positions that are drawn apart (`train.positions`) may reach any distance.
pub fn of_tables(run: &RunConfig) -> Vec<String> {
    let trained = (0..=run.last_stage()).map(|stage| run.stage(stage));
    if trained.clone().any(|train| !train.positions.is_contiguous()) {
        return Vec::new();
    }
    let longest = trained.map(|train| train.length).max().unwrap_or_default() + run.position.memory();
    let untrained =
        run.position.shared_from("position").into_iter().filter(|(_, distance)| *distance >= longest);
    let warning = |(key, distance): (String, usize)| {
        format!(
            "`{key}` is too large for texts of {longest} tokens: pairs {distance} tokens and more apart share a vector that \
             training never reads, and longer texts are read with it; half of `train.length` is safe"
        )
    };
    untrained.map(warning).collect()
}
