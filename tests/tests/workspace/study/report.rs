//! `longwave report` on the folder of a study writes what the study writes.

use super::{RESULTS, STUDY, done, project, results, study};

#[test]
fn a_report_of_a_study_keeps_its_axes_and_claims() {
    let project = project(STUDY);
    done(study(&project, &[]));
    let (before, page) = (results(&project), project.read("runs/studies/two/report/report.html"));
    for folder in ["runs/studies/two", "runs/studies/two/report"] {
        for file in RESULTS {
            project.write(file, "lost");
        }
        let outcome = done(project.run(&["report", folder]));
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
    done(project.run(&["report", "runs/studies/two", "--against", "direct"]));
    let text = String::from_utf8(project.read("runs/studies/two/report/results.md")).unwrap();
    assert!(text.contains("minus that of direct"), "{text}");
}

#[test]
fn what_cannot_be_reported_again_is_left_alone() {
    let project = project(STUDY);
    done(study(&project, &[]));
    let before = results(&project);
    std::fs::rename(project.path("runs/store"), project.path("elsewhere")).unwrap();
    let outcome = project.run(&["report", "runs/studies/two"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("holds no result of the study in `runs/studies/two`"),
        "{}",
        outcome.stderr
    );
    // A study of an older version has no plan to be reported from.
    std::fs::remove_file(project.path("runs/studies/two/plan.toml")).unwrap();
    let outcome = project.run(&["report", "runs/studies/two"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: `longwave study FILE --collect`"), "{}", outcome.stderr);
    assert_eq!(results(&project), before);
}
