//! The bridge between tensors and the slices that the fused forms work on, and the autodiff tape.
//!
//! A fused operation takes its tensors apart into [`Input`]s, computes on [`FlexTensor`]s, and hands
//! its result to [`record`] together with what its [`Gradient`] needs. On the GPU it does the same with
//! [`Parts`] and tensors of that backend.

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

/// Whether the fused form can take this tensor: f32, on the CPU, without gradient checkpointing.
pub(crate) fn on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && lies_on_cpu(tensor)
}

/// The same for a tensor of any type.
pub(crate) fn lies_on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    taken_by(tensor, |device| matches!(device, DispatchDevice::Flex(_)))
}

/// Whether a fused form of the GPU can take this tensor: f32, there, without gradient checkpointing.
#[cfg(feature = "gpu")]
pub(crate) fn on_gpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && lies_on_gpu(tensor)
}

/// The same for a tensor of any type.
#[cfg(feature = "gpu")]
pub(crate) fn lies_on_gpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    taken_by(tensor, |device| matches!(device, DispatchDevice::Cube(_)))
}

fn taken_by<const D: usize>(tensor: &Tensor<D>, backend: impl Fn(&DispatchDevice) -> bool) -> bool {
    let device = tensor.device();
    let device = device.as_dispatch();
    if let DispatchDevice::Autodiff(device) = device {
        device.gradient_checkpointing_strategy() == GradientCheckpointingStrategy::Disabled && backend(device)
    } else {
        backend(device)
    }
}

/// Whether the fused forms are to run at all.
pub(crate) fn fused() -> bool {
    !reference_in_use()
}

/// A backend whose tensors can be taken apart, with or without autodiff around it.
pub(crate) trait Taken: Backend {
    /// The tensor's primitive and its place on the tape.
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>>;

    /// The primitive of a tensor without autodiff.
    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self>;

    /// A tensor with a place on the tape.
    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D>;

    /// A tensor without autodiff.
    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D>;
}

impl<B: Backend> Taken for B
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>> {
        tensor.try_into_primitive::<Autodiff<Self>>().expect(LOOKED_AT)
    }

    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self> {
        tensor.try_into_primitive::<Self>().expect(LOOKED_AT)
    }

    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D> {
        Tensor::from_primitive::<Autodiff<Self>>(primitive)
    }

    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D> {
        Tensor::from_primitive::<Self>(primitive)
    }
}

const LOOKED_AT: &str = "`on_cpu` or `on_gpu` looked at the device and the type";

/// One float tensor given to a fused operation of a backend.
#[derive(Clone)]
pub(crate) struct Parts<B: Taken> {
    tensor: FloatTensor<Autodiff<B>>,
    autodiff: bool,
}

/// One float tensor given to a fused operation on the CPU.
pub(crate) type Input = Parts<Flex>;

impl<B: Taken> Parts<B> {
    /// Takes apart a tensor that [`on_cpu`] (or `on_gpu`) accepts.
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
}

/// Whether any input is tracked: then the operation must keep what its gradient needs.
pub(crate) fn any_tracked<B: Taken>(inputs: &[Parts<B>]) -> bool {
    inputs.iter().any(Parts::is_tracked)
}

/// What an operation of N inputs keeps for its gradient.
pub(crate) trait Gradient<const N: usize, B: Taken = Flex>: Clone + Debug + Send + 'static {
    /// The gradients of the inputs that are wanted, from that of the output.
    fn gradients(self, output: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N];
}

/// The backward step of an operation that keeps a [`Gradient`].
struct Step<G>(PhantomData<G>);

impl<G> Debug for Step<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Step")
    }
}

impl<B: Taken, G: Gradient<N, B>, const N: usize> Backward<B, N> for Step<G> {
    type State = G;

    fn backward(self, ops: Ops<G, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let output = grads.consume::<B>(&ops.node);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = ops.state.gradients(output, wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Counts a fused form that runs, so that tests can tell it from the reference.
pub(crate) fn ran() {
    #[cfg(test)]
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

/// Makes the output tensor; if an input is tracked, records how its gradient is computed.
pub(crate) fn record<B: Taken, G: Gradient<N, B>, const N: usize, const D: usize>(
    inputs: &[Parts<B>; N],
    output: FloatTensor<B>,
    state: impl FnOnce() -> G,
) -> Tensor<D> {
    record_step(inputs, output, Step(PhantomData), state)
}

/// [`record`] for an operation with a backward step of its own.
pub(crate) fn record_step<B: Taken, S: Backward<B, N>, const N: usize, const D: usize>(
    inputs: &[Parts<B>; N],
    output: FloatTensor<B>,
    step: S,
    state: impl FnOnce() -> S::State,
) -> Tensor<D> {
    ran();
    if !inputs.iter().any(|input| input.autodiff) {
        return B::from_plain(output);
    }
    if !any_tracked(inputs) {
        return B::from_tracked(FloatTensor::<Autodiff<B>>::new(output));
    }
    let nodes = inputs.each_ref().map(|input| input.tensor.node());
    B::from_tracked(match step.prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state(), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
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
        let inputs = [a, b].map(|tensor| Input::new(tensor.clone()));
        let [a_values, b_values] = inputs.each_ref().map(|input| values(input.data()));
        let sum = a_values.iter().zip(&*b_values).map(|(a, b)| a + b).collect();
        let output = tensor_of(sum, a.dims());
        record(&inputs, output, || {
            *kept = true;
            Sum
        })
    }

    #[test]
    fn only_tracked_inputs_make_a_tape() {
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
        assert!(on_cpu(&x));
        assert!(on_cpu(&Tensor::<2>::from_inner(x.clone())));
        assert!(!on_cpu(&x.clone().cast(DType::F64)));
        let checkpointing = device.autodiff().gradient_checkpointing();
        assert!(!on_cpu(&tensor::<2>(1, [2, 2], &checkpointing)));
    }

    #[test]
    fn views_read_what_lies_contiguously_and_copy_the_rest() {
        let device = Device::flex();
        let x = tensor::<3>(1, [2, 3, 4], &device);
        let permuted = Input::new(x.clone().swap_dims(0, 1)).into_data();
        assert_eq!(View::<3>::new(&permuted).strides(), [4, 12, 1]);
        let sliced = Input::new(x.clone().slice([1..2, 1..3, 1..3])).into_data();
        let view = View::<3>::new(&sliced);
        assert_eq!((view.strides()[1], view.data()[0]), (4, list(x.clone())[12 + 4 + 1]));
        let across = Input::new(x.swap_dims(1, 2)).into_data();
        assert_eq!(View::<3>::new(&across).strides(), [12, 3, 1]);
        assert_eq!(compact(sliced).storage::<f32>().len(), 4);
    }
}
