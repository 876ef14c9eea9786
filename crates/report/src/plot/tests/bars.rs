//! Error bars, and the vertical mark.

use super::*;

#[test]
fn seeds_have_bars_of_the_loss() {
    let seed = |seed: u64, ppl: f64| ResultRow { seed, ..example::row("rope", "direct", 128, ppl) };
    let rows = [seed(0, 500.0), seed(1, 600.0), seed(2, 5000.0), example::row("rope", "direct", 256, 40.0)];
    let chart = by_length(&blocks(&rows)[0], Metric::Perplexity, &Styles::of(&blocks(&rows))).remove(0);
    assert_eq!(chart.y.label, "perplexity (log scale, bars: one standard deviation over seeds)");
    let [several, one] = chart.series[0].points[..] else { panic!("{chart:?}") };
    let (low, high) = several.bar.unwrap();
    assert!((several.y - (500.0 * 600.0 * 5000.0f64).cbrt()).abs() < 1e-6);
    // As far below as above, on the scale that is drawn.
    assert!((several.y / low - high / several.y).abs() < 1e-9 && low > 300.0);
    assert_eq!(one.bar, None);
    assert!(svg(&chart).is_ok());
}

#[test]
fn bars_are_those_of_the_table_and_are_named() {
    let of = |run: &str, seed: u64, length: usize| ResultRow {
        run: run.into(),
        seed,
        config_hash: format!("{run} {seed}"),
        ..example::row("rope", "direct", length, 20.0 + seed as f64)
    };
    let read = |run: &str, seed: u64| [128, 256].map(|length| of(run, seed, length));
    let drawn = |rows: &[ResultRow]| {
        let blocks = blocks(rows);
        let chart = by_length(&blocks[0], Metric::Perplexity, &Styles::of(&blocks)).remove(0);
        let bars =
            chart.series.iter().map(|series| series.points.iter().filter(|it| it.bar.is_some()).count());
        (chart.y.label.clone(), bars.collect::<Vec<_>>())
    };
    let over = |what: &str| format!("perplexity (log scale, bars: one standard {what})");
    let one = [read("a", 0), read("b", 0)].concat();
    assert_eq!(drawn(&one), (over("error over documents"), vec![2, 2]));
    let several = [read("a", 0), read("a", 1), read("b", 0)].concat();
    assert_eq!(drawn(&several), (over("deviation over seeds"), vec![2, 0]));
    let none: Vec<ResultRow> = one.iter().map(|row| row.clone().with("nll_se", None::<f64>)).collect();
    assert_eq!(drawn(&none), ("perplexity (log scale)".to_owned(), vec![0, 0]));
    // A chart of one run, of one seed, below a table over seeds: thirteen lines have a chart for each run.
    let many = |run: &str, seed: u64| -> Vec<ResultRow> {
        let hash = format!("{run} {seed}");
        let rows = example::rows().into_iter();
        rows.map(|row| ResultRow { run: run.into(), seed, config_hash: hash.clone(), ..row }).collect()
    };
    let rows = [many("a", 0), many("a", 1), many("b", 0)].concat();
    let blocks = blocks(&rows);
    let charts = by_length(&blocks[0], Metric::Perplexity, &Styles::of(&blocks));
    assert_eq!(charts[1].y.label, over("deviation over seeds"));
    assert_eq!((charts[2].run.as_deref(), charts[2].y.label.as_str()), (Some("b"), "perplexity (log scale)"));
    assert!(charts[2].series.iter().flat_map(|series| &series.points).all(|point| point.bar.is_none()));
}

#[test]
fn a_mark_off_the_axis_is_not_drawn() {
    let marked = |length: f64| {
        let chart = Chart { mark: Some((length, "the mark".into())), ..chart() };
        let text = svg(&chart).unwrap();
        (text.contains("the mark"), text.matches("<line").count() + text.matches("<polyline").count())
    };
    // The lengths go from 128 to 1024.
    let without = marked(32.0);
    assert!(!without.0 && marked(4096.0) == without && marked(0.0) == without);
    for length in [128.0, 300.0, 1024.0] {
        let with = marked(length);
        assert!(with.0 && with.1 > without.1, "{length}: {with:?} and {without:?}");
    }
}
