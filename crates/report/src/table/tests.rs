use super::*;
use crate::block::blocks;
use crate::example;
use longwave_eval::{
    DocumentSums, Protocol, Reference, ResultRow, Scoring, TaskKeys, WINDOW_BASELINE, reference,
};

fn table(rows: &[ResultRow]) -> Table {
    let blocks = blocks(rows);
    assert_eq!(blocks.len(), 1);
    Table::new(&blocks[0], Metric::Perplexity)
}

/// Two extensions and the baseline at two lengths, one cell not measured.
fn few() -> Vec<ResultRow> {
    vec![
        example::row("rope", "window_baseline", 1024, 13.41),
        example::row("rope", "direct", 128, 12.81),
        example::row("rope", "direct", 1024, 1234.5),
        example::row("rope", "yarn", 1024, 14.8),
    ]
}

#[test]
fn terminal_form() {
    let expected = "\
Perplexity of rope: fixed_target, test split
the last 128 tokens of windows of 1024, 1024 apart; 4096 tokens of 8 documents scored per cell, 1 document too short

extend                 128 (L)     1024 (8L)
window_baseline <      -         13.41 ±0.13
yarn                   -         14.80 ±0.15*
direct             12.81 ±0.13    1234 ±12

± is one standard error over documents
the best of each length is marked, the window baseline aside
sorted by the perplexity at 1024 (8L)
< window_baseline reads the last L = 128 tokens only: what a longer context must beat
";
    assert_eq!(table(&few()).terminal(None), expected);
    assert_eq!(table(&few()).terminal(Some(120)), expected);
}

#[test]
fn one_document_has_no_error_and_the_table_says_why() {
    let mut rows = few();
    let notes = |rows: &[ResultRow]| table(rows).notes.join("\n");
    let why = "one document alone was scored, so there is no ±";
    assert!(!notes(&rows).contains(why));
    for row in &mut rows {
        row.documents = 1;
        row.values.set("nll_se", None);
        row.values.set("ppl_se", None);
    }
    assert!(notes(&rows).contains(why), "{}", notes(&rows));
}

#[test]
fn a_narrow_terminal_keeps_every_error() {
    let lines = |width: usize| -> Vec<String> {
        let text = table(&few()).terminal(Some(width));
        let table = text.lines().skip_while(|line| !line.starts_with("extend ")).map(str::to_owned);
        table.take_while(|line| !line.starts_with('±')).collect()
    };
    let closer = [
        "extend                128 (L)    1024 (8L)",
        "window_baseline <     -        13.41 ±0.13",
        "yarn                  -        14.80 ±0.15*",
        "direct            12.81 ±0.13   1234 ±12",
        "",
    ];
    assert_eq!(lines(44), closer);
    let cut = [
        "extend                 128 (L)",
        "window_baseline <      -",
        "yarn                   -",
        "direct             12.81 ±0.13",
        "",
        "extend               1024 (8L)",
        "window_baseline <  13.41 ±0.13",
        "yarn               14.80 ±0.15*",
        "direct              1234 ±12",
        "",
    ];
    assert_eq!(lines(31), cut);
    assert_eq!(lines(10).len(), cut.len(), "it can be no narrower");
    for width in [31, 44, 60, 80] {
        let text = table(&few()).terminal(Some(width));
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        assert_eq!(text.matches('±').count(), 5, "{text}");
    }
}

#[test]
fn markdown_form() {
    let expected = "\
### Perplexity of rope: fixed_target, test split

The last 128 tokens of windows of 1024, 1024 apart; 4096 tokens of 8 documents scored per cell, 1 document too short.

| extend | 128 (L) | 1024 (8L) |
| --- | ---: | ---: |
| window_baseline < | - | 13.41 ±0.13 |
| yarn | - | **14.80** ±0.15 |
| direct | 12.81 ±0.13 | 1234 ±12 |

± is one standard error over documents.

The best of each length is marked, the window baseline aside.

Sorted by the perplexity at 1024 (8L).

< window_baseline reads the last L = 128 tokens only: what a longer context must beat.
";
    assert_eq!(table(&few()).markdown(), expected);
}

#[test]
fn the_difference_to_the_baseline_is_paired() {
    let mut rows = few();
    for (row, nll) in rows.iter_mut().zip([[260.0, 80.0], [1.0, 1.0], [300.0, 100.0], [250.0, 80.0]]) {
        row.per_document = Some(DocumentSums::new(vec![100, 100]).with_numbers("nll", nll.to_vec()));
    }
    reference::resolve(&mut rows, None).unwrap();
    let to_baseline = table(&rows);
    assert_eq!(to_baseline.columns.last().unwrap(), "\u{394} at 8L");
    let cells: Vec<Option<(String, Option<String>)>> =
        to_baseline.rows.iter().map(|row| row.cells[2].as_ref().map(Cell::texts)).collect();
    let text = |value: &str, error: &str| Some((value.to_owned(), Some(error.to_owned())));
    assert_eq!(cells, [None, text("-0.050", "0.050"), text("+0.300", "0.100")]);
    assert!(to_baseline.notes.last().unwrap().contains("1024 tokens minus that of window_baseline"));
    // Of several seeds the other errors are in per cent.
    let again: Vec<ResultRow> =
        rows.iter().map(|row| ResultRow { seed: row.seed + 1, ..row.clone() }).collect();
    let of_seeds = table(&[rows.clone(), again].concat());
    assert!(of_seeds.notes.last().unwrap().contains("in nats per token (so is its ±), paired by document"));
    reference::resolve(&mut rows, Some(&Reference::Kind("yarn".into()))).unwrap();
    let to_yarn = table(&rows);
    let cells: Vec<Option<String>> =
        to_yarn.rows.iter().map(|row| row.cells[2].as_ref().map(|cell| cell.texts().0)).collect();
    assert_eq!(cells, [Some("+0.050".to_owned()), None, Some("+0.350".to_owned())]);
    assert!(to_yarn.notes.last().unwrap().contains("1024 tokens minus that of yarn, in nats"));
    let csv = crate::Tidy::of(&rows).unwrap().csv();
    assert!(csv.contains(",\"{\"\"kind\"\":\"\"yarn\"\"}\",0.35"), "{csv}");
}

#[test]
fn tasks_show_exact_match_and_accuracy() {
    let task = |extend: &str, exact: f64| {
        let mut row =
            example::row("rope", extend, 128, 2.0).with("exact_match", exact).with("exact_match_se", 0.02);
        row.settings.protocol = Protocol::Task;
        row.corpus = Some("copy".into());
        row
    };
    let rows = [task("direct", 0.25), task("yarn", 0.875)];
    let blocks = blocks(&rows);
    let tables = Table::all(&blocks[0]);
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    assert_eq!(
        titles,
        ["Exact match in % of rope: task copy, test split", "Accuracy in % of rope: task copy, test split"]
    );
    let cells: Vec<(String, bool)> = tables[0]
        .rows
        .iter()
        .map(|row| row.cells[0].as_ref().unwrap())
        .map(|c| (c.texts().0, c.best))
        .collect();
    assert_eq!(cells, [("87.5".to_owned(), true), ("25.0".to_owned(), false)]);
    assert!(tables[0].notes.contains(&"sorted by the exact match at 128 (L)".to_owned()));
    assert!(tables[0].setting.ends_with("4096 tokens of 8 sequences scored per cell"));
}

/// Rows of a task that was asked at three depths, with the exact match of each at L and 2L.
fn asked(run: &str, extend: &str, exact: [[f64; 2]; 3]) -> Vec<ResultRow> {
    let row = |depth: f64, length: usize, exact: f64| {
        let mut row = example::row(run, extend, length, 2.0)
            .with("exact_match", exact)
            .with("accuracy", exact)
            .with("chance", 0.1 + depth / 10.0);
        row.settings.protocol = Protocol::Task;
        row.settings.task = TaskKeys::of(serde_json::Map::from_iter([
            ("depth".to_owned(), serde_json::json!(depth)),
            ("distractors".to_owned(), serde_json::json!(4)),
        ]));
        row.settings.score = Some(Scoring::Last);
        row.per_document = Some(DocumentSums::new(vec![1; 8]).with_counts("correct", vec![1; 8]));
        row
    };
    let at = |(depth, exact): (f64, [f64; 2])| [row(depth, 128, exact[0]), row(depth, 256, exact[1])];
    [0.0, 0.5, 1.0].into_iter().zip(exact).flat_map(at).collect()
}

#[test]
fn ways_to_ask_a_task_are_lines_in_their_order_with_chance_below() {
    let mut rows = asked("rope", "direct", [[0.9, 0.2], [0.8, 0.4], [0.9, 0.9]]);
    rows.extend(asked("rope", WINDOW_BASELINE, [[0.9, 0.0], [0.8, 0.1], [0.9, 0.9]]));
    rows.extend(asked("rope", "yarn", [[0.8, 0.3], [0.8, 0.3], [0.9, 0.7]]));
    let blocks = blocks(&rows);
    assert_eq!(blocks.len(), 1, "one table for all depths");
    let table = Table::new(&blocks[0], Metric::ExactMatch);
    let told: Vec<String> = table
        .rows
        .iter()
        .map(|row| {
            let cell = |cell: &Option<Cell>| {
                let cell = cell.as_ref().unwrap();
                format!("{}{}", cell.texts().0, if cell.best { "*" } else { "" })
            };
            format!("{}: {}", row.labels[0], row.cells.iter().map(cell).collect::<Vec<_>>().join(" "))
        })
        .collect();
    let expected = [
        "direct (depth = 0.0): 90.0* 20.0",
        "direct (depth = 0.5): 80.0 40.0*",
        "direct (depth = 1.0): 90.0 90.0*",
        "yarn (depth = 0.0): 80.0 30.0*",
        "yarn (depth = 0.5): 80.0 30.0",
        "yarn (depth = 1.0): 90.0 70.0",
        "window_baseline (depth = 0.0) <: 90.0 0.0",
        "window_baseline (depth = 0.5) <: 80.0 10.0",
        "window_baseline (depth = 1.0) <: 90.0 90.0",
        "chance (depth = 0.0): 10.0 10.0",
        "chance (depth = 0.5): 15.0 15.0",
        "chance (depth = 1.0): 20.0 20.0",
    ];
    assert_eq!(told, expected);
    assert!(
        table.setting.contains("the last one of a sequence alone; asked with distractors = 4"),
        "{}",
        table.setting
    );
    assert!(table.notes.iter().all(|note| !note.starts_with("sorted")), "{:?}", table.notes);
    assert!(table.notes.iter().any(|note| note.starts_with("chance is a guess")));
    // Of several runs that agree on it, chance stands once.
    let mut rows: Vec<ResultRow> = rows;
    rows.extend(asked("alibi", "direct", [[0.5; 2]; 3]));
    let alike: Vec<ResultRow> = rows.into_iter().map(|row| row.with("chance", 0.125)).collect();
    let table = Table::new(&crate::block::blocks(&alike)[0], Metric::ExactMatch);
    assert_eq!(table.rows.last().unwrap().labels, ["", "chance"]);
    assert_eq!(table.rows.iter().filter(|row| is_chance(row)).count(), 1);
}

#[test]
fn a_device_that_does_not_repeat_its_bits_is_named_once() {
    let on_gpu = |row: ResultRow, repeatable| ResultRow { device: "GPU: a".into(), repeatable, ..row };
    let rows = |repeatable| few().into_iter().map(|row| on_gpu(row, repeatable)).collect::<Vec<_>>();
    let note = "GPU: a does not repeat its sums bit for bit: measured again, the last digits may differ";
    let named = |rows: &[ResultRow]| table(rows).notes.iter().filter(|found| *found == note).count();
    assert_eq!(named(&rows(Some(false))), 1);
    assert_eq!(named(&rows(None)) + named(&rows(Some(true))), 0);
}

#[test]
fn several_runs_have_a_column_of_their_own() {
    let mut rows = few();
    rows.push(ResultRow { encoding: "alibi".into(), ..example::row("short", "direct", 128, 13.0) });
    let table = table(&rows);
    assert_eq!(table.label_headers, ["run", "extend"]);
    assert_eq!(table.rows.last().unwrap().labels, ["short (alibi)", "direct"]);
    assert!(table.title.starts_with("Perplexity of rope, short:"));
    // Another run's lower value takes no mark away.
    rows.push(example::row("short", "yarn", 1024, 9.0));
    let marked = self::table(&rows);
    assert!(
        marked.rows.iter().any(|row| row.labels == ["rope", "yarn"] && row.cells[1].as_ref().unwrap().best)
    );
    assert!(marked.notes[1].starts_with("the best of each run and length"));
}

#[test]
fn seeds_have_their_mean_and_deviation() {
    let seed = |seed: u64, ppl: f64| ResultRow { seed, ..example::row("rope", "direct", 128, ppl) };
    let mut rows = vec![seed(0, 10.0 * (-0.2f64).exp()), seed(1, 10.0), seed(2, 10.0 * 0.2f64.exp())];
    let several = table(&rows);
    let cell = several.rows[0].cells[0].as_ref().unwrap();
    assert_eq!((cell.texts(), cell.seeds), (("10.00".to_owned(), Some("20.0%".to_owned())), 3));
    assert!(several.terminal(None).contains("direct  10.00 ±20.0%"), "{}", several.terminal(None));
    assert!(several.markdown().contains("| direct | 10.00 ±20.0% |"));
    assert_eq!(
        several.notes[0],
        "± is one standard deviation over seeds, in per cent of the perplexity: 100 times that of the loss in nats (up \
         to 3 per cell; none for one seed)"
    );
    assert_eq!(several.notes[1], "the perplexity of several seeds is exp of the mean of their losses");
    // The error over documents of a reading with one seed would be another thing, in another unit.
    rows.push(example::row("rope", "yarn", 128, 9.0));
    let mixed = table(&rows);
    let yarn = mixed.rows.iter().find(|row| row.labels == ["yarn"]).unwrap().cells[0].as_ref().unwrap();
    assert_eq!(yarn.error, None);
}

#[test]
fn digits_follow_the_size() {
    let text = |ppl: f64, nll_se: f64| {
        let row = example::row("rope", "direct", 128, ppl).with("nll_se", nll_se);
        let (value, error) = Cell::new(Metric::Perplexity, &[&row]).unwrap().texts();
        format!("{value} {}", error.unwrap_or_default())
    };
    assert_eq!(text(9.876, 0.01), "9.88 0.10");
    assert_eq!(text(123.456, 0.01), "123.5 1.2");
    assert_eq!(text(12_345.6, 0.01), "12346 123");
    assert_eq!(text(1_234_567.0, 0.01), "1.2e6 1e4");
    assert_eq!(text(f64::INFINITY, 0.01), "inf ");
    assert_eq!(text(f64::NAN, 0.01), "nan ");
}

#[test]
fn an_overflow_is_infinite_and_a_broken_model_is_not_a_number() {
    let row = |nll: f64| example::row("rope", "direct", 128, 1.0).with("nll", nll).with("ppl", f64::NAN);
    assert_eq!(row(1000.0).value(Metric::Perplexity), Some(f64::INFINITY));
    assert!(row(f64::NAN).value(Metric::Perplexity).unwrap().is_nan());
}

#[test]
fn the_best_is_marked_only_where_there_is_a_difference() {
    let rows = example::rows();
    let table = table(&rows);
    let best = |column: usize| -> Vec<&str> {
        let rows = table.rows.iter();
        rows.filter(|row| row.cells[column].as_ref().is_some_and(|cell| cell.best))
            .map(|row| row.labels[0].as_str())
            .collect()
    };
    assert_eq!(best(3), ["leaky_rerope"]);
    assert_eq!(best(0).len(), 5);
    let alike = [example::row("rope", "direct", 128, 12.0), example::row("rope", "linear", 128, 12.0)];
    assert!(self::table(&alike).rows.iter().all(|row| !row.cells[0].as_ref().unwrap().best));
}

#[test]
fn counts_that_differ_are_told_as_a_range() {
    let rows = [
        example::row("rope", "direct", 128, 12.0),
        ResultRow { tokens: 2048, ..example::row("rope", "direct", 256, 12.0) },
    ];
    assert!(
        table(&rows)
            .setting
            .ends_with("2048 to 4096 tokens of 8 documents scored per cell, 1 document too short")
    );
}

#[test]
fn lines_are_sorted_by_the_eightfold_length() {
    let mut rows = example::rows();
    rows.push(example::row("rope", "dual_chunk", 2048, 1.0));
    rows.push(example::row("rope", "nothing", 1024, 1.0).with("nll", f64::NAN).with("ppl", f64::NAN));
    let mut chosen = example::row("rope", "self_extend", 1024, 13.8);
    chosen.chosen_among = Some(serde_json::json!({ "window": ["L/4", "L/2"] }));
    chosen.extend_config = serde_json::json!({ "kind": "self_extend", "window": "L/4" });
    rows.push(chosen);
    let table = table(&rows);
    let labels: Vec<&str> = table.rows.iter().map(|row| row.labels[0].as_str()).collect();
    assert_eq!(
        labels,
        [
            "window_baseline <",
            "leaky_rerope",
            "self_extend (window = L/4) †",
            "rerope",
            "yarn",
            "ntk",
            "direct",
            "linear",
            "broken",
            "dual_chunk",
            "nothing"
        ]
    );
    assert!(
        table.notes.iter().any(|note| note == "sorted by the perplexity at 1024 (8L)"),
        "{:?}",
        table.notes
    );
    assert!(table.notes.iter().any(|note| note.starts_with("† its values were chosen")), "{:?}", table.notes);
}
