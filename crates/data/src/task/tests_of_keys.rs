//! What the keys of tasks change.

use super::tests::{answers, text};
use super::*;

fn with(kind: TaskKind, change: impl Fn(&mut TaskConfig)) -> TaskConfig {
    let mut task = TaskConfig::new(kind);
    change(&mut task);
    task.validate().unwrap();
    task
}

#[test]
fn half_of_what_is_not_ignored_writes_and_half_reads() {
    for (ignore, tolerance) in [(0.0, 0.03), (0.1, 0.03), (0.8, 0.02), (0.98, 0.01)] {
        let task = with(TaskKind::FlipFlop, |task| task.ignore = Some(ignore));
        let told = text(&task, 20_000, 0);
        let share = |sign: char| told.matches(sign).count() as f64 / 10_000.0;
        for (sign, wanted) in [('i', ignore), ('w', (1.0 - ignore) / 2.0), ('r', (1.0 - ignore) / 2.0)] {
            assert!((share(sign) - wanted).abs() < tolerance, "{sign} at {ignore}: {}", share(sign));
        }
        // Bits that are to be ignored are those of a coin.
        let ones = told.as_bytes().chunks(2).filter(|pair| pair[1] == b'1').count();
        assert!(ignore < 0.5 || (4_500..5_500).contains(&ones), "{ones}");
        assert_eq!(answers(&task, 20_000, 0).len(), told.matches('r').count());
    }
}

#[test]
fn several_tokens_make_a_key_and_a_value() {
    let task = with(TaskKind::Mqar, |task| {
        (task.key_len, task.value_len, task.fill, task.alphabet) = (Some(2), Some(3), Some(0.8), Some(16));
    });
    let told = text(&task, 500, 3);
    // 80 of 100 pairs of 5 tokens.
    let (pairs, rest) = told.split_at(400);
    let pairs: Vec<&str> =
        pairs.as_bytes().chunks(5).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
    let keys: std::collections::BTreeSet<&str> = pairs.iter().map(|pair| &pair[..2]).collect();
    assert_eq!((pairs.len(), keys.len()), (80, 80));
    assert!(keys.iter().flat_map(|key| key.bytes()).all(|byte| (b'a'..=b'p').contains(&byte)), "{keys:?}");
    let asked = answers(&task, 500, 3);
    assert_eq!(asked.len(), 4);
    for (prompt, answer) in &asked {
        let pair = pairs.iter().find(|pair| pair.starts_with(&prompt[prompt.len() - 2..])).unwrap();
        assert_eq!(answer, &pair[2..]);
    }
    let blocks: Vec<&[u8]> = rest.as_bytes().chunks(5).collect();
    let questions: Vec<&&[u8]> = blocks.iter().filter(|block| **block != b".....").collect();
    assert_eq!((blocks.len(), questions.len(), blocks[19] == *questions[3]), (20, 4, true));
    assert!(questions.iter().all(|block| pairs.contains(&std::str::from_utf8(block).unwrap())));
}

#[test]
fn a_short_sequence_has_fewer_pairs_and_questions() {
    let task = TaskConfig::new(TaskKind::Mqar);
    // Pairs and questions of two tokens each; eight pairs and four questions need 24.
    for (tokens, wanted) in
        [(4, (1, 1)), (6, (2, 1)), (8, (2, 1)), (16, (4, 2)), (23, (6, 3)), (24, (8, 4)), (99, (8, 4))]
    {
        let told = text(&task, tokens, 1);
        let letters = |text: &str| text.bytes().filter(u8::is_ascii_lowercase).collect::<Vec<u8>>();
        let all = letters(&told);
        let keys: std::collections::BTreeSet<u8> = all.iter().copied().collect();
        assert_eq!((keys.len(), all.len() - keys.len()), wanted, "{told}");
        assert_eq!(answers(&task, tokens, 1).len(), wanted.1);
        assert_eq!(told.len(), tokens / 2 * 2);
    }
    assert_eq!((task.smallest(), task.shortest()), (4, 24));
}

#[test]
fn questions_come_soon_and_the_last_at_the_end() {
    let task = with(TaskKind::Mqar, |task| (task.pairs, task.queries) = (Some(8), Some(2)));
    // 8 pairs, then 100 places: of the first question the law says 1 / n, the other one is the last place.
    let mut first = [0.0; 100];
    let draws = 4000;
    for index in 0..draws {
        let asked = answers(&task, 216, index);
        let places = asked.iter().map(|(prompt, _)| (prompt.len() - 17) / 2).collect::<Vec<_>>();
        assert_eq!((places.len(), places[1]), (2, 99));
        first[places[0]] += 1.0 / draws as f64;
    }
    let all: f64 = (1..100).map(|place| 1.0 / f64::from(place)).sum();
    for (place, share) in first[..4].iter().enumerate() {
        let wanted = 1.0 / (place as f64 + 1.0) / all;
        assert!((share - wanted).abs() < 0.025, "{place}: {share} and not {wanted}");
    }
}

#[test]
fn a_name_is_followed_over_its_hops() {
    let task = with(TaskKind::VariableTracking, |task| (task.hops, task.chains) = (Some(3), Some(3)));
    for index in 0..50 {
        let told = text(&task, 200, index);
        let statements: Vec<(&str, &str)> = told
            .split(['.', ';'])
            .filter(|it| !it.is_empty() && !it.starts_with('?'))
            .filter_map(|it| it.split_once('='))
            .collect();
        assert_eq!(statements.len(), 12, "{told}");
        // What a statement says is known when it is made.
        for (index, (_, value)) in statements.iter().enumerate() {
            let known = |name: &str| statements[..index].iter().any(|(told, _)| *told == name);
            assert!(value.as_bytes()[0].is_ascii_digit() || known(value), "{told}");
        }
        let [(prompt, answer)] = &answers(&task, 200, index)[..] else { panic!("one answer: {told}") };
        let mut value = &prompt[prompt.len() - 2..prompt.len() - 1];
        let mut steps = 0;
        while let Some((_, next)) = statements.iter().find(|(name, _)| *name == value) {
            (value, steps) = (next, steps + 1);
        }
        assert_eq!((value, steps), (answer.as_str(), 4), "{told}");
    }
}

#[test]
fn a_depth_is_a_share_of_the_way() {
    for (kind, sign) in [(TaskKind::Needle, "#"), (TaskKind::Passkey, "the pass key is ")] {
        for depth in [0.0, 0.25, 0.5, 1.0] {
            let task = with(kind, |task| task.depth = Some(depth));
            let told = text(&task, 204, 5);
            let (filler, first) = if kind == TaskKind::Needle { (200.0, 0) } else { (204.0 - 44.0, 0) };
            assert_eq!(told.find(sign).unwrap() - first, (depth * filler) as usize, "{kind:?} {depth}");
        }
    }
    let at = |depth| text(&with(TaskKind::AssocRecall, |task| task.depth = Some(depth)), 128, 5);
    // 31 pairs, the same at every depth; the first, the middle and the last are asked for.
    for (depth, pair) in [(0.0, 0), (0.5, 15), (1.0, 30)] {
        let told = at(depth);
        assert_eq!(told[..124], at(0.25)[..124]);
        assert_eq!(told[125..], told[4 * pair..4 * pair + 3], "{told}");
    }
}

#[test]
fn a_needle_has_company_and_stands_in_any_filler() {
    for filler in [Filler::Random, Filler::Text, Filler::Repeated] {
        let task = with(TaskKind::Needle, |task| (task.distractors, task.filler) = (Some(5), Some(filler)));
        for index in 0..20 {
            let [(prompt, answer)] = &answers(&task, 300, index)[..] else { panic!("one answer") };
            assert_eq!(prompt.len(), 299);
            let told: Vec<&str> = prompt.split('#').skip(1).map(|it| &it[..it.len().min(2)]).collect();
            let (asked, told) = told.split_last().unwrap();
            let of_asked: Vec<_> = told.iter().filter(|it| it.starts_with(asked)).collect();
            assert_eq!((told.len(), of_asked.len(), &of_asked[0][1..]), (6, 1, answer.as_str()), "{prompt}");
        }
        assert_eq!(text(&task, 300, 1), text(&task, 300, 1));
    }
    assert_eq!(with(TaskKind::Needle, |task| task.distractors = Some(5)).shortest(), 21);
}

#[test]
fn the_last_answer_alone_is_scored_where_asked() {
    for kind in [TaskKind::FlipFlop, TaskKind::Mqar, TaskKind::NBack] {
        let every = TaskConfig::new(kind);
        let last = with(kind, |task| task.score = Some(Scoring::Last));
        assert_eq!((every.scoring(), last.scoring()), (Some(Scoring::Every), Some(Scoring::Last)));
        let (all, one) = (answers(&every, 100, 2), answers(&last, 100, 2));
        assert!(all.len() > 3, "{all:?}");
        assert_eq!(one, all[all.len() - 1..]);
        let scored = |task: &TaskConfig| {
            let batch = TaskConfig { sizes: Sizes::Full, ..task.clone() }.batch(0, 0, 2, 99).unwrap();
            batch.scored.unwrap().iter().filter(|scored| **scored).count()
        };
        assert!(scored(&every) > 6 && scored(&last) == 2);
    }
    let error = |score| TaskConfig { score, ..TaskConfig::new(TaskKind::Copy) }.validate().unwrap_err();
    assert!(error(Some(Scoring::Every)).message().contains("`data.task.score = \"every\"`"));
}

#[test]
fn a_share_stands_in_the_place_of_a_number_of_pairs() {
    let task = with(TaskKind::Mqar, |task| task.pairs = Some(6));
    let filled = task.with(&"fill = 0.5".parse().unwrap(), "evaluate[0].task").unwrap();
    assert_eq!((filled.pairs, filled.fill), (None, Some(0.5)));
}
