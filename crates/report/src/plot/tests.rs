mod bars;

use super::*;
use crate::block::blocks;
use crate::example;
use longwave_eval::{Metric, ResultRow};

fn chart() -> Chart {
    let rows = example::rows();
    by_length(&blocks(&rows)[0], Metric::Perplexity, &Styles::of(&blocks(&rows))).remove(0)
}

#[test]
fn an_svg_says_every_label() {
    let text = svg(&chart()).unwrap();
    assert!(text.starts_with("<svg width=\"900\" height=\"500\" viewBox=\"0 0 3600 2000\""), "{text:.200}");
    let labels =
        "direct window_baseline linear ntk yarn rerope leaky_rerope broken 128 256 512 1024 L 2L 4L 8L";
    let said: Vec<&str> = text.lines().map(str::trim).collect();
    let others = ["perplexity (log scale, bars: one standard error over documents)", "↑ leaves the scale"];
    for label in labels.split_whitespace().chain(others) {
        assert!(said.contains(&label), "no `{label}`");
    }
    assert!(text.contains("Perplexity of rope: fixed_target, test split"));
    assert!(!text.contains("NaN") && !text.contains("inf"));
}

#[test]
fn a_png_has_its_signature_and_every_colour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    write_png(&chart(), &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (2 * SIZE.0, 2 * SIZE.1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // A blank picture of this size takes some 10 kB at most, one with text and curves far more.
    assert!(bytes.len() > 30_000, "{} bytes", bytes.len());
}

#[test]
fn a_bitmap_has_the_colours_of_its_series() {
    let chart = chart();
    let layout = Layout::default();
    let (width, height) = size(&chart, &layout).unwrap();
    let mut buffer = vec![0; (width * height * 3) as usize];
    let backend = BitMapBackend::with_buffer(&mut buffer, (width, height));
    draw::draw(&chart, &layout, backend, 1, 0.0).unwrap();
    let count = |color: [u8; 3]| buffer.chunks(3).filter(|pixel| **pixel == color).count();
    assert!(count([0xFF; 3]) > buffer.len() / 3 / 2, "the paper is white");
    for color in [[0x00, 0x72, 0xB2], [0xD5, 0x5E, 0x00], [0x56, 0xB4, 0xE9], [0x5F, 0x67, 0x70]] {
        assert!(count(color) > 50, "{color:?}");
    }
}

#[test]
fn smoothing_takes_the_mean_of_squares() {
    // Two pixels of four by two: black and white in one, grey in the other.
    let row = [[0; 3], [255; 3], [100; 3], [100; 3]].concat();
    assert_eq!(smooth(&[row.clone(), row].concat(), 2), [[128; 3], [100; 3]].concat());
}

#[test]
fn a_chart_without_a_number_says_so() {
    let mut chart = chart();
    chart.series.iter_mut().flat_map(|series| &mut series.points).for_each(|point| point.y = f64::NAN);
    let error = svg(&chart).unwrap_err();
    assert!(error.message().starts_with("there is nothing to draw in \"Perplexity of rope"), "{error}");
    assert!(error.hint_text().is_some());
}

#[test]
fn a_long_subtitle_takes_two_lines_and_a_missing_heading_no_room() {
    let mut chart = chart();
    let height = size(&chart, &Layout::default()).unwrap().1;
    chart.subtitle = format!("{}; {}", "a".repeat(90), "b".repeat(90));
    let text = svg(&chart).unwrap();
    let said: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(
        said.contains(&"b".repeat(90).as_str()) && said.contains(&format!("{};", "a".repeat(90)).as_str())
    );
    (chart.title, chart.subtitle) = (String::new(), String::new());
    assert!(size(&chart, &Layout::default()).unwrap().1 < height);
}

#[test]
fn many_runs_have_an_overview_and_a_chart_each() {
    let mut rows = example::rows();
    let few = by_length(&blocks(&rows)[0], Metric::Perplexity, &Styles::of(&blocks(&rows)));
    assert_eq!(few.len(), 1);
    for name in ["alibi", "none"] {
        rows.extend(example::rows().into_iter().map(|row| ResultRow { run: name.into(), ..row }));
    }
    let charts = by_length(&blocks(&rows)[0], Metric::Perplexity, &Styles::of(&blocks(&rows)));
    let names: Vec<&str> = charts[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["rope", "alibi", "none"]);
    assert_eq!(charts.len(), 4);
}

#[test]
fn lengths_that_score_different_tokens_are_noted() {
    let note = "the lengths score different tokens: compare down a column, not across columns";
    let mut rows = example::rows();
    for row in &mut rows {
        row.settings.protocol = longwave_eval::Protocol::NonOverlapping;
        row.settings.keys = longwave_eval::protocols::Keys::of(&[("stride", row.settings.length)]);
    }
    let of = |rows: &[ResultRow]| {
        let blocks = blocks(rows);
        let table = crate::Table::all(&blocks[0]).remove(0);
        (
            by_length(&blocks[0], Metric::Perplexity, &Styles::of(&blocks)).remove(0),
            table.markdown(),
            table.notes,
        )
    };
    let (mut chart, _, notes) = of(&rows);
    assert!(notes.iter().any(|said| said == note), "{notes:?}");
    let height = size(&chart, &Layout::default()).unwrap().1;
    assert!(svg(&chart).unwrap().lines().any(|line| line.trim() == note));
    let narrow = Layout { width: 320, ..Layout::default() };
    let text = drawn_svg(&chart, &narrow).unwrap();
    let of_note = |line: &&str| !line.trim().is_empty() && note.contains(line.trim());
    let told = text.lines().filter(of_note).map(str::trim).rev().collect::<Vec<_>>();
    assert!(told.len() > 1 && told.join(" ") == note, "{told:?}");
    chart.note = None;
    assert!(size(&chart, &Layout::default()).unwrap().1 < height);
    // Rows that name the windows whose tokens every length scores need no note.
    for row in &mut rows {
        row.settings.keys =
            longwave_eval::protocols::Keys::of(&[("stride", row.settings.length), ("max_length", 1024)]);
    }
    let (chart, markdown, notes) = of(&rows);
    assert!(chart.note.is_none() && !notes.iter().any(|said| said == note));
    assert!(markdown.contains("Windows side by side, over the tokens of windows of 1024;"), "{markdown}");
}

#[test]
fn charts_of_tasks_show_chance_and_intervals() {
    let asked = |extend: &str, length: usize| {
        let mut row = example::row("rope", extend, length, 2.0).with("exact_match", 0.0).with("chance", 0.25);
        row.settings.protocol = longwave_eval::Protocol::Task;
        let sums = longwave_eval::DocumentSums::new(vec![1; 32]);
        row.per_document = Some(sums.with_counts("correct", vec![0; 32]));
        row
    };
    let rows = [asked("direct", 128), asked("direct", 256), asked("yarn", 256)];
    let blocks = blocks(&rows);
    for metric in [Metric::ExactMatch, Metric::Accuracy] {
        let chart = by_length(&blocks[0], metric, &Styles::of(&blocks)).remove(0);
        let chance = chart.series.last().unwrap();
        assert!(chance.role == Role::Reference && chance.name == "chance");
        let points: Vec<(f64, f64)> = chance.points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(128.0, 25.0), (256.0, 25.0)]);
    }
    let chart = by_length(&blocks[0], Metric::ExactMatch, &Styles::of(&blocks)).remove(0);
    assert_eq!(chart.y.label, "exact match in %, bars: 95% intervals");
    let (low, high) = chart.series[0].points[0].bar.unwrap();
    assert!(low == 0.0 && (high - 10.718).abs() < 1e-3, "{high}");
    let table = crate::Table::new(&blocks[0], Metric::ExactMatch);
    assert!(
        table.terminal(None).contains("direct   0.0 [0.0, 10.7]    0.0 [0.0, 10.7]"),
        "{}",
        table.terminal(None)
    );
    assert!(table.markdown().contains("| 0.0 [0.0, 10.7] |"));
    assert_eq!(table.notes[0], "[ ] is the 95% interval over sequences (Wilson's score interval)");
}

#[test]
fn a_position_curve_has_its_places_in_the_middle_of_buckets() {
    let rows = example::positions();
    let charts = positions(&blocks(&rows)[0], &Styles::of(&blocks(&rows)));
    assert_eq!(charts.len(), 1);
    let points = &charts[0].series[0].points;
    assert_eq!((points.len(), points[0].x, points[0].y), (32, 8.5, 3.5));
    assert_eq!(charts[0].mark, Some((128.0, "trained length".into())));
    assert!(svg(&charts[0]).unwrap().contains("trained length"));
    assert!(positions(&blocks(&example::rows())[0], &Styles::default()).is_empty());
}

#[test]
fn long_training_curves_are_averaged() {
    let values = (0..3000).map(|step| (f64::from(step), 2.0)).collect();
    let chart = training(&[Curve { name: "loss".into(), run: None, values }], &Styles::default());
    assert_eq!(chart.series[0].points.len(), 300);
    assert_eq!(chart.series[0].points[0], Point { x: 4.5, y: 2.0, bar: None });
}

/// The texts of a PDF, each with the size it is set in, by the map from glyphs that the file has for searching.
fn texts_of(file: &str) -> Vec<(f64, String)> {
    let code = |hex: &str| u16::from_str_radix(hex, 16).unwrap();
    let map = file
        .split("beginbfchar")
        .skip(1)
        .flat_map(|section| section.split("endbfchar").next().unwrap().lines());
    let signs: std::collections::HashMap<u16, char> = map
        .filter_map(|line| line.strip_prefix('<')?.strip_suffix('>')?.split_once("> <"))
        .map(|(glyph, sign)| (code(glyph), char::from_u32(code(sign).into()).unwrap()))
        .collect();
    let shown = file.lines().filter_map(|line| line.strip_prefix("BT /F1 ")?.split_once(" Tf "));
    shown
        .map(|(size, rest)| {
            let hex = rest.split(['<', '>']).nth(1).unwrap();
            let glyphs = hex.as_bytes().chunks(4).map(|four| code(std::str::from_utf8(four).unwrap()));
            (size.parse().unwrap(), glyphs.map(|glyph| signs[&glyph]).collect())
        })
        .collect()
}

#[test]
fn a_pdf_has_its_size_and_every_label_as_text() {
    let figure = Figure { width: Some(240.0), height: Some(200.0), font_size: 6.0, ..Figure::default() };
    let bytes = super::figure(&chart(), &figure, FigureFormat::Pdf).unwrap();
    assert_eq!(bytes, super::figure(&chart(), &figure, FigureFormat::Pdf).unwrap());
    let file = String::from_utf8_lossy(&bytes).into_owned();
    assert!(file.starts_with("%PDF-1.5") && file.ends_with("%%EOF\n"));
    assert!(file.contains("/MediaBox [0 0 240 200]"), "{file:.900}");
    let texts = texts_of(&file);
    for label in
        "direct window_baseline linear ntk yarn rerope 128 256 512 1024 L 2L 4L 8L".split_whitespace()
    {
        assert!(texts.iter().any(|(_, text)| text == label), "no `{label}`");
    }
    assert!(!texts.iter().any(|(_, text)| text.starts_with("Perplexity of rope")), "a paper has a caption");
    // 6 points at the axes: a unit is 6 / 12 / 4 points.
    let (size, _) = texts.iter().find(|(_, text)| text == "1024").unwrap();
    assert!((size * 0.125 - 6.0).abs() < 1e-9, "{size}");
    let curve = "0 0.4471 0.698 RG";
    assert!(file.contains(curve), "the first colour of the palette");
}

#[test]
fn a_figure_has_its_size_in_every_format() {
    let figure = Figure { width: Some(240.0), height: Some(200.0), font_size: 6.0, ..Figure::default() };
    let drawn = |figure: &Figure, kind| super::figure(&chart(), figure, kind);
    // 6 points are 12 pixels: 480 by 400 of them, and 4 times as many each way in a PNG.
    let text = String::from_utf8(drawn(&figure, FigureFormat::Svg).unwrap()).unwrap();
    let head = "<svg width=\"240.00pt\" height=\"200.00pt\" viewBox=\"0 0 1920 1600\"";
    assert!(text.starts_with(head) && !text.contains("Perplexity of rope"), "{text:.200}");
    let image = image::load_from_memory(&drawn(&figure, FigureFormat::Png).unwrap()).unwrap();
    assert_eq!((image.width(), image.height()), (1920, 1600));
    let vast = Figure { width: Some(14_400.0), font_size: 1.0, ..Figure::default() };
    let font = concat!(env!("CARGO_MANIFEST_DIR"), "/fonts/DejaVuSans.ttf");
    let own = Figure { typeface: Typeface::load(Path::new(font)).unwrap(), ..figure };
    for (figure, kind, message) in
        [(vast, FigureFormat::Png, "pixels"), (own, FigureFormat::Svg, "does not carry a font")]
    {
        let error = drawn(&figure, kind).unwrap_err();
        assert!(error.message().contains(message) && error.hint_text().is_some(), "{error}");
    }
    assert_eq!(FigureFormat::of(Path::new("a/b.SVG")).unwrap(), FigureFormat::Svg);
    assert!(
        FigureFormat::of(Path::new("svg"))
            .unwrap_err()
            .hint_text()
            .unwrap()
            .contains("`.svg`, `.png` or `.pdf`")
    );
}

#[test]
fn a_narrow_figure_has_its_legend_below() {
    let chart = chart();
    let place = |layout: &Layout| size(&chart, layout).unwrap();
    let wide = place(&Layout::default());
    let narrow = place(&Layout { width: 360, ..Layout::default() });
    assert!(narrow.1 > wide.1 * 360 / 900 + 40, "{narrow:?}");
    let small = Figure { width: Some(80.0), ..Figure::default() };
    let error = figure(&chart, &small, FigureFormat::Pdf).unwrap_err();
    assert!(error.message().contains("too small") && error.exit_code() == 2, "{error}");
}

#[test]
fn a_font_is_a_file_of_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("My Font.ttf");
    std::fs::write(&path, b"OTTO no such font").unwrap();
    let error = Typeface::load(&path).unwrap_err();
    assert!(error.message().contains("is no TrueType font") && error.exit_code() == 2, "{error}");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/fonts/DejaVuSans.ttf"), &path).unwrap();
    let figure = Figure { typeface: Typeface::load(&path).unwrap(), ..Figure::default() };
    let bytes = super::figure(&chart(), &figure, FigureFormat::Pdf).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("/BaseFont /figure-MyFont "));
}

#[test]
fn a_method_has_one_colour_in_every_chart() {
    // Thirteen lines: an overview of the runs, and a chart of each.
    let run = |name: &str| -> Vec<ResultRow> {
        example::rows()
            .into_iter()
            .map(|row| {
                let is_lowest = name == "alibi" && row.extend == "window_baseline";
                let row = if is_lowest { row.with("ppl", 2.0).with("nll", 2f64.ln()) } else { row };
                ResultRow { run: name.into(), config_hash: name.into(), ..row }
            })
            .collect()
    };
    let rows = [run("rope"), run("alibi"), run("fox")].concat();
    let blocks = blocks(&rows);
    let styles = Styles::of(&blocks);
    let charts = by_length(&blocks[0], Metric::Perplexity, &styles);
    let style = |chart: &Chart, name: &str| chart.series.iter().find(|it| it.name == name).unwrap().style;
    let curve =
        |run: &str| Curve { name: run.into(), run: Some(run.into()), values: vec![(1.0, 2.0), (2.0, 1.0)] };
    let learning = training(&["fox", "rope"].map(curve), &styles);
    assert_eq!(charts.len(), 4);
    for run in ["rope", "fox"] {
        assert_eq!(style(&charts[0], run), style(&learning, run), "{run}");
    }
    assert_ne!(style(&charts[0], "rope"), style(&charts[0], "fox"));
    // A run keeps its colour in its own chart, and an extension in those of all runs.
    for (chart, run) in charts[1..].iter().zip(["rope", "alibi", "fox"]) {
        assert_eq!(style(chart, "direct"), style(&charts[0], run), "{run}");
        assert_eq!(style(chart, "yarn"), style(&charts[1], "yarn"), "{run}");
    }
    // A paper has each run as trained, and the window baseline that is hardest to beat.
    let paper = of_paper(&blocks[0], Metric::Perplexity, &styles);
    let (baseline, own): (Vec<_>, Vec<_>) = paper.series.iter().partition(|it| it.role == Role::Reference);
    assert_eq!(own.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["rope", "alibi", "fox"]);
    assert_eq!(baseline.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["alibi: window_baseline"]);
    assert_eq!(
        charts.iter().map(|chart| chart.run.as_deref()).collect::<Vec<_>>(),
        [None, Some("rope"), Some("alibi"), Some("fox")]
    );
}

#[test]
fn what_stands_in_the_background_has_no_name() {
    let mut chart = chart();
    let before = (svg(&chart).unwrap(), size(&chart, &Layout::default()).unwrap());
    let name =
        "a name that is too long for a legend beside the chart, so that it would stand below, if it had one";
    let other = Series { name: name.to_owned(), role: Role::Background, ..chart.series[0].clone() };
    chart.series.push(other);
    let after = svg(&chart).unwrap();
    assert_eq!(size(&chart, &Layout::default()).unwrap(), before.1);
    assert!(!after.contains(name) && after.contains("#C4C9D0") && !before.0.contains("#C4C9D0"));
    let first = |text: &str, colour: &str| text.find(colour).unwrap();
    assert!(first(&after, "#C4C9D0") < first(&after, "#0072B2"), "the background lies behind");
}

#[test]
fn a_small_chart_has_axes_and_no_words_around_them() {
    let text = small_svg(&chart()).unwrap();
    assert!(text.starts_with("<svg width=\"260\" height=\"180\""), "{text:.200}");
    assert!(!text.contains("Perplexity of rope") && !text.contains("leaky_rerope"));
    assert!(text.contains("#0072B2") && text.contains("1024"));
}
