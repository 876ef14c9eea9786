//! `longwave report` on the folder of a study writes what the study writes.

use super::{RESULTS, STUDY, project, results, study};

#[test]
fn a_report_of_a_study_keeps_its_axes_and_claims() {
    let project = project(STUDY);
    study(&project, &[]).done();
    let (before, page) = (results(&project), project.read("runs/studies/two/report/report.html"));
    for folder in ["runs/studies/two", "runs/studies/two/report"] {
        for file in RESULTS {
            project.write(file, "lost");
        }
        let outcome = project.ok(&["report", folder]);
        assert!(outcome.stderr.contains("wrote study.md, results.csv"), "{}", outcome.stderr);
        assert_eq!(results(&project), before, "{folder}");
        assert_eq!(project.read("runs/studies/two/report/report.html"), page, "{folder}");
    }
    assert!(String::from_utf8(before[0].clone()).unwrap().starts_with("position,reading,"));
    assert!(
        !project.exists("runs/studies/two/report.html"),
        "files of a plain folder are left in the study's"
    );
    // A table of its own for each reading that is compared with.
    project.ok(&["report", "runs/studies/two", "--against", "direct"]);
    let text = project.text("runs/studies/two/report/results.md");
    assert!(text.contains("minus that of direct"), "{text}");
}

#[test]
fn a_moved_project_reads_its_own_store() {
    let project = project(STUDY);
    study(&project, &[]).done();
    let before = results(&project);
    std::fs::create_dir(project.path("moved")).unwrap();
    std::fs::rename(project.path("runs"), project.path("moved/runs")).unwrap();
    // What stands in the old place now is another project's.
    std::fs::create_dir_all(project.path("runs/store")).unwrap();
    project.write("moved/runs/studies/two/results.csv", "lost");
    project.ok(&["report", "moved/runs/studies/two"]);
    assert_eq!(project.read("moved/runs/studies/two/results.csv"), before[0]);
}

#[test]
fn what_cannot_be_reported_again_is_left_alone() {
    let project = project(STUDY);
    study(&project, &[]).done();
    let before = results(&project);
    std::fs::rename(project.path("runs/store"), project.path("elsewhere")).unwrap();
    project
        .run(&["report", "runs/studies/two"])
        .refuses(1, &["holds no result of the study in `runs/studies/two`"]);
    // A study that has lost its plan cannot be reported from.
    std::fs::remove_file(project.path("runs/studies/two/plan.toml")).unwrap();
    project.refuses(2, &["report", "runs/studies/two"], &["hint: `longwave study FILE --collect`"]);
    assert_eq!(results(&project), before);
}

#[test]
fn the_page_has_the_studys_name_its_verdicts_and_its_training() {
    let best = "best = \"2L\"\n\n[set]";
    let evaluate = "[[evaluate]]\nlengths = [64]\nprotocol = \"sliding\"\n\n[[evaluate]]\nlengths = [64]\n\
                    protocol = \"by_position\"\n\n[[claim]]";
    let text = STUDY.replacen("[set]", best, 1).replacen("[[claim]]", evaluate, 1);
    let text = text.replace("checkpoint_every = 2", "checkpoint_every = 2, validate_every = 4");
    let project = project(&text);
    let printed = study(&project, &["--format", "latex"]).done().stdout;
    for part in [
        "caption{Perplexity, fixed\\_target",
        "caption{Loss by position of rope, alibi, at 64 tokens",
        "caption{Claims.",
        "caption{Best at 2L.",
        "\\textbf{",
        "\\texttt{rope",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let page = project.text("runs/studies/two/report/report.html");
    for part in [
        "<h1>two</h1>",
        "<p>4 of 4 runs finished.</p>\n<p><code>",
        "lowest perplexity at 2L: it is ",
        "<h2>Claims</h2>",
        "<th scope=\"row\" class=\"text long\">rope = alibi at 64</th>",
        "<strong>holds</strong>",
        "<h2>Best at 2L</h2>",
        "<h2>Best at each length</h2>",
        "<h2>Training</h2>",
        "rope (validation, mean of 2 seeds)",
        "<summary>How to reproduce this table</summary><pre>longwave study two.toml</pre>",
        "<summary>two.toml</summary><pre>",
        "<summary>Config of alibi</summary>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The seeds of a run share their line of the chart and their config.
    assert_eq!(page.matches("<summary>Config of").count(), 2);
    let chart = |name: &str| project.text(&format!("runs/studies/two/report/{name}"));
    // An encoding has the same colour in every chart, also in its own.
    let (blue, orange) = ("#0072B2", "#D55E00");
    for name in ["perplexity.svg", "perplexity-sliding.svg"] {
        assert!(chart(name).contains(blue) && chart(name).contains(orange), "{name}");
    }
    for (name, own, other) in [("positions-rope.svg", blue, orange), ("positions-alibi.svg", orange, blue)] {
        assert!(chart(name).contains(own) && !chart(name).contains(other), "{name}");
    }
    // What `report` prints and draws is the study's too.
    let again = project.ok(&["report", "runs/studies/two", "--format", "latex", "--pdf"]);
    assert_eq!(again.stdout, printed);
    assert!(
        again
            .stderr
            .contains("perplexity-sliding.pdf, positions-rope.pdf, positions-alibi.pdf, training.pdf"),
        "{}",
        again.stderr
    );
}
