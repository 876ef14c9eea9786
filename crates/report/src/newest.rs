//! Which rows are of the newest training of their run. A run that was trained further was measured as another model before: its rows from
//! then are no part of a table, a chart or a comparison with those of today.

use longwave_eval::ResultRow;
use std::collections::BTreeMap;

/// Rows of runs, apart by whether they are of the newest training. Rows of kept steps (`step-N`) are: each is a table line of its step.
#[derive(Clone, Debug)]
pub struct Newest<'a> {
    pub rows: Vec<&'a ResultRow>,
    pub older: Vec<Older<'a>>,
}

/// A row from before its run was trained further.
#[derive(Clone, Copy, Debug)]
pub struct Older<'a> {
    pub row: &'a ResultRow,
    /// A row of the same checkpoint, of the newest training.
    pub newer: &'a ResultRow,
}

impl<'a> Newest<'a> {
    /// Rows with the same `run` are of one run. Its newest training is the one whose config hash came last, at its last step: a longer
    /// training may begin before the end of the one before, and its best step may be the same.
    pub fn of<K: Ord>(
        rows: impl IntoIterator<Item = &'a ResultRow>,
        run: impl Fn(&'a ResultRow) -> K,
    ) -> Self {
        let rows: Vec<&ResultRow> = rows.into_iter().collect();
        let (mut configs, mut newest) = (BTreeMap::new(), BTreeMap::new());
        let checkpoint = |row: &'a ResultRow| (run(row), row.checkpoint.as_str());
        for &row in &rows {
            let count = configs.len();
            let config = *configs.entry((run(row), row.config_hash.as_str())).or_insert(count);
            let known = newest.entry(checkpoint(row)).or_insert((config, row));
            if (known.0, known.1.step) <= (config, row.step) {
                *known = (config, row);
            }
        }
        let is_older = |row: &ResultRow, newer: &ResultRow| {
            !row.is_of_kept_step() && (&row.config_hash, row.step) != (&newer.config_hash, newer.step)
        };
        let mut sorted = Self { rows: Vec::new(), older: Vec::new() };
        for row in rows {
            if let Some(&(_, newer)) = newest.get(&checkpoint(row))
                && is_older(row, newer)
            {
                sorted.older.push(Older { row, newer });
            } else {
                sorted.rows.push(row);
            }
        }
        sorted
    }

    /// The older rows that were not measured again.
    pub fn missed(&self) -> Vec<Older<'a>> {
        let is_again = |row: &ResultRow, again: &ResultRow| {
            let is_chosen = row.chosen_among.is_some() && row.chosen_among == again.chosen_among;
            (row.seed, &row.checkpoint, &row.extend, &row.settings)
                == (again.seed, &again.checkpoint, &again.extend, &again.settings)
                && (is_chosen || row.extend_config == again.extend_config)
        };
        let is_missed = |older: &&Older<'_>| !self.rows.iter().any(|row| is_again(older.row, row));
        self.older.iter().filter(is_missed).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use serde_json::json;

    fn at(hash: &str, step: u64, checkpoint: &str, extend: &str) -> ResultRow {
        ResultRow {
            config_hash: hash.to_owned(),
            step,
            checkpoint: checkpoint.to_owned(),
            ..example::row("rope", extend, 128, 20.0)
        }
    }

    type Named<'a> = (&'a str, u64, &'a str);

    /// Config hash, step and extension of what is shown, and of what was not measured again.
    fn sorted(rows: &[ResultRow]) -> [Vec<Named<'_>>; 2] {
        fn named(row: &ResultRow) -> Named<'_> {
            (&row.config_hash, row.step, &row.extend)
        }
        let newest = Newest::of(rows, |row| row.seed);
        let missed = newest.missed();
        [newest.rows.into_iter().map(named).collect(), missed.into_iter().map(|it| named(it.row)).collect()]
    }

    #[test]
    fn a_training_that_went_on_leaves_its_old_rows_behind() {
        let rows = [
            at("a", 7, "last", "direct"),
            at("a", 7, "last", "linear"),
            at("b", 40, "last", "direct"),
            at("a", 4, "step-4", "direct"),
        ];
        let [shown, missed] = sorted(&rows);
        assert_eq!(shown, [("b", 40, "direct"), ("a", 4, "direct")]);
        assert_eq!(missed, [("a", 7, "linear")], "`direct` was measured again");
    }

    #[test]
    fn each_checkpoint_has_a_newest_of_its_own() {
        // The best step stayed the best in the longer training, and was read again with one extension.
        let rows = [
            at("a", 5, "best", "direct"),
            at("a", 5, "best", "linear"),
            at("a", 7, "stage-0", "direct"),
            at("b", 5, "best", "direct"),
            at("b", 40, "last", "direct"),
        ];
        let [shown, missed] = sorted(&rows);
        assert_eq!(shown, [("a", 7, "direct"), ("b", 5, "direct"), ("b", 40, "direct")]);
        assert_eq!(missed, [("a", 5, "linear")]);
    }

    #[test]
    fn a_longer_training_that_went_back_is_the_newest() {
        // From before its decay on, and stopped before the end that it had.
        let rows = [at("a", 40, "last", "direct"), at("b", 35, "last", "direct"), at("b", 33, "last", "ntk")];
        assert_eq!(sorted(&rows), [vec![("b", 35, "direct")], vec![("b", 33, "ntk")]]);
    }

    #[test]
    fn a_new_choice_from_the_same_values_counts_as_measured_again() {
        let chosen = |step: u64, scale: f64, among: serde_json::Value| ResultRow {
            extend_config: json!({ "kind": "linear", "scale": scale }),
            chosen_among: Some(json!({ "scale": among })),
            ..at("a", step, "last", "linear")
        };
        let missed = |rows: &[ResultRow]| Newest::of(rows, |row| row.seed).missed().len();
        assert_eq!(missed(&[chosen(7, 2.0, json!([2, 3])), chosen(40, 3.0, json!([2, 3]))]), 0);
        assert_eq!(missed(&[chosen(7, 2.0, json!([2, 4])), chosen(40, 3.0, json!([2, 3]))]), 1);
    }
}
