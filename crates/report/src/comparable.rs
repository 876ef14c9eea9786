//! Whether the runs of a block compare by a metric: what counts tokens does where they scored the same tokens of one text.

use crate::block::Block;
use longwave_eval::text::Material;
use longwave_eval::{Metric, ResultRow};

const OTHER_TASK: &str =
    "the runs were asked different questions, whose numbers do not compare: their `data.task` differs";
const OTHER_TEXT: &str = "the runs read different texts, whose numbers do not compare: `longwave eval RUN --corpus PATH` reads one text with each";

impl Block<'_> {
    /// What its tables show, one each: the metrics of its protocol, behind the bits per byte where perplexities do not compare.
    pub fn metrics(&self) -> Vec<Metric> {
        let of_protocol = self.settings.protocol.shown().iter().copied();
        let own = of_protocol.filter(|metric| *metric != Metric::BitsPerByte || !self.has_bits_per_byte());
        self.has_bits_per_byte().then_some(Metric::BitsPerByte).into_iter().chain(own).collect()
    }

    /// Whether two runs scored other tokens at one length, since their tokenizers or their texts differ.
    pub fn scores_other_tokens(&self) -> bool {
        // A task that is asked in several ways has other tokens each time, and its answers are compared all the same.
        !self.is_of_task() && self.are_apart(|a, b| !a.same_tokens(b))
    }

    /// Whether two runs read other text at one length, or were asked another task.
    pub fn reads_other_text(&self) -> bool {
        self.are_apart(|a, b| !a.same_text(b))
    }

    /// Whether one run is better than another where its number is.
    pub fn compares(&self, metric: Metric) -> bool {
        self.obstacle(metric).is_none()
    }

    /// Why the numbers of its runs do not compare, where they do not. What describes a model, and does not judge it, is not
    /// compared.
    pub(crate) fn obstacle(&self, metric: Metric) -> Option<String> {
        metric.better()?;
        if self.reads_other_text() {
            return Some(if self.is_of_task() { OTHER_TASK } else { OTHER_TEXT }.to_owned());
        }
        (!metric.spans_tokenizers() && self.scores_other_tokens()).then(|| {
            let what = match metric {
                Metric::Perplexity | Metric::Loss => "perplexities and losses",
                _ => "numbers",
            };
            let instead = if self.has_bits_per_byte() { "; the table in bits per byte does" } else { "" };
            format!("{what} per token of different tokenizers do not compare{instead}")
        })
    }

    fn has_bits_per_byte(&self) -> bool {
        self.settings.protocol.shown().contains(&Metric::Perplexity)
            && self.scores_other_tokens()
            && self.rows().all(|row| row.bytes > 0)
            && self.rows().any(|row| row.value(Metric::BitsPerByte).is_some())
    }

    fn is_of_task(&self) -> bool {
        self.settings.protocol.material() == Material::Answers
    }

    /// Whether two runs are so at one length.
    fn are_apart(&self, is_so: impl Fn(&ResultRow, &ResultRow) -> bool) -> bool {
        let at = |length: &usize| {
            let mut rows = self.lines.iter().filter_map(|line| line.rows.get(length)).flatten();
            let first = rows.next()?;
            Some(rows.any(|row| row.config_hash != first.config_hash && is_so(first, row)))
        };
        self.lengths.iter().filter_map(at).any(|is_apart| is_apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::blocks;
    use crate::example;
    use crate::plot::{Role, Styles, by_length, of_paper};
    use crate::table::{Table, TableRow};
    use longwave_eval::{DocumentSums, Protocol};

    const TOKENS: u64 = 4096;
    const BITS: &str = "perplexities and losses per token of different tokenizers do not compare; the table in bits per byte does";
    const ALONE: &str = "perplexities and losses per token of different tokenizers do not compare";

    /// A row of a model that is uncertain by so many bits for each token, of so many bytes.
    fn row(run: &str, extend: &str, length: usize, bits: f64, bytes_of_token: u64) -> ResultRow {
        let bits_per_byte = bits / bytes_of_token as f64;
        let row = example::row(run, extend, length, bits.exp2()).with("bpb", bits_per_byte);
        ResultRow { bytes: TOKENS * bytes_of_token, tokens: TOKENS, ..row }
    }

    /// Bytes lose 6 and 5 bits a token of one byte, BPE 8 and 7 a token of two.
    fn two_tokenizers() -> Vec<ResultRow> {
        let of = |run: &str, least: f64, bytes: u64| {
            [128, 256].map(|length| {
                [("direct", 1.0), ("yarn", 0.0)]
                    .map(|(extend, more)| row(run, extend, length, least + more, bytes))
            })
        };
        [of("byte", 5.0, 1), of("bpe", 7.0, 2)].concat().concat()
    }

    fn at_the_longest(rows: &[TableRow]) -> Vec<(String, String, bool)> {
        let of = |row: &TableRow| {
            let cell = row.cells[1].as_ref().unwrap();
            (row.labels.join(", "), cell.texts().0, cell.best)
        };
        rows.iter().map(of).collect()
    }

    #[test]
    fn models_of_other_tokenizers_have_a_table_that_compares() {
        let rows = two_tokenizers();
        let blocks = blocks(&rows);
        let [bits, perplexity] = &Table::all(&blocks[0])[..] else { panic!("two tables") };
        assert_eq!(bits.title, "Bits per byte of byte, bpe: fixed_target, test split");
        assert!(bits.compares && bits.notes.iter().all(|note| !note.contains("do not compare")));
        let line = |labels: &str, value: &str, best| (labels.to_owned(), value.to_owned(), best);
        // By bits per byte the model of BPE is better, 7 / 2 = 3.5 against 5, and by perplexity, 128 against 32, worse.
        let expected = [
            line("byte, yarn", "5.000", true),
            line("byte, direct", "6.000", false),
            line("bpe, yarn", "3.500", true),
            line("bpe, direct", "4.000", false),
        ];
        assert_eq!(at_the_longest(&bits.rows), expected);
        assert!(!perplexity.compares && perplexity.notes[0] == BITS, "{:?}", perplexity.notes);
        // Readings of one run have one tokenizer: the best of them is marked.
        let expected = [
            line("byte, yarn", "32.00", true),
            line("byte, direct", "64.00", false),
            line("bpe, yarn", "128.0", true),
            line("bpe, direct", "256.0", false),
        ];
        assert_eq!(at_the_longest(&perplexity.rows), expected);
        let note = |metric| by_length(&blocks[0], metric, &Styles::of(&blocks)).remove(0).note;
        assert_eq!((note(Metric::Perplexity).as_deref(), note(Metric::BitsPerByte)), (Some(BITS), None));
    }

    #[test]
    fn without_bytes_there_is_the_note_alone() {
        let mut rows = two_tokenizers();
        rows[7].bytes = 0;
        let blocks = blocks(&rows);
        let tables = Table::all(&blocks[0]);
        assert_eq!(tables.len(), 1);
        assert!(tables[0].notes[0] == ALONE && !tables[0].compares);
    }

    #[test]
    fn what_compares_has_no_note_and_no_further_table() {
        let alike = |rows: &[ResultRow]| {
            let blocks = blocks(rows);
            let shown = blocks[0].settings.protocol.shown();
            blocks.len() == 1 && blocks[0].metrics() == shown && blocks[0].compares(shown[0])
        };
        assert!(alike(&["rope", "alibi"].map(|run| row(run, "direct", 128, 5.0, 2))));
        // Other lengths may score other tokens, and so may another reading of one model.
        assert!(alike(&[row("a", "direct", 128, 5.0, 1), row("b", "direct", 256, 5.0, 2)]));
        assert!(alike(&[row("a", "direct", 128, 5.0, 1), row("a", "yarn", 128, 5.0, 2)]));
        let mut asked = ["a", "b"].map(|run| row(run, "direct", 128, 5.0, 1));
        for (row, tokens) in asked.iter_mut().zip([8, 16]) {
            row.settings.protocol = Protocol::Task;
            row.tokens = tokens;
        }
        assert!(alike(&asked));
        asked[1].text_hash = Some("0e".into());
        assert!(!alike(&asked), "another task");
        let tables = Table::all(&blocks(&asked)[0]);
        assert!(tables.iter().all(|table| table.notes[0] == OTHER_TASK), "{:?}", tables[0].notes);
        let of_documents = |tokens: [u64; 2]| ResultRow {
            per_document: Some(DocumentSums::new(tokens.to_vec())),
            ..row(if tokens[0] == 1 { "a" } else { "b" }, "direct", 128, 5.0, 2)
        };
        assert!(!alike(&[of_documents([1, 2]), of_documents([2, 1])]), "other tokens, as many");
        // What says how a model attends judges none.
        assert!(blocks(&two_tokenizers())[0].compares(Metric::Entropy));
    }

    #[test]
    fn numbers_of_other_texts_do_not_compare_by_any_metric() {
        let mut rows = ["a", "b"].map(|run| row(run, "direct", 128, 5.0, 1));
        rows[1].text_hash = Some("0e".into());
        let one = blocks(&rows);
        let tables = Table::all(&one[0]);
        assert!(tables.len() == 1 && tables[0].notes[0] == OTHER_TEXT);
        assert!(!one[0].compares(Metric::BitsPerByte) && !one[0].compares(Metric::Accuracy));
        rows[1].bytes *= 2;
        let tables = Table::all(&blocks(&rows)[0]);
        assert!(tables.len() == 2 && tables.iter().all(|table| table.notes[0] == OTHER_TEXT));
    }

    #[test]
    fn losses_by_position_do_not_compare_either() {
        let of = |run: &str, bytes: u64| {
            let rows = example::positions().into_iter();
            rows.map(|row| ResultRow { run: run.into(), config_hash: run.into(), bytes, ..row })
                .collect::<Vec<_>>()
        };
        let rows = [of("byte", TOKENS), of("bpe", 2 * TOKENS)].concat();
        let tables = Table::all(&blocks(&rows)[0]);
        let told: Vec<_> = tables.iter().map(|table| (table.metric, table.compares)).collect();
        assert_eq!(told, [(Metric::BitsPerByte, true), (Metric::Perplexity, false), (Metric::Loss, false)]);
        assert_eq!(tables[2].notes[0], BITS);
    }

    #[test]
    fn a_chart_of_one_run_compares_and_a_paper_names_no_best_baseline() {
        let of = |run: &str, bytes: u64| {
            let rows = example::rows().into_iter();
            rows.map(|row| ResultRow { run: run.into(), config_hash: run.into(), bytes, ..row })
                .collect::<Vec<_>>()
        };
        let rows = [of("byte", TOKENS), of("bpe", 2 * TOKENS)].concat();
        let blocks = blocks(&rows);
        let styles = Styles::of(&blocks);
        let notes: Vec<_> =
            by_length(&blocks[0], Metric::Perplexity, &styles).into_iter().map(|chart| chart.note).collect();
        assert_eq!(notes, [Some(BITS.to_owned()), None, None]);
        let baselines = |metric| {
            let chart = of_paper(&blocks[0], metric, &styles);
            chart.series.iter().filter(|series| series.role == Role::Reference).count()
        };
        assert_eq!((baselines(Metric::Perplexity), baselines(Metric::BitsPerByte)), (0, 1));
    }
}
