//! Tables, headings and lines of what was found.

use super::*;

fn explained() -> Explained {
    let finding = |diagnostic, length, layer, head, bin, value| Finding {
        layer,
        head,
        bin,
        se: Some(0.01),
        count: 3,
        ..Finding::of(diagnostic, "direct", length, value)
    };
    let findings = vec![
        finding(Diagnostic::Loss, 64, None, None, None, 2.5),
        finding(Diagnostic::Loss, 512, None, None, None, 3.5),
        finding(Diagnostic::UnseenAngles, 64, None, None, None, 0.0),
        finding(Diagnostic::UnseenAngles, 512, None, None, None, 0.421),
        finding(Diagnostic::UnseenAngles, 512, Some(0), None, None, 0.421),
        finding(Diagnostic::UnseenAngles, 512, Some(0), Some(1), None, 0.5),
        finding(Diagnostic::ContextCut, 512, None, None, Some(64), -0.9),
    ];
    Explained {
        runs: vec!["rope".into()],
        encoding: "rope".into(),
        train_length: 64,
        lengths: vec![64, 512],
        extend: vec!["direct".into()],
        measured_on: "3 windows of 3 documents of the split `test`".into(),
        findings,
        ..Explained::default()
    }
}

#[test]
fn what_is_found_stands_in_tables_with_definitions() {
    let shown = tables(&explained());
    let titles: Vec<&str> = shown.iter().map(|shown| shown.grid.title.as_str()).collect();
    let heads = "Layers and heads at 512 (8L)";
    assert_eq!(
        titles,
        [
            "What the model does at each length",
            "Layers and heads at 64 (L)",
            heads,
            "Far context changed, at 512 (8L)"
        ]
    );
    let text = shown[0].grid.text();
    assert!(text.contains("42.1 ±1.0"), "{text}");
    assert!(text.contains("2.500 ±0.010") && text.contains("(L - 1) theta"), "{text}");
    let chart = shown[0].chart.as_ref().unwrap();
    assert_eq!((chart.series.len(), chart.series[0].points[1].y), (1, 42.1));
    assert!(shown[2].grid.text().contains("50.0 ±1.0"));
}

#[test]
fn headings_say_what_errors_are_over() {
    let heading = |explained: &Explained, table: usize| tables(explained)[table].grid.setting.clone();
    let mut explained = explained();
    let read = "3 windows of 3 documents of the split `test`";
    assert_eq!(heading(&explained, 0), format!("{read}; errors are standard errors over documents"));
    let over = |over: Over, explained: &mut Explained| {
        explained.findings.iter_mut().for_each(|it| it.over = over);
    };
    over(Over::Windows, &mut explained);
    assert_eq!(heading(&explained, 0), format!("{read}; errors are standard errors over windows"));
    over(Over::Sequences, &mut explained);
    assert_eq!(heading(&explained, 0), format!("{read}; errors are standard errors over sequences"));
    over(Over::Runs, &mut explained);
    assert_eq!(heading(&explained, 0), format!("{read}; errors are standard errors over 3 runs"));
    explained.findings.iter_mut().for_each(|it| it.se = None);
    assert_eq!(heading(&explained, 0), format!("{read}; one window has no error"));
}

#[test]
fn headings_say_which_windows_the_gradient_is_of() {
    let mut explained = explained();
    let gradient = |diagnostic, bin| Finding {
        diagnostic,
        bin,
        windows: Some(2),
        count: 1,
        ..explained.findings[0].clone()
    };
    let both = [gradient(Diagnostic::ReceptiveField, None), gradient(Diagnostic::GradientWithin, Some(32))];
    explained.findings.extend(both);
    let shown = tables(&explained);
    let setting = |title: &str| {
        let is_here = |shown: &&Shown| shown.grid.title.starts_with(title);
        shown.iter().find(is_here).unwrap().grid.setting.clone()
    };
    let expected = "3 windows of 3 documents of the split `test`, the gradient of the first 2 of these (1 document); \
                    errors are standard errors over documents";
    assert_eq!(setting("What the model does"), expected);
    assert_eq!(setting("Where the gradient"), expected);
    assert!(!setting("Far context").contains("gradient"));
}

#[test]
fn a_line_of_the_file_is_a_finding() {
    let text = csv(&explained());
    assert_eq!(text.lines().nth(6), Some("unseen_angles,direct,512,0,1,,0.5,0.01,3,documents"));
    assert_eq!(text.lines().count(), 8);
}
