use super::by_position::by_position;
use super::fixed_target::fixed_target;
use super::sliding::sliding;
use super::*;
use crate::plan::{Plan, Window, truncate};

/// Document, start, first target and end of every window.
pub(super) fn rows(plan: &Plan) -> Vec<[usize; 4]> {
    plan.windows.iter().map(|w| [w.document, w.start, w.first, w.end]).collect()
}

#[test]
fn windows_per_document_keeps_the_first() {
    let documents = [200, 40, 150];
    let plan = fixed_target(&documents, 32, 16, 64, 64, Some(1));
    assert_eq!(rows(&plan), [[0, 32, 49, 65], [2, 32, 49, 65]]);
    assert_eq!(plan.skipped_documents, 1);
    let mut keys = Keys::of(&[("max_length", 64), ("stride", 32)]);
    keys.set(WINDOWS_PER_DOCUMENT, 2);
    let two = |protocol: Protocol| protocol.plan(&keys, 64, &Documents { tokens: &documents, answers: &[] });
    let of_two = [[0, 0, 1, 65], [0, 32, 65, 97], [2, 0, 1, 65], [2, 32, 65, 97]];
    assert_eq!(rows(&two(Protocol::Sliding)), of_two);
    assert_eq!(two(Protocol::ByPosition).windows.len(), 4);
}

#[test]
fn a_document_of_exactly_one_window_is_read_and_one_token_less_is_skipped() {
    assert_eq!(rows(&sliding(&[9], 8, 8)), [[0, 0, 1, 9]]);
    assert_eq!(sliding(&[8, 0], 8, 8), Plan { windows: vec![], skipped_documents: 2 });
    assert_eq!(by_position(&[8, 9], 8).skipped_documents, 1);
}

#[test]
fn every_protocol_describes_itself_and_its_keys() {
    for protocol in Protocol::all() {
        assert!(protocol.description().ends_with('.'), "{protocol}");
        assert!(protocol.keys().iter().all(|key| key.description.ends_with('.')), "{protocol}");
        assert!(!protocol.shown().is_empty(), "{protocol}");
        assert_eq!(serde_json::to_value(protocol).unwrap(), protocol.name());
    }
}

/// The documents and targets that a protocol scores at a length, each once.
fn targets(protocol: Protocol, keys: &Keys, length: usize, documents: &[usize]) -> Vec<(usize, usize)> {
    let plan = protocol.plan(keys, length, &Documents { tokens: documents, answers: &[] });
    assert!(plan.longest_reading() <= length);
    let of = |w: &Window| (w.first..w.end).map(|target| (w.document, target)).collect::<Vec<_>>();
    let mut targets: Vec<_> = plan.windows.iter().flat_map(of).collect();
    targets.sort_unstable();
    assert!(targets.is_sorted_by(|a, b| a < b), "a token is scored twice");
    targets
}

#[test]
fn what_scores_the_same_tokens_at_every_length_says_so() {
    let documents = [700, 300, 256, 257, 1000];
    for limit in [None, Some(1), Some(2)] {
        for protocol in [Protocol::Sliding, Protocol::NonOverlapping, Protocol::ByPosition] {
            let mut keys = Keys::of(&[("max_length", 256), ("stride", 24), ("bucket", 8)]);
            if let Some(limit) = limit {
                keys.set(WINDOWS_PER_DOCUMENT, limit);
            }
            let at = |length: usize| targets(protocol, &keys, length, &documents);
            let whole = at(256);
            for length in [32, 64, 128, 256] {
                assert_eq!(at(length), whole, "{protocol} at {length}, {limit:?}");
            }
            assert!(protocol.same_tokens_at_every_length(&keys, &[32, 64, 128, 256]));
            // 96 does not divide 256: by position, each place is scored equally often, so a tail is left out.
            let says = protocol.same_tokens_at_every_length(&keys, &[96, 256]);
            assert_eq!(at(96) == whole, says, "{protocol}, {limit:?}");
            // As many windows of the longest length as before, and document 2 is too short at every length.
            assert!(whole.iter().all(|(document, _)| *document != 2));
            assert!(
                !protocol.same_tokens_at_every_length(&Keys::default(), &[32, 64]),
                "rows without the key"
            );
        }
    }
}

#[test]
fn exact_truncation_gives_every_target_the_shorter_context() {
    let plan = sliding(&[100], 64, 16);
    let truncated = truncate(&plan, 8, true);
    let contexts = |plan: &Plan| {
        let of = |w: &Window| (w.first..w.end).map(|t| t - w.start).collect::<Vec<_>>();
        plan.windows.iter().flat_map(of).collect::<Vec<_>>()
    };
    let expected: Vec<usize> = contexts(&plan).iter().map(|&context| context.min(8)).collect();
    assert_eq!(contexts(&truncated), expected);
}

#[test]
fn blocks_never_see_more_than_the_window() {
    let plan = fixed_target(&[513, 1100], 512, 128, 512, 512, None);
    let truncated = truncate(&plan, 128, false);
    assert_eq!(truncated.targets(), plan.targets());
    assert_eq!(truncated.windows.len(), 8 * plan.windows.len());
    assert!(truncated.windows.iter().all(|w| w.reading() == 128 && w.first - w.start == 113));
    // A window that is short enough already stays as it is.
    let short = fixed_target(&[513], 128, 128, 512, 512, None);
    assert_eq!(truncate(&short, 128, false), short);
}
