//! Stages after `[train]`: stopped anywhere, or added to a finished run, they end with the same bits.

use super::resume::steps;
use crate::common::trainer::{metrics, train_until};
use crate::common::{Project, same};
use longwave_train::Outcome;
use longwave_train::run::CheckpointId;

/// Two stages after `[train]`: one with fresh moments and a longer table or other frequencies, one that keeps them.
fn staged(position: &str, extend: &str) -> Vec<String> {
    let stages = format!(
        "stage=[{{ length = 64, steps = 3, extend = {extend}, warmup = 1 }}, \
         {{ length = 128, steps = 2, extend = \"direct\", optimizer = \"keep\", accumulation = 1 }}]"
    );
    let stages = if position == "learned" { stages.replace("\"direct\"", "\"table\"") } else { stages };
    [&format!("position.kind={position}"), "train.steps=4", "evaluate=[]", &stages]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn stages_stopped_anywhere_end_with_the_same_bits() {
    let factors = "stage=[{ length = 64, steps = 3, train = \"head_scale\", learning_rate = 0.1, warmup = 1 }, \
                   { length = 128, steps = 2, optimizer = \"keep\", accumulation = 1 }]";
    let factors = ["position.kind=none", "train.steps=4", "evaluate=[]", factors].map(str::to_owned).to_vec();
    // Two passes a step and one in the last stage: 8 + 6 + 2. The stops lie in [train], at the end of a
    // stage, within one, and between the parts of a batch.
    let anywhere: &[&[usize]] = &[&[7, 2], &[8, 5], &[3, 10, 1], &[13, 0]];
    let runs: [(Vec<String>, &[&[usize]]); 4] = [
        (staged("rope", "\"linear\""), anywhere),
        (staged("learned", "{ kind = \"table\", fill = \"hierarchical\" }"), anywhere),
        (staged("radix", "\"linear\""), anywhere),
        (factors, &[&[7, 2], &[9, 4], &[11, 3]]),
    ];
    for (changes, stops) in runs {
        let (project, position) = (Project::new(), &changes[0]);
        assert_eq!(train_until(&project, "whole", usize::MAX, &changes), Outcome::Done);
        for stops in stops {
            let folder = format!("stopped-{stops:?}");
            for &asked in *stops {
                assert_eq!(
                    train_until(&project, &folder, asked, &changes),
                    Outcome::Interrupted,
                    "{position} {stops:?}"
                );
            }
            assert_eq!(train_until(&project, &folder, usize::MAX, &changes), Outcome::Done);
            for which in [
                CheckpointId::Last,
                CheckpointId::Stage(0),
                CheckpointId::Stage(1),
                CheckpointId::Stage(2),
                CheckpointId::Best,
            ] {
                let path = |folder: &str| longwave_train::run::checkpoint_path(&project.path(folder), which);
                assert!(same(&path("whole"), &path(&folder)), "{position} {stops:?} {}", which.name());
            }
            assert_eq!(steps(&project, &folder), steps(&project, "whole"));
        }
    }
}

#[test]
fn stages_follow_the_training_that_stands_before_them() {
    let project = Project::new();
    let changes = staged("rope", "\"linear\"");
    assert_eq!(train_until(&project, "whole", usize::MAX, &changes), Outcome::Done);
    // The same [train] alone, stages added to the finished run one after the other.
    let alone: Vec<String> = changes.iter().filter(|change| !change.starts_with("stage")).cloned().collect();
    assert_eq!(train_until(&project, "grown", usize::MAX, &alone), Outcome::Done);
    let weights = |folder: &str, which| {
        let path = longwave_train::run::checkpoint_path(&project.path(folder), which);
        let checkpoint = longwave_train::Checkpoint::load(&path).unwrap();
        (
            checkpoint.meta.stage(),
            checkpoint.meta.step,
            checkpoint
                .parameters()
                .into_iter()
                .map(|(name, values)| (name.to_owned(), values.to_vec()))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(weights("grown", CheckpointId::Last), weights("whole", CheckpointId::Stage(0)));
    let first = changes.iter().map(|change| match change.split_once("}, ") {
        Some((first, _)) => format!("{first}}}]"),
        None => change.clone(),
    });
    let first: Vec<String> = first.collect();
    assert_eq!(train_until(&project, "grown", usize::MAX, &first), Outcome::Done);
    assert_eq!(train_until(&project, "grown", usize::MAX, &changes), Outcome::Done);
    for which in [CheckpointId::Last, CheckpointId::Stage(0), CheckpointId::Stage(1), CheckpointId::Stage(2)]
    {
        assert_eq!(weights("grown", which), weights("whole", which), "{}", which.name());
    }
    assert_ne!(weights("whole", CheckpointId::Stage(0)).2, weights("whole", CheckpointId::Last).2);
    let stages: Vec<(usize, u64)> =
        metrics(&project, "whole").iter().map(|metric| (metric.stage, metric.tokens)).collect();
    assert_eq!(stages.iter().map(|(stage, _)| *stage).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!(stages.last().unwrap().1, 9 * 256);
}
