//! The bridge between tensors and the kernels' slices, and the recording of gradients in burn's autodiff graph.
//!
//! A fused operation turns its inputs into [`OpTensor`]s, computes on their primitives ([`FlexTensor`]s on the CPU), and
//! hands its result to [`record`] together with its [`Gradient`]. An operation with several outputs uses
//! [`record_joint`] and a [`JointGradient`].

use crate::reference_in_use;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, DispatchDevice, DispatchKindConversion, DispatchTensor, Flex,
    GradientCheckpointingStrategy,
};
use burn::tensor::{Bytes, DType, Int, Shape, Tensor};
use burn_flex::{FlexTensor, Layout};
use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether kernels run at all, and not the references.
pub(crate) fn kernels_enabled() -> bool {
    !reference_in_use()
}

/// Whether a CPU kernel computes with this tensor: kernels are enabled, and it is f32 on the CPU.
pub(crate) fn cpu_kernel_applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    kernels_enabled() && is_f32_on_cpu(tensor)
}

/// Whether a GPU kernel computes with this tensor.
#[cfg(feature = "gpu")]
pub(crate) fn gpu_kernel_applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    kernels_enabled() && tensor.dtype() == DType::F32 && is_on_gpu(tensor)
}

/// Whether a tensor is f32 on the CPU, without gradient checkpointing.
pub(crate) fn is_f32_on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && is_on_cpu(tensor)
}

/// Whether a tensor of any type is on the CPU, without gradient checkpointing.
pub(crate) fn is_on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    is_on(tensor, |device| matches!(device, DispatchDevice::Flex(_)))
}

/// Whether a tensor of any type is on the GPU, without gradient checkpointing.
#[cfg(feature = "gpu")]
pub(crate) fn is_on_gpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    is_on(tensor, |device| matches!(device, DispatchDevice::Cube(_)))
}

fn is_on<const D: usize>(tensor: &Tensor<D>, backend: impl Fn(&DispatchDevice) -> bool) -> bool {
    let device = tensor.device();
    let device = device.as_dispatch();
    if let DispatchDevice::Autodiff(device) = device {
        device.gradient_checkpointing_strategy() == GradientCheckpointingStrategy::Disabled && backend(device)
    } else {
        backend(device)
    }
}

/// A backend that has fused operations, with or without autodiff around it.
pub(crate) trait FusedBackend: Backend {
    /// The primitive of a tensor with autodiff.
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>>;

    /// The primitive of a tensor without autodiff.
    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self>;

    /// A tensor with autodiff.
    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D>;

    /// A tensor without autodiff.
    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D>;
}

impl<B: Backend> FusedBackend for B
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>> {
        tensor.try_into_primitive::<Autodiff<Self>>().expect(CHECKED)
    }

    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self> {
        tensor.try_into_primitive::<Self>().expect(CHECKED)
    }

    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D> {
        Tensor::from_primitive::<Autodiff<Self>>(primitive)
    }

    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D> {
        Tensor::from_primitive::<Self>(primitive)
    }
}

const CHECKED: &str = "the caller checked the device and the type";

/// An input or output of a fused operation: a tensor's primitive, and its node in the autodiff graph.
#[derive(Clone)]
pub(crate) struct OpTensor<B: FusedBackend> {
    tensor: FloatTensor<Autodiff<B>>,
    autodiff: bool,
}

/// An input or output of a fused operation on the CPU.
pub(crate) type CpuTensor = OpTensor<Flex>;

impl<B: FusedBackend> OpTensor<B> {
    /// A tensor on a device of the backend.
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        let autodiff = tensor.is_autodiff();
        let tensor =
            if autodiff { B::tracked(tensor) } else { FloatTensor::<Autodiff<B>>::new(B::plain(tensor)) };
        Self { tensor, autodiff }
    }

    /// The values.
    pub(crate) fn data(&self) -> &FloatTensor<B> {
        self.tensor.primitive()
    }

    /// The values, when nothing else of the input is needed.
    pub(crate) fn into_data(self) -> FloatTensor<B> {
        self.tensor.into_primitive()
    }

    /// Whether a gradient is wanted for this input, or for something before it.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tensor.is_tracked()
    }

    /// The tensor, which has D axes.
    pub(crate) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        if self.autodiff { B::from_tracked(self.tensor) } else { B::from_plain(self.into_data()) }
    }
}

/// Whether any input is tracked: then the operation must keep what its gradient needs.
pub(crate) fn any_tracked<B: FusedBackend>(inputs: &[OpTensor<B>]) -> bool {
    inputs.iter().any(OpTensor::is_tracked)
}

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
    for (parent, gradient) in ops.parents.into_iter().zip(gradients(ops.state, wanted)) {
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

/// Counts the calls of fused operations, so that tests can tell them from the references.
pub(crate) fn count_call() {
    #[cfg(test)]
    CALLS.with(|calls| calls.set(calls.get() + 1));
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

#[cfg(test)]
thread_local! {
    static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many fused operations this thread has run.
#[cfg(test)]
pub(crate) fn calls() -> usize {
    CALLS.with(std::cell::Cell::get)
}

/// A new tensor of row-major values.
pub(crate) fn tensor_of<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(Shape::from(shape)), DType::F32)
}

/// A new tensor whose axis n is axis `axes[n]` of the row-major values of shape `shape`.
pub(crate) fn permuted_tensor_of<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    axes: [usize; D],
) -> FlexTensor {
    tensor_of(values, shape).permute(&axes)
}

/// The values of a tensor in row-major order; copied only if they do not lie so.
pub(crate) fn values(tensor: &FlexTensor) -> Cow<'_, [f32]> {
    match tensor.as_slice::<f32>() {
        Some(values) => Cow::Borrowed(values),
        None => Cow::Owned(tensor.to_contiguous().storage::<f32>().to_vec()),
    }
}

/// The same values in row-major order in a buffer of their own length, for writing in place; copied
/// only if they do not lie so.
pub(crate) fn compact(tensor: FlexTensor) -> FlexTensor {
    let count = tensor.layout().num_elements();
    let whole = tensor.as_slice::<f32>().is_some() && tensor.storage::<f32>().len() == count;
    if whole {
        return tensor;
    }
    let copy = Bytes::from_elems(values(&tensor).into_owned());
    FlexTensor::new(copy, Layout::contiguous(tensor.layout().shape().clone()), DType::F32)
}

/// A view of a tensor with D axes, the last of which lies contiguously; copied if it does not.
pub(crate) struct View<const D: usize> {
    tensor: FlexTensor,
    strides: [usize; D],
}

impl<const D: usize> View<D> {
    pub(crate) fn new(tensor: &FlexTensor) -> Self {
        let strides = tensor.layout().strides();
        let last = tensor.layout().shape()[D - 1];
        let direct = strides.iter().all(|stride| *stride >= 0) && (strides[D - 1] == 1 || last <= 1);
        let tensor = if direct { tensor.clone() } else { tensor.to_contiguous() };
        let mut strides: [usize; D] = std::array::from_fn(|axis| tensor.layout().strides()[axis] as usize);
        strides[D - 1] = 1;
        Self { tensor, strides }
    }

    /// All values from the start of the view; index it with [`Self::strides`].
    pub(crate) fn data(&self) -> &[f32] {
        &self.tensor.storage::<f32>()[self.tensor.layout().start_offset()..]
    }

    /// The distance between neighbours along each axis.
    pub(crate) fn strides(&self) -> [usize; D] {
        self.strides
    }
}

/// Class numbers below `classes`, as a slice.
///
/// # Panics
/// A number is negative or not below `classes`.
pub(crate) fn indices(tensor: Tensor<1, Int>, classes: usize) -> Vec<usize> {
    tensor
        .into_data()
        .iter::<i64>()
        .map(|index| match usize::try_from(index) {
            Ok(index) if index < classes => index,
            _ => panic!("class {index} of {classes} classes"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{list, tensor};
    use burn::tensor::Device;

    /// Passes the gradient on to every input that wants one.
    #[derive(Clone, Debug)]
    struct Sum;

    impl Gradient<2> for Sum {
        fn gradients(self, output: FlexTensor, wanted: [bool; 2]) -> [Option<FlexTensor>; 2] {
            wanted.map(|wanted| wanted.then(|| output.clone()))
        }
    }

    /// a + b, as a fused operation; `kept` says whether the state of the gradient was made.
    fn add(a: &Tensor<2>, b: &Tensor<2>, kept: &mut bool) -> Tensor<2> {
        let inputs = [a, b].map(|tensor| CpuTensor::new(tensor.clone()));
        let [a_values, b_values] = inputs.each_ref().map(|input| values(input.data()));
        let sum = a_values.iter().zip(&*b_values).map(|(a, b)| a + b).collect();
        let output = tensor_of(sum, a.dims());
        record(&inputs, output, || {
            *kept = true;
            Sum
        })
    }

    #[test]
    fn only_tracked_inputs_are_recorded() {
        let (plain, autodiff) = (Device::flex(), Device::flex().autodiff());
        let a = tensor::<2>(1, [3, 4], &plain);
        let b = tensor::<2>(2, [4, 3], &autodiff).transpose();
        let leaf = tensor::<2>(3, [3, 4], &autodiff).require_grad();
        let mut kept = false;

        let sum = add(&a, &a, &mut kept);
        assert!(!sum.is_autodiff() && !kept, "plain tensors");

        let sum = add(&a, &b, &mut kept);
        assert!(sum.is_autodiff() && !sum.is_tracked() && !kept, "autodiff, nothing tracked");
        assert_eq!(list(sum), list(a.clone() + b.clone()));

        let sum = add(&a, &leaf, &mut kept);
        assert!(sum.is_tracked() && kept, "one input tracked");
        let gradients = sum.sum().backward();
        assert_eq!(list(leaf.grad(&gradients).unwrap()), [1.0; 12]);
    }

    #[test]
    fn other_types_and_checkpointing_go_to_the_reference() {
        let device = Device::flex();
        let x = tensor::<2>(1, [2, 2], &device);
        assert!(is_f32_on_cpu(&x));
        assert!(is_f32_on_cpu(&Tensor::<2>::from_inner(x.clone())));
        assert!(!is_f32_on_cpu(&x.clone().cast(DType::F64)));
        let checkpointing = device.autodiff().gradient_checkpointing();
        assert!(!is_f32_on_cpu(&tensor::<2>(1, [2, 2], &checkpointing)));
    }

    #[test]
    fn views_read_what_lies_contiguously_and_copy_the_rest() {
        let device = Device::flex();
        let x = tensor::<3>(1, [2, 3, 4], &device);
        let permuted = CpuTensor::new(x.clone().swap_dims(0, 1)).into_data();
        assert_eq!(View::<3>::new(&permuted).strides(), [4, 12, 1]);
        let sliced = CpuTensor::new(x.clone().slice([1..2, 1..3, 1..3])).into_data();
        let view = View::<3>::new(&sliced);
        assert_eq!((view.strides()[1], view.data()[0]), (4, list(x.clone())[12 + 4 + 1]));
        let across = CpuTensor::new(x.swap_dims(1, 2)).into_data();
        assert_eq!(View::<3>::new(&across).strides(), [12, 3, 1]);
        assert_eq!(compact(sliced).storage::<f32>().len(), 4);
    }
}
