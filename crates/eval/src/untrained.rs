//! Warns when a table of distances ends past every training text.
//!
//! Encodings such as `shaw` and `t5` have an entry for each distance or bucket of distances up to a last one, which all pairs
//! further apart share. Where no text that is trained on reaches it, the entries past L stay as they were drawn, and longer texts
//! are read with them. With L = 64, five seeds of `shaw` had a perplexity of 29.1 at 8L with `p_max = 64`, and 15.0 with
//! `p_max = 32` (`experiments/every-encoding.md`).

use longwave_train::RunConfig;

/// Warnings about the tables of a run's encodings. Positions that are drawn apart (`train.positions`) may reach any distance.
pub fn of_tables(run: &RunConfig) -> Vec<String> {
    let trained = (0..=run.last_stage()).map(|stage| run.stage(stage));
    if trained.clone().any(|train| !train.positions.is_contiguous()) {
        return Vec::new();
    }
    let longest = trained.map(|train| train.length).max().unwrap_or_default() + run.position.memory();
    let untrained = run.position.farthest_entries("position", run.train.length).into_iter();
    let warning = |(key, distance): (String, usize)| {
        format!(
            "`{key}` is too large for texts of {longest} tokens: the last entry of its table is read from {distance} tokens apart \
             on, which training never reaches, and longer texts are read with entries that nothing trained; half of \
             `train.length` is safe"
        )
    };
    untrained.filter(|(_, distance)| *distance >= longest).map(warning).collect()
}
