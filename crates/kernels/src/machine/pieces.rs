//! Into how many pieces each fused operation was cut on the CPU: so many threads have work.
//!
//! The operations themselves note it as they run, so that what is told is what was done. Nothing is kept unless somebody
//! watches. What burn computes without us is not noted; nor is what copies, converts or clears numbers beside an operation.

use std::cell::{Cell, RefCell};

/// One loop of an operation over its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub operation: &'static str,
    /// Whether it was part of a backward pass.
    pub backward: bool,
    /// What each piece weighs: steps of its inner loops, in a unit of the operation's own.
    pub weights: Vec<usize>,
}

thread_local! {
    static CALLS: RefCell<Option<Vec<Call>>> = const { RefCell::new(None) };
    static BACKWARD: Cell<bool> = const { Cell::new(false) };
}

/// What some work returns, and the calls of operations that this thread made meanwhile.
pub fn watched<T>(work: impl FnOnce() -> T) -> (T, Vec<Call>) {
    let before = CALLS.replace(Some(Vec::new()));
    let result = work();
    (result, CALLS.replace(before).unwrap_or_default())
}

/// Notes a loop over pieces. `weights` is called only if somebody watches.
pub(crate) fn note(operation: &'static str, weights: impl FnOnce() -> Vec<usize>) {
    CALLS.with_borrow_mut(|calls| {
        if let Some(calls) = calls {
            calls.push(Call { operation, backward: BACKWARD.get(), weights: weights() });
        }
    });
}

/// The weights of `pieces` pieces of the same size, with `work` together.
pub(crate) fn even(pieces: usize, work: usize) -> Vec<usize> {
    vec![work.div_ceil(pieces.max(1)); pieces]
}

/// The weights of pieces of `most` steps, the last of which has what is left of `work`.
pub(crate) fn up_to(most: usize, work: usize) -> Vec<usize> {
    let most = most.max(1);
    (0..work).step_by(most).map(|from| most.min(work - from)).collect()
}

/// The pairs of a query and a key of up to `rows` query rows from `from` on; the first of all `queries` sees `first` keys before its
/// own.
pub(crate) fn causal_pairs(first: usize, queries: usize, from: usize, rows: usize) -> usize {
    (from..queries.min(from + rows)).map(|row| first + row + 1).sum()
}

/// Does some work of a backward pass.
pub(crate) fn in_backward<T>(work: impl FnOnce() -> T) -> T {
    let before = BACKWARD.replace(true);
    let result = work();
    BACKWARD.set(before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_watched_is_kept() {
        note("unwatched", || unreachable!("nobody watches"));
        let (outer, calls) = watched(|| {
            note("first", || even(4, 10));
            let ((), inner) = watched(|| in_backward(|| note("second", || up_to(4, 10))));
            note("third", Vec::new);
            inner
        });
        let call =
            |operation, backward, weights: &[usize]| Call { operation, backward, weights: weights.to_vec() };
        assert_eq!(calls, [call("first", false, &[3; 4]), call("third", false, &[])]);
        assert_eq!(outer, [call("second", true, &[4, 4, 2])]);
        note("unwatched", || unreachable!("nobody watches any more"));
    }
}
