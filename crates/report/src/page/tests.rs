use super::Report;
use crate::example;
use longwave_core::Result;
use longwave_eval::{ResultRow, row::write_rows};
use std::fs;
use std::path::{Path, PathBuf};

mod further;

const SVG: &str = "http://www.w3.org/2000/svg";

fn run(folder: &Path, rows: &[ResultRow]) {
    fs::create_dir_all(folder).unwrap();
    write_rows(&folder.join("results.jsonl"), rows).unwrap();
    let metric = |step: u32| {
        format!("{{\"step\": {step}, \"loss\": {}, \"learning_rate\": 0.001}}\n", 6.0 / f64::from(step))
    };
    let mut metrics: String = (1..50).map(metric).collect();
    metrics += "{\"step\": 50, \"loss\": 2.5, \"valid_loss\": 2.6}\n{\"step\": 60, \"valid_loss\": 2.4}\n{\"step\": 6";
    fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
    fs::write(folder.join("config.toml"), "name = \"a < b\"\n").unwrap();
    let record = r#"{ "format": 1, "corpus": "a<b", "path": "", "content_hash": "", "text": {}, "notes": ["overlap: 2% of `x`"] }"#;
    fs::write(folder.join("data.json"), record).unwrap();
}

/// A run whose config names a seed and steps.
fn configured(folder: &Path, rows: &[ResultRow], seed: u64, steps: u64) {
    run(folder, rows);
    let config = format!(
        "name = \"rope\"\nseed = {seed}\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n[train]\nsteps = {steps}\n"
    );
    fs::write(folder.join("config.toml"), config).unwrap();
}

/// Reads a folder and writes its report.
fn write(folder: &Path) -> Result<Vec<PathBuf>> {
    Report::read(folder, None)?.write(folder)
}

#[test]
fn a_run_becomes_a_page_that_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[example::rows(), example::positions()].concat());
    let written = write(folder.path()).unwrap();
    let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
    assert_eq!(
        names,
        [
            "report.html",
            "results.md",
            "results.csv",
            "perplexity.svg",
            "perplexity.png",
            "positions.svg",
            "positions.png"
        ]
    );
    assert!(written.iter().all(|path| path.is_file()));
    assert!(folder.path().join("tensorboard/by_length").is_dir());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5 + written.len());
    let page = fs::read_to_string(&written[0]).unwrap();
    for said in [
        "<title>Longwave: rope</title>",
        "<th scope=\"row\">yarn</th>",
        "<td>40.00 <small>±0.40</small></td>",
        "<strong>13.70</strong>",
        "name = &quot;a &lt; b&quot;",
        ">Training</h2>",
        "validation",
        "trained length",
        "<p class=\"note\"><code>a&lt;b</code>: overlap: 2% of <code>x</code></p>",
    ] {
        assert!(page.contains(said), "no `{said}`");
    }
    // Nothing is fetched: the only addresses are the names of SVG's namespace.
    assert_eq!(page.matches("http:").count() + page.matches("https:").count(), page.matches(SVG).count());
    assert!(!page.contains(" src=") && !page.contains("url("));
    assert_eq!(page.matches("<script>").count(), 1, "one script runs");
    let charts = page.matches("<figure class=\"chart\">").count();
    assert_eq!(page.matches("<script type=\"application/json\">").count(), charts);
    assert_eq!(charts, 3, "perplexity, positions and training");
    for class in ["wide-screen", "narrow"] {
        assert_eq!(page.matches(&format!("class=\"{class}\" viewBox")).count(), charts);
    }
    // Two tables of readings by lengths and by positions, each with its map and its command.
    assert_eq!(page.matches("<figure class=\"heat\">").count(), 2);
    for cell in ["<td class=\"h0\">12.60</td>", "<td class=\"h6\">9000</td>", "<td>nan</td>"] {
        assert!(page.contains(cell), "no `{cell}`");
    }
    assert_eq!(page.matches("How to reproduce this table</summary><pre>longwave eval ").count(), 3);
}

#[test]
fn names_stay_texts_wherever_the_page_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let name = "</script><img src=x onerror=\"alert(1)\">&'\u{202e}";
    let renamed = |row: ResultRow| ResultRow { run: name.into(), encoding: name.into(), ..row };
    run(&folder.path().join("a"), &example::rows().into_iter().map(renamed).collect::<Vec<_>>());
    run(&folder.path().join("b"), &example::rows());
    write(folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(!page.contains("<img") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;/script&gt;&lt;img src=x"), "as text");
    assert!(page.contains("\\u003c/script\\u003e\\u003cimg src=x"), "as a value of the script");
    // Elements end where they should: one end for each beginning.
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
}

#[test]
fn a_folder_of_runs_has_all_rows_together_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let seed = |seed: u64| -> Vec<ResultRow> {
        let rows = example::rows().into_iter();
        rows.map(|row| ResultRow { seed, config_hash: format!("hash {seed}"), ..row }).collect()
    };
    run(&folder.path().join("rope-0"), &seed(0));
    run(&folder.path().join("rope-1"), &seed(1));
    run(&folder.path().join("copies/rope-1"), &seed(1));
    write(folder.path()).unwrap();
    let csv = fs::read_to_string(folder.path().join("results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 32);
    let tables = fs::read_to_string(folder.path().join("results.md")).unwrap();
    assert!(tables.starts_with("## Results of 3 runs\n"));
    assert!(tables.contains("standard deviation over seeds, in per cent of the perplexity"), "{tables}");
    assert!(tables.contains("(up to 2 per cell"), "{tables}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(page.matches("overlap: 2%").count(), 1, "a text that all runs read is described once");
    // A second report reads the same runs again, not its own output.
    write(folder.path()).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("results.csv")).unwrap(), csv);
}

#[test]
fn runs_of_a_study_are_shown_once_under_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, seed: u64| -> Vec<ResultRow> {
        let rows = example::rows().into_iter();
        rows.map(|row| ResultRow { run: name.into(), seed, config_hash: format!("hash {seed}"), ..row })
            .collect()
    };
    let keys = ["00112233445566aa", "00112233445566bb"];
    for (seed, key) in (0..).zip(keys) {
        run(&folder.path().join("store").join(key), &of(key, seed));
    }
    // The same training outside of the store keeps its own name.
    run(&folder.path().join("mine-0"), &of("mine", 0));
    // The store has no run of the third seed any more.
    let study = folder.path().join("studies/s");
    fs::create_dir_all(study.join("report")).unwrap();
    let rows = [of("scaled", 0), of("scaled", 1), of("scaled", 2)].concat();
    write_rows(&study.join("report/results.jsonl"), &rows).unwrap();
    let csv_of = |reported: &Path| {
        write(reported).unwrap();
        fs::read_to_string(reported.join("results.csv")).unwrap()
    };
    // A `report` of no study is a folder of its own.
    assert_eq!(csv_of(folder.path()).lines().count(), 1 + 6 * 32);
    fs::write(study.join("study.md"), "# s\n").unwrap();
    assert_eq!(csv_of(folder.path()).lines().count(), 1 + 4 * 32);
    let tables = fs::read_to_string(folder.path().join("results.md")).unwrap();
    assert!(tables.starts_with("## Results of 4 runs\n"), "{tables}");
    assert!(tables.contains("(up to 3 per cell"), "{tables}");
    assert!(tables.contains("scaled (rope)") && tables.contains("mine (rope)"), "{tables}");
    assert!(!tables.contains(keys[0]), "{tables}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains(&format!("<summary>Config of store/{}</summary>", keys[1])));
    // Where only the studies are reported, they have their rows.
    assert_eq!(csv_of(&folder.path().join("studies")).lines().count(), 1 + 3 * 32);
}

#[test]
fn a_folder_without_results_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = write(folder.path()).unwrap_err();
    assert!(error.message().contains("there is no `results.jsonl` in"), "{error}");
    assert!(error.hint_text().unwrap().contains("longwave eval RUN"));
    fs::write(folder.path().join("results.jsonl"), "").unwrap();
    assert!(write(folder.path()).unwrap_err().message().contains("there are no results in"));
    let missing = write(&folder.path().join("nowhere")).unwrap_err();
    assert!(missing.message().ends_with("is no folder"), "{missing}");
}

#[test]
fn nothing_finite_still_has_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut row = example::row("rope", "direct", 128, f64::NAN);
    row.values.set("nll_se", None);
    write_rows(&folder.path().join("results.jsonl"), &[row]).unwrap();
    let written = write(folder.path()).unwrap();
    assert_eq!(written.len(), 3);
    let page = fs::read_to_string(&written[0]).unwrap();
    assert!(page.contains("<td>nan</td>") && page.contains("no finite value to draw"));
}

#[test]
fn runs_that_were_better_earlier_are_counted_and_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = |losses: [f64; 3]| -> String {
        let line = |(step, loss)| format!("{{\"step\": {step}, \"stage\": 1, \"valid_loss\": {loss}}}\n");
        // A loss at another length is no measure of this one.
        "{\"step\": 10, \"valid_loss\": 0.5}\n".to_owned() + &(20..).zip(losses).map(line).collect::<String>()
    };
    let note = |losses: &[[f64; 3]]| {
        for (name, losses) in ["a", "b", "c"].into_iter().zip(losses) {
            run(&folder.path().join(name), &example::rows());
            fs::write(folder.path().join(name).join("metrics.jsonl"), metrics(*losses)).unwrap();
        }
        Report::read(folder.path(), None).unwrap().notes().first().cloned()
    };
    let (over, under) = ([3.0, 2.0, 2.5], [3.0, 2.0, 1.5]);
    let sentence = "step 21 was better on validation: loss 2.00 against 2.50 at the end";
    let hint = "`evaluate.checkpoints = \"best\"` reads it, and `train.patience` stops in time.";
    assert_eq!(note(&[over]).unwrap(), format!("S{}. {hint}", &sentence[1..]));
    assert_eq!(note(&[under, over]).unwrap(), format!("Of `b`, {sentence}. {hint}"));
    let several = "2 of 3 runs were better on validation at an earlier step; of `a`";
    assert_eq!(note(&[over, under, over]).unwrap(), format!("{several}, {sentence}. {hint}"));
    assert_eq!(note(&[under, under, under]), None);
}

#[test]
fn runs_of_one_name_that_are_no_seeds_of_one_have_lines_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let trained = |name: &str, seed: u64, steps: u64| {
        let rows = example::rows().into_iter();
        let rows: Vec<ResultRow> =
            rows.map(|row| ResultRow { seed, config_hash: format!("{seed} {steps}"), ..row }).collect();
        configured(&folder.path().join(name), &rows, seed, steps);
    };
    let named = || -> (Vec<String>, Vec<String>) {
        let report = Report::read(folder.path(), None).unwrap();
        let table = report.tables().remove(0);
        let lines = table.rows.iter().map(|row| row.labels.join(", "));
        (longwave_core::in_order::distinct(lines), report.notes().to_vec())
    };
    trained("rope-0", 0, 600);
    trained("rope-1", 1, 600);
    let (together, notes) = named();
    assert_eq!(notes, [""; 0]);
    trained("rope-2", 2, 60);
    let (apart, notes) = named();
    assert_eq!(
        notes,
        [
            "`rope-0` and `rope-2` are called `rope`, and are no seeds of one run: `train.steps` is 600 and 60. Each is shown under the \
          name of its folder."
        ]
    );
    assert!(!together.iter().any(|name| name.contains("rope-0")), "{together:?}");
    assert!(apart.iter().any(|name| name.contains("rope-0 (2 seeds)")), "{apart:?}");
    assert!(apart.iter().any(|name| name.contains("rope-2")), "{apart:?}");
}

#[test]
fn a_run_has_its_last_step_whatever_was_measured_last() {
    let folder = tempfile::tempdir().unwrap();
    let at = |step: u64, checkpoint: &str| ResultRow {
        step,
        checkpoint: checkpoint.into(),
        ..example::row("rope", "direct", 128, 12.0)
    };
    // `eval --checkpoints all` reads the steps of a run whose end its training has measured.
    let rows = vec![at(6, "last"), at(2, "step-2"), at(4, "step-4")];
    let run = super::folder::Run::new("rope".into(), rows, folder.path()).unwrap();
    assert_eq!(run.members().iter().map(|row| row.step).collect::<Vec<_>>(), [6]);
}

#[test]
fn a_damaged_metric_is_named() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &example::rows());
    fs::write(folder.path().join("metrics.jsonl"), "{\"step\": 1}\nstep 2\n").unwrap();
    let error = write(folder.path()).unwrap_err();
    assert!(error.message().contains("metrics.jsonl` line 2 is no step's metrics"), "{error}");
}

#[test]
fn pooled_rows_name_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, seed: u64| -> Vec<ResultRow> {
        let rows = example::rows().into_iter();
        let hash = format!("{name}{seed}");
        rows.map(|row| ResultRow { run: name.to_owned(), seed, config_hash: hash.clone(), ..row }).collect()
    };
    let rows = [of("rope, 1", 0), of("rope, 1", 1), of("alibi, 1", 0)].concat();
    fs::create_dir(folder.path().join("report")).unwrap();
    write_rows(&folder.path().join("report/results.jsonl"), &rows).unwrap();
    write(&folder.path().join("report")).unwrap();
    let page = fs::read_to_string(folder.path().join("report/report.html")).unwrap();
    assert!(page.contains("<title>Longwave: 3 runs</title>"));
    for (line, count) in [("report: rope, 1", 2), ("report: alibi, 1", 1)] {
        assert_eq!(page.matches(&format!("<tr><th scope=\"row\">{line}</th>")).count(), count, "{line}");
    }
    assert!(page.contains(">alibi, 10</td>"), "the hash of each is shown");
}

#[test]
fn files_of_charts_say_what_was_measured_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (windows, text) = ("windows_per_document", "texts/other");
    let mut rows = example::rows();
    let few = rows.iter().map(|row| {
        let mut row = row.clone();
        let key = longwave_eval::protocols::keys().into_iter().find(|key| key.name == windows).unwrap();
        row.settings.keys.set(key, 3);
        row
    });
    let other = rows.iter().map(|row| {
        let mut row = ResultRow { corpus: Some(text.into()), ..row.clone() };
        row.settings.corpus_hash = Some("0f".into());
        row
    });
    rows = rows.iter().cloned().chain(few).chain(other).collect();
    run(folder.path(), &rows);
    write(folder.path()).unwrap();
    for name in ["perplexity", "perplexity-windows_per_document-3", "perplexity-texts-other"] {
        assert!(folder.path().join(format!("{name}.svg")).exists(), "{name}");
    }
}

#[test]
fn runs_of_other_tokenizers_are_compared_in_bits_per_byte() {
    let folder = tempfile::tempdir().unwrap();
    // A byte costs 6 bits or more, a token of two bytes 8 or more: 4 a byte.
    for (run_name, bits, bytes) in [("byte", 6.0, 1_u32), ("bpe", 8.0, 2)] {
        let of = |length: usize, more: f64| {
            let bits: f64 = bits + more;
            let row =
                example::row(run_name, "direct", length, bits.exp2()).with("bpb", bits / f64::from(bytes));
            ResultRow { bytes: row.tokens * u64::from(bytes), ..row }
        };
        run(&folder.path().join(run_name), &[of(128, 0.0), of(256, 1.0)]);
    }
    write(folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let (first, second) =
        (page.find("<h2>Bits per byte of").unwrap(), page.find("<h2>Perplexity of").unwrap());
    assert!(first < second);
    assert_eq!(page.matches("<figcaption>Heat map: bits per byte, less is better").count(), 1);
    assert_eq!(page.matches("<figure class=\"heat\">").count(), 1, "colours are shared by what compares");
    assert!(page.contains("<td class=\"h0\">4.000</td>") && page.contains("<td class=\"h6\">7.000</td>"));
    let note = "perplexities and losses per token of different tokenizers do not compare; the table in bits per byte does";
    assert_eq!(
        page.matches(&format!("<figcaption>{note}</figcaption>")).count(),
        2,
        "by length and in training"
    );
    assert_eq!(page.matches(&format!("<p class=\"note\">{note}</p>")).count(), 1);
    for name in ["bits_per_byte.svg", "bits_per_byte.png", "perplexity.svg", "perplexity.png"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let tables = fs::read_to_string(folder.path().join("results.md")).unwrap();
    assert!(
        tables.contains("| bpe | direct | 4.000 | 4.500 |")
            && tables.contains("| byte | direct | 6.000 | 7.000 |")
    );
    assert!(tables.contains(&format!("P{}.\n", &note[1..])), "{tables}");
    let (chart, left_out) = Report::read(folder.path(), None).unwrap().figure().unwrap();
    assert_eq!((chart.y.label.as_str(), left_out), ("bits per byte", 0));
}
