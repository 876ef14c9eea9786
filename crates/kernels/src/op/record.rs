//! The recording of gradients in burn's autodiff graph.

use super::Gradient;
use crate::machine::autodiff::{FusedBackend, OpTensor, any_tracked};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// What a node of the graph keeps; burn asks for a form in words, which nobody reads.
#[derive(Clone)]
struct Kept<T>(T);

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what a fused operation keeps")
    }
}

/// The gradients of M outputs that have been computed so far.
type Arrived<B, const M: usize> = Arc<Mutex<[Option<FloatTensor<B>>; M]>>;

/// The backward step of an operation. If it has one output alone, the node is that output's own.
struct Step<G, const M: usize>(PhantomData<fn(G)>);

impl<G, const M: usize> fmt::Debug for Step<G, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fused operation")
    }
}

impl<B: FusedBackend, G: Gradient<B, N, M>, const N: usize, const M: usize> Backward<B, N> for Step<G, M> {
    type State = Kept<(G, [bool; N], Arrived<B, M>)>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Kept((gradient, given, arrived)) = ops.state;
        let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
        if let [only] = &mut arrived[..] {
            *only = Some(grads.consume::<B>(&ops.node));
        }
        let outputs = arrived.each_mut().map(Option::take);
        drop(arrived);
        let mut parents = ops.parents;
        for (parent, given) in parents.iter_mut().zip(given) {
            parent.take_if(|_| !given);
        }
        let wanted = parents.each_ref().map(Option::is_some);
        let gradients = gradient(outputs, wanted);
        for (parent, gradient) in parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// The backward step of one of several outputs: it only leaves its gradient for the [`Step`] of the whole.
#[derive(Debug)]
struct OneOutput<const M: usize>;

impl<B: FusedBackend, const M: usize> Backward<B, 1> for OneOutput<M> {
    type State = Kept<(usize, Arrived<B, M>)>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Kept((index, arrived)) = ops.state;
        let gradient = grads.consume::<B>(&ops.node);
        arrived.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(gradient);
    }
}

/// Counts the calls of fused operations, so that tests can tell them from the references.
pub(crate) fn count_call() {
    #[cfg(test)]
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

/// Makes the outputs; if an input that is `given` is tracked, records how its gradient is computed.
///
/// burn's graph knows operations with one output. So where there are several, there is one node for the operation as a
/// whole, and one for each output, whose parent it is. The nodes of the outputs leave their gradients; the backward
/// pass reaches the node of the whole after all of them, and computes the gradients of the inputs once.
pub(crate) fn record<B: FusedBackend, G: Gradient<B, N, M>, const N: usize, const M: usize>(
    inputs: &[OpTensor<B>; N],
    given: [bool; N],
    outputs: [FloatTensor<B>; M],
    gradient: G,
) -> [OpTensor<B>; M] {
    count_call();
    let arrived: Arrived<B, M> = Arc::new(Mutex::new([const { None }; M]));
    // burn walks from the last parent to the first. What stands in for a missing one is the last, so that none is met earlier
    // than it would be without, and gradients are added in the same order.
    let last = given.iter().rposition(|given| *given).unwrap_or(0);
    let parents: [&OpTensor<B>; N] =
        std::array::from_fn(|index| &inputs[if given[index] { index } else { last }]);
    let whole = |output| {
        let step = Step::<G, M>(PhantomData);
        node(parents, output, step, || Kept((gradient, given, Arc::clone(&arrived))))
    };
    // Of several outputs, nothing reads the value of the whole's node.
    let whole = whole(outputs[0].clone());
    if M == 1 {
        return outputs.map(|_| whole.clone());
    }
    let mut indices = 0..;
    outputs.map(|output| {
        let index = indices.next().unwrap_or_default();
        node([&whole], output, OneOutput::<M>, || Kept((index, Arc::clone(&arrived))))
    })
}

/// An output, with a node in the graph if an input is tracked.
fn node<B: FusedBackend, S: Backward<B, N>, const N: usize>(
    inputs: [&OpTensor<B>; N],
    output: FloatTensor<B>,
    step: S,
    state: impl FnOnce() -> S::State,
) -> OpTensor<B> {
    if !any_tracked(inputs) {
        return OpTensor::untracked(output, inputs.iter().any(|input| input.is_autodiff()));
    }
    let nodes = inputs.map(OpTensor::node);
    match step.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => OpTensor::tracked(prepared.finish(state(), output)),
        OpsKind::UnTracked(prepared) => OpTensor::tracked(prepared.finish(output)),
    }
}

#[cfg(test)]
thread_local! {
    static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many fused operations this thread has run.
#[cfg(test)]
pub(crate) fn calls() -> usize {
    CALLS.with(std::cell::Cell::get)
}
