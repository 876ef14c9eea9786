//! The recording of gradients in burn's autodiff graph.

use super::{FusedBackend, OpTensor, any_tracked, count_call};
use crate::pieces;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::Tensor;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// What an operation of N inputs keeps for its gradient.
pub(crate) trait Gradient<const N: usize, B: FusedBackend = Flex>:
    Clone + Debug + Send + 'static
{
    /// The gradients of the inputs that are wanted, from the gradient of the output.
    fn gradients(self, output: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N];
}

/// What an operation of N inputs and M outputs keeps for its gradient, which is computed for all outputs at once.
pub(crate) trait JointGradient<const N: usize, const M: usize, B: FusedBackend = Flex>:
    Clone + Debug + Send + 'static
{
    /// The gradients of the inputs that are wanted, from the gradients of the outputs. An output that the loss does
    /// not depend on has none; at least one output has one.
    fn gradients(
        self,
        outputs: [Option<FloatTensor<B>>; M],
        wanted: [bool; N],
    ) -> [Option<FloatTensor<B>>; N];
}

/// Registers the gradients of an operation's inputs.
fn register<B: FusedBackend, S, const N: usize>(
    ops: Ops<S, N>,
    grads: &mut Gradients,
    gradients: impl FnOnce(S, [bool; N]) -> [Option<FloatTensor<B>>; N],
) {
    let wanted = ops.parents.each_ref().map(Option::is_some);
    let gradients = pieces::in_backward(|| gradients(ops.state, wanted));
    for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
        if let (Some(parent), Some(gradient)) = (parent, gradient) {
            grads.register::<B>(parent.id, gradient);
        }
    }
}

/// The backward step of an operation with one output.
#[derive(Debug)]
struct FusedOp<G>(PhantomData<fn(G)>);

impl<B: FusedBackend, G: Gradient<N, B>, const N: usize> Backward<B, N> for FusedOp<G> {
    type State = G;

    fn backward(self, ops: Ops<G, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let output = grads.consume::<B>(&ops.node);
        register::<B, G, N>(ops, grads, |state, wanted| state.gradients(output, wanted));
    }
}

/// The gradients of M outputs that have been computed so far.
type Arrived<const M: usize, B> = Arc<Mutex<[Option<FloatTensor<B>>; M]>>;

/// The backward step of one of M outputs: it only leaves its gradient for the [`JointOp`].
#[derive(Debug)]
struct OneOutput<const M: usize>;

impl<B: FusedBackend, const M: usize> Backward<B, 1> for OneOutput<M> {
    type State = (usize, Arrived<M, B>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (index, arrived) = ops.state;
        let gradient = grads.consume::<B>(&ops.node);
        arrived.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(gradient);
    }
}

/// The backward step of an operation with M outputs.
#[derive(Debug)]
struct JointOp<G, const M: usize>(PhantomData<fn(G)>);

impl<B: FusedBackend, G: JointGradient<N, M, B>, const N: usize, const M: usize> Backward<B, N>
    for JointOp<G, M>
{
    type State = (G, Arrived<M, B>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        register::<B, _, N>(ops, grads, |(state, arrived), wanted| {
            let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
            state.gradients(arrived.each_mut().map(Option::take), wanted)
        });
    }
}

/// Makes the output tensor; if an input is tracked, records how its gradient is computed.
pub(crate) fn record<B: FusedBackend, G: Gradient<N, B>, const N: usize, const D: usize>(
    inputs: &[OpTensor<B>; N],
    output: FloatTensor<B>,
    state: impl FnOnce() -> G,
) -> Tensor<D> {
    count_call();
    node(inputs, output, FusedOp(PhantomData), state).into_tensor()
}

/// [`record`] for an operation with M outputs.
///
/// burn's graph knows operations with one output. So there is one node for the operation as a whole, and one for each
/// output, whose parent it is. The nodes of the outputs leave their gradients; the backward pass reaches the node of the
/// whole after all of them, and computes the gradients of the inputs once.
pub(crate) fn record_joint<B: FusedBackend, G, const N: usize, const M: usize>(
    inputs: &[OpTensor<B>; N],
    outputs: [FloatTensor<B>; M],
    state: impl FnOnce() -> G,
) -> [OpTensor<B>; M]
where
    G: JointGradient<N, M, B>,
{
    count_call();
    let arrived: Arrived<M, B> = Arc::new(Mutex::new([const { None }; M]));
    // Nothing reads the value of the whole's node.
    let value = outputs[0].clone();
    let whole = [node(inputs, value, JointOp::<G, M>(PhantomData), || (state(), Arc::clone(&arrived)))];
    let mut indices = 0..;
    outputs.map(|output| {
        let index = indices.next().unwrap_or_default();
        node(&whole, output, OneOutput::<M>, || (index, Arc::clone(&arrived)))
    })
}

/// An output, with a node in the graph if an input is tracked.
fn node<B: FusedBackend, S: Backward<B, N>, const N: usize>(
    inputs: &[OpTensor<B>; N],
    output: FloatTensor<B>,
    step: S,
    state: impl FnOnce() -> S::State,
) -> OpTensor<B> {
    let autodiff = inputs.iter().any(|input| input.autodiff);
    if !any_tracked(inputs) {
        return OpTensor { tensor: FloatTensor::<Autodiff<B>>::new(output), autodiff };
    }
    let nodes = inputs.each_ref().map(|input| input.tensor.node());
    let tensor = match step.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state(), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    OpTensor { tensor, autodiff }
}
