//! What shows a run: its progress, and the files of its results, which show all rows or say that they do not.

use crate::common::trainer::metrics;
use crate::common::{Project, RUN, wait_until};

fn text(project: &Project, name: &str) -> String {
    project.text(&format!("{RUN}/{name}"))
}

#[test]
fn training_counts_its_steps_and_ends_with_loss_and_time() {
    let project = Project::new();
    let outcome = project.train(&["--set", "evaluate=[]"]);
    let line = |beginning: &str| {
        let line = outcome.stderr.lines().find(|line| line.starts_with(beginning));
        line.unwrap_or_else(|| panic!("no `{beginning}` in {}", outcome.stderr)).to_owned()
    };
    assert!(line("training step 3/6  smoothed loss ").contains("  validation loss "));
    let end = line("trained   to step 6 of 6 in 0:");
    // The last line of the log has the same losses.
    let last = metrics(&project, RUN).pop().unwrap();
    let (loss, valid) = (last.loss, last.valid_loss.unwrap());
    assert!(
        end.contains(&format!("; loss {loss:.3} (ppl {:.1}) in the last step, smoothed loss ", loss.exp())),
        "{end}"
    );
    assert!(end.ends_with(&format!(", validation loss {valid:.3} (ppl {:.1})", valid.exp())), "{end}");
    let resumed = project.run(&["eval", RUN, "--lengths", "32", "--device", "cpu"]);
    assert!(!resumed.stderr.contains("not finished"), "{}", resumed.stderr);
}

#[test]
fn an_evaluation_renews_tables_charts_and_page() {
    let project = Project::new();
    project.train(&[]);
    let trained = text(&project, "report.html");
    let chart = text(&project, "perplexity.svg");
    for format in [&[][..], &["--json"]] {
        let extend = if format.is_empty() { "yarn" } else { "rerope" };
        let asked = ["eval", RUN, "--device", "cpu", "--extend", extend];
        let outcome = project.ok(&[&asked[..], format].concat());
        assert!(outcome.stderr.contains("wrote report.html, results.md"), "{}", outcome.stderr);
        let rows = text(&project, "results.jsonl").lines().count();
        assert_eq!(text(&project, "results.csv").lines().count(), 1 + rows);
        assert!(text(&project, "report.html").contains(&format!("<th scope=\"row\">{extend}</th>")));
        assert!(text(&project, "results.md").contains(&format!("| {extend} |")));
    }
    assert!(!trained.contains("yarn") && text(&project, "perplexity.svg") != chart);
}

/// The words of a command as the page has it: a shell's, in HTML.
pub fn words_of(command: &str) -> Vec<String> {
    let text = command.replace("&#39;", "'").replace("&quot;", "\"");
    let mut words = vec![String::new()];
    for (index, part) in text.split('\'').enumerate() {
        let pieces: Vec<&str> = if index % 2 == 0 { part.split(' ').collect() } else { vec![part] };
        for (place, piece) in pieces.into_iter().enumerate() {
            if place > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words
}

#[test]
fn the_command_below_a_table_measures_its_numbers_again() {
    let project = Project::new();
    let blocks = "evaluate=[{ lengths = [\"L\", \"2L\"], extend = [\"direct\", \"yarn\"] }, \
                  { protocol = \"by_position\", lengths = [\"2L\"], split = \"validation\", bucket = 8 }]";
    project.train(&["--set", blocks]);
    let rows = text(&project, "results.jsonl");
    let page = text(&project, "report.html");
    let commands: Vec<&str> = page
        .split("How to reproduce this table</summary><pre>longwave ")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap())
        .collect();
    assert_eq!(commands.len(), 3, "perplexity, and by position its mean and its curve");
    for command in commands {
        let words = words_of(command);
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--device", "cpu"]).collect();
        project.ok(&words);
        // A row that differed in anything would be another row.
        assert_eq!(text(&project, "results.jsonl"), rows, "{command}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_that_keeps_the_rows() {
    let project = Project::new();
    project.train(&[]);
    let before = text(&project, "results.jsonl").lines().count();
    std::fs::remove_file(project.path(RUN).join("results.md")).unwrap();
    project.write(&format!("{RUN}/results.md/in-the-way"), "");
    let outcome = project.run(&["eval", RUN, "--device", "cpu", "--extend", "yarn"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("Perplexity of small (rope)"), "{}", outcome.stdout);
    let said = "the rows are kept in `results.jsonl`, but tables, charts and page do not show them: cannot";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: `longwave report runs/small-0`"), "{}", outcome.stderr);
    assert_eq!(text(&project, "results.jsonl").lines().count(), before + 2);
}

#[test]
fn the_loss_by_position_has_a_table_beside_its_chart() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    let outcome =
        project.ok(&["eval", RUN, "--protocol", "by_position", "--lengths", "64", "--device", "cpu"]);
    let title = "Loss by position of small (rope), at 64 tokens, test split";
    let mut table = outcome.stdout.lines().skip_while(|line| *line != title).skip(3);
    let header: Vec<&str> = table.next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["extend", "1-8", "9-16", "17-24", "25-32", "33-40", "41-48", "49-56", "57-64"]);
    // Each cell is the mean of two buckets of 4 places, which are scored equally often.
    let rows = project.results(RUN);
    let direct = rows.iter().find(|row| row.extend == "direct").unwrap();
    let places = direct.positions.as_ref().unwrap();
    let line = table.find(|line| line.starts_with("direct ")).unwrap();
    for (shown, pair) in line.split_whitespace().skip(1).zip(places.chunks(2)) {
        let shown: f64 = shown.trim_end_matches('*').parse().unwrap();
        assert!((shown - f64::midpoint(pair[0].nll, pair[1].nll)).abs() < 6e-4, "{line}");
    }
    for file in ["report.html", "results.md"] {
        assert!(text(&project, file).contains(title), "{file}");
    }
    // The chart is drawn for a wide and for a narrow screen.
    assert_eq!(text(&project, "report.html").matches("trained length").count(), 2);
}

#[test]
fn tables_and_figures_come_in_the_forms_of_a_paper() {
    let project = Project::new();
    project.train(&["--out", "run"]);
    let printed = |arguments: &[&str]| project.ok(arguments).stdout;
    let latex = printed(&["eval", "run", "--extend", "ntk", "--format", "latex"]);
    assert!(latex.contains("\\begin{tabular}") && latex.contains("ntk & "), "{latex}");
    let csv = printed(&["report", "run", "--format", "csv"]);
    assert!(csv.starts_with("extend,32 (L),32 (L) error,64 (2L),"), "{csv}");
    assert!(printed(&["report", "run", "--format", "markdown"]).contains("| --- | ---: |"));
    assert!(!project.exists("run/perplexity.pdf"));

    let sizes = ["--width", "85mm", "--height", "6cm", "--font-size", "7pt"];
    printed(&[&["report", "run", "--pdf"][..], &sizes].concat());
    for name in ["perplexity", "training"] {
        let file = String::from_utf8_lossy(&project.read(&format!("run/{name}.pdf"))).into_owned();
        let page = file.split("/MediaBox [0 0 ").nth(1).unwrap();
        let size: Vec<f64> = page.split([' ', ']']).take(2).map(|number| number.parse().unwrap()).collect();
        assert!((size[0] - 240.94).abs() < 0.01 && (size[1] - 170.08).abs() < 0.5, "{name}: {size:?}");
    }
    let small = project.run(&["report", "run", "--pdf", "--width", "40pt"]);
    assert!(small.code == Some(2) && small.stderr.contains("too small"), "{}", small.stderr);
    let unit = project.run(&["report", "run", "--pdf", "--width", "85"]);
    assert!(unit.code == Some(2) && unit.stderr.contains("such as `85mm`"), "{}", unit.stderr);
    let font = project.run(&["report", "run", "--pdf", "--font", "small.toml"]);
    assert!(font.code == Some(2) && font.stderr.contains("is no TrueType font"), "{}", font.stderr);
    assert_eq!(
        project.run(&["report", "run", "--font-size", "7pt"]).code,
        Some(2),
        "only with `--pdf` or `--figure`"
    );
}

#[test]
fn one_figure_of_a_run_or_a_study_is_all_that_is_written() {
    let project = Project::new();
    project.write("s.toml", "name = \"s\"\nbase = \"small.toml\"\nseeds = 2\n");
    project.ok(&["study", "s.toml"]);
    project.train(&["--out", "run"]);
    std::fs::remove_file(project.path("run/report.html")).unwrap();
    std::fs::remove_file(project.path("runs/studies/s/study.md")).unwrap();
    for (folder, bars) in [("run", false), ("runs/studies/s", true)] {
        for kind in ["svg", "png", "pdf"] {
            let file = format!("out-{bars}.{kind}");
            let told =
                project.ok(&["report", folder, "--figure", &file, "--width", "12cm", "--font-size", "8pt"]);
            assert!(told.stderr.contains(&format!("wrote {file}: Perplexity of ")), "{}", told.stderr);
        }
        let drawn = project.text(&format!("out-{bars}.svg"));
        assert!(drawn.starts_with("<svg width=\"340.16pt\""), "{drawn:.200}");
        for label in ["direct", "linear", "ntk", "window_baseline", "32", "64", "2L"] {
            assert!(drawn.lines().any(|line| line.trim() == label), "{folder}: no `{label}`");
        }
        assert_eq!(drawn.contains("one standard deviation over seeds"), bars, "{folder}");
    }
    assert!(!project.exists("run/report.html") && !project.exists("runs/studies/s/study.md"));
    project.refuses(
        2,
        &["report", "run", "--figure", "figure.eps"],
        &["hint: end its name with `.svg`, `.png` or `.pdf`"],
    );
    project.refused(2, &["report", "run", "--figure", "a.svg", "--pdf"]);
    project.train(&["--out", "one", "--set", "evaluate=[{ lengths = [32] }]"]);
    project.refuses(1, &["report", "one", "--figure", "a.svg"], &["at two lengths"]);
}

#[test]
fn a_table_keeps_its_errors_in_a_narrow_terminal() {
    let project = Project::new();
    let lengths = "evaluate=[{ lengths = [32, 64, 96, 128, 160], windows_per_document = 1 }]";
    project.train(&["--out", "run", "--set", lengths]);
    for (columns, tables) in [(80, 2), (60, 2), (200, 1)] {
        let eval = ["eval", "run", "--device", "cpu"];
        let text = project.run_with("COLUMNS", &columns.to_string(), &eval).stdout;
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
        // Five lengths and a difference of one, each with its error.
        assert_eq!(text.matches(" ±").count(), 2 * 5 + 1, "{columns}: {text}");
        assert_eq!(
            text.lines().filter(|line| line.starts_with("extend ")).count(),
            tables,
            "{columns}: {text}"
        );
    }
}

#[test]
fn an_unfinished_run_is_evaluated_with_a_warning() {
    let project = Project::new();
    let long = ["--set", "train.steps=100000", "--set", "train.checkpoint_every=2", "--out", "run"];
    let mut training = project.start(&[&["train", "small.toml", "--device", "cpu"], &long[..]].concat());
    wait_until("two checkpoints", || project.exists("run/checkpoints/previous.safetensors"));
    training.kill().unwrap();
    training.wait().unwrap();
    let outcome = project.ok(&["eval", "run", "--lengths", "32", "--device", "cpu"]);
    let warning = "the training of `run` is not finished: its checkpoint `last` is of step ";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains(" of 100000; `longwave train` with `--resume` goes on"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_reference_has_every_field_that_is_written() {
    let project = Project::new();
    project.train(&[]);
    let asked = ["--protocol", "by_position", "--tokens", "tokens.jsonl"];
    project.ok(&[&["eval", RUN, "--device", "cpu"], &asked[..]].concat());
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/reference/results.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let lines = reference.lines().filter(|line| line.starts_with('|'));
    assert!(lines.clone().all(|line| line.ends_with('|')), "a row of a table is one line");
    for file in [&format!("{RUN}/results.jsonl"), &format!("{RUN}/metrics.jsonl"), "tokens.jsonl"] {
        let text = project.text(file);
        for line in text.lines() {
            let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            for name in fields.keys() {
                let of_field = format!("| `{name}` | ");
                assert!(lines.clone().any(|line| line.starts_with(&of_field)), "{file}: {name}");
            }
        }
    }
}
