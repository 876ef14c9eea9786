//! One way to be a fused operation: an [`Op`] says how it is computed, and [`run`] chooses where, makes f32 of what must be, counts
//! the call and records the gradient in burn's graph.
//!
//! An operation has N inputs and M outputs, tensors of any number of axes. Some inputs may be missing: another one stands
//! in their place, and the operation's own settings say which are there. What is read and receives no gradient, such as
//! tables of angles, belongs to the settings too ([`Op::constants`]).
//!
//! A form on the CPU or the GPU returns the outputs and the gradient, a closure of what it keeps. The reference has its
//! gradient from burn.

mod record;

#[cfg(test)]
pub(crate) use record::calls;
pub(crate) use record::{count_call, record};

#[cfg(feature = "gpu")]
use crate::machine::autodiff::Primitive;
use crate::machine::autodiff::{FusedBackend, Kernels, OpTensor, kernels_of};
use crate::reference_in_use;
#[cfg(feature = "gpu")]
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, DispatchDevice, DispatchTensor, Flex, TensorMetadata};
use burn::tensor::{DType, Shape, Tensor};
use burn_flex::FlexTensor;

/// What the file of an operation needs of this one, and the names of tensors on both kinds of device.
pub(crate) mod prelude {
    pub(crate) use super::{Any, Gradient, Op, only, run};
    #[cfg(feature = "gpu")]
    pub(crate) use crate::machine::autodiff::Primitive;
    #[cfg(feature = "gpu")]
    pub(crate) use burn::backend::Cube;
    pub(crate) use burn::backend::Flex;
    pub(crate) use burn_flex::FlexTensor;
}

/// A tensor with any number of axes.
#[derive(Clone, Debug)]
pub(crate) struct Any(DispatchTensor);

impl Any {
    /// The tensor, which has D axes.
    pub(crate) fn tensor<const D: usize>(self) -> Tensor<D> {
        Tensor::from_dispatch(self.0)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype()
    }

    pub(crate) fn shape(&self) -> Shape {
        self.0.shape()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape().num_elements() == 0
    }

    /// Whether a gradient is wanted for it, or for something before it.
    pub(crate) fn is_tracked(&self) -> bool {
        self.clone().tensor::<1>().is_tracked()
    }

    /// A tensor on the GPU, without autodiff.
    #[cfg(feature = "gpu")]
    pub(crate) fn of_gpu(tensor: Primitive) -> Self {
        OpTensor::<Cube>::plain(tensor).into_any()
    }

    pub(crate) fn device(&self) -> DispatchDevice {
        self.0.device()
    }

    fn cast(self, dtype: DType) -> Self {
        Self(Dispatch::float_cast(self.0, dtype.into()))
    }
}

impl<B: FusedBackend> OpTensor<B> {
    /// A tensor of any number of axes on a device of the backend.
    pub(crate) fn of_any(tensor: Any) -> Self {
        // The primitive has all axes.
        Self::new(tensor.tensor::<1>())
    }

    pub(crate) fn into_any(self) -> Any {
        self.into_tensor::<1>().into()
    }
}

impl<const D: usize> From<Tensor<D>> for Any {
    fn from(tensor: Tensor<D>) -> Self {
        Self(tensor.into_dispatch())
    }
}

/// An input that may be missing.
pub(crate) struct Input(Option<Any>);

impl<const D: usize> From<Tensor<D>> for Input {
    fn from(tensor: Tensor<D>) -> Self {
        Self(Some(tensor.into()))
    }
}

impl From<Option<Any>> for Input {
    fn from(tensor: Option<Any>) -> Self {
        Self(tensor)
    }
}

impl<const D: usize> From<Option<Tensor<D>>> for Input {
    fn from(tensor: Option<Tensor<D>>) -> Self {
        Self(tensor.map(Any::from))
    }
}

/// From the gradients of the outputs, of which at least one is there, and from what is wanted, to the gradients of the inputs.
pub(crate) trait Gradient<B: FusedBackend, const N: usize, const M: usize = 1>:
    FnOnce([Option<FloatTensor<B>>; M], [bool; N]) -> [Option<FloatTensor<B>>; N] + Clone + Send + 'static
{
}

impl<B: FusedBackend, F, const N: usize, const M: usize> Gradient<B, N, M> for F where
    F: FnOnce([Option<FloatTensor<B>>; M], [bool; N]) -> [Option<FloatTensor<B>>; N] + Clone + Send + 'static
{
}

/// The gradient of an only output: the backward pass begins with it.
pub(crate) fn only<T>([gradient]: [Option<T>; 1]) -> T {
    gradient.expect("the only output has a gradient")
}

/// A gradient by plain operations: of x, from x and the gradient of the output.
pub(crate) type PlainGradient = fn(Any, Any) -> Any;

/// A fused operation: its settings, and how it is computed.
pub(crate) trait Op<const N: usize, const M: usize = 1>: Clone + Send + 'static {
    /// As messages call it.
    const NAME: &'static str;

    /// Which forms there are.
    const ON_CPU: bool = true;
    #[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "nothing is on one"))]
    const ON_GPU: bool = false;

    /// Whether these take tensors without numbers; else those go to the reference.
    const TAKES_EMPTY: bool = false;

    /// Whether the form on the CPU takes bf16 too.
    const TAKES_BF16: bool = false;

    /// How numbers of half precision are treated that no form takes: without this they go to the reference. With it, an
    /// operation of one input keeps that as it came, computes with it in f32, rounds the output to its type, and has this
    /// gradient.
    const ROUNDED: Option<PlainGradient> = None;

    /// What is read besides the inputs.
    fn constants(&self) -> Vec<Any> {
        Vec::new()
    }

    /// In plain tensor operations, which are differentiable on every device.
    fn reference(self, inputs: [Any; N]) -> [Any; M];

    /// Whether the form on the CPU takes these inputs, if it takes their types.
    fn suits_cpu(&self, _: &[Any; N]) -> bool {
        true
    }

    /// On the CPU; `wanted` are the inputs that will be asked for a gradient.
    fn cpu(self, _: [FlexTensor; N], _wanted: [bool; N]) -> ([FlexTensor; M], impl Gradient<Flex, N, M>) {
        no_form::<Flex, N, M>(Self::NAME)
    }

    /// Whether the form on the GPU takes these inputs, if they are f32 or made so.
    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, _: &[Any; N]) -> bool {
        true
    }

    /// On the GPU.
    #[cfg(feature = "gpu")]
    fn gpu(self, _: [Primitive; N], _wanted: [bool; N]) -> ([Primitive; M], impl Gradient<Cube, N, M>) {
        no_form::<Cube, N, M>(Self::NAME)
    }
}

type GradientPointer<B, const N: usize, const M: usize> =
    fn([Option<FloatTensor<B>>; M], [bool; N]) -> [Option<FloatTensor<B>>; N];

/// The type of a form that an operation does not have.
fn no_form<B: FusedBackend, const N: usize, const M: usize>(
    name: &str,
) -> ([FloatTensor<B>; M], GradientPointer<B, N, M>) {
    unreachable!("{name} has a form that it does not describe")
}

/// Computes an operation where its inputs lie. The first input is there.
pub(crate) fn run<O: Op<N, M>, const N: usize, const M: usize>(op: O, inputs: [Input; N]) -> [Any; M] {
    let given = inputs.each_ref().map(|input| input.0.is_some());
    let mut stand_in = None;
    if given.contains(&false) {
        stand_in.clone_from(&inputs[0].0);
    }
    let inputs = inputs.map(|input| input.0.or_else(|| stand_in.clone()).expect("the first input is there"));
    drop(stand_in);
    match form(&op, &inputs) {
        (Some(Kernels::Cpu), rounds) => {
            computed::<Flex, _, N, M>(inputs, given, rounds, |inputs, wanted| op.cpu(inputs, wanted))
        }
        #[cfg(feature = "gpu")]
        (Some(Kernels::Gpu), rounds) => {
            computed::<Cube, _, N, M>(inputs, given, rounds, |inputs, wanted| op.gpu(inputs, wanted))
        }
        (None, None) => op.reference(inputs),
        (None, Some(_)) => {
            let half = inputs[0].dtype();
            let wide = inputs.map(|input| input.cast(DType::F32));
            op.reference(wide).map(|output| output.cast(half))
        }
    }
}

/// The kernels that compute an operation, or none for its reference. Where it is computed in f32 on numbers of half precision and
/// rounded, also the gradient that it has.
fn form<O: Op<N, M>, const N: usize, const M: usize>(
    op: &O,
    inputs: &[Any; N],
) -> (Option<Kernels>, Option<PlainGradient>) {
    let constants = op.constants();
    let mut all = inputs.iter().chain(&constants);
    let suits = |kernels: &Kernels| match kernels {
        Kernels::Cpu => O::ON_CPU && op.suits_cpu(inputs),
        #[cfg(feature = "gpu")]
        Kernels::Gpu => O::ON_GPU && op.suits_gpu(inputs),
    };
    let has_numbers = O::TAKES_EMPTY || !inputs.iter().any(Any::is_empty);
    let kernels = kernels_of_all(all.clone()).filter(|kernels| has_numbers && suits(kernels));
    let bf16 = O::TAKES_BF16 && kernels == Some(Kernels::Cpu);
    let taken = all.all(|x| x.dtype() == DType::F32 || bf16 && x.dtype() == DType::BF16);
    match (inputs[0].dtype(), O::ROUNDED) {
        _ if taken => (kernels, None),
        (DType::F16 | DType::BF16, Some(gradient)) => (kernels, Some(gradient)),
        _ => (None, None),
    }
}

/// The kernels of the device that all tensors are on, if they run at all.
fn kernels_of_all<'a>(mut tensors: impl Iterator<Item = &'a Any>) -> Option<Kernels> {
    if reference_in_use() {
        return None;
    }
    let first = kernels_of(&tensors.next()?.device())?;
    tensors.all(|tensor| kernels_of(&tensor.device()) == Some(first)).then_some(first)
}

/// Computes as the operation does on a backend: on the inputs as they are, or else in f32 on numbers of half precision, which are kept
/// as they came.
fn computed<B: FusedBackend, G: Gradient<B, N, M>, const N: usize, const M: usize>(
    inputs: [Any; N],
    given: [bool; N],
    rounds: Option<PlainGradient>,
    compute: impl FnOnce([FloatTensor<B>; N], [bool; N]) -> ([FloatTensor<B>; M], G),
) -> [Any; M] {
    let inputs = inputs.map(OpTensor::<B>::of_any);
    let Some(plain_gradient) = rounds else {
        let wanted = std::array::from_fn(|index| given[index] && inputs[index].is_tracked());
        let (outputs, gradient) = compute(inputs.each_ref().map(|input| input.data().clone()), wanted);
        return record(&inputs, given, outputs, gradient).map(OpTensor::into_any);
    };
    let x = inputs[0].data().clone();
    let half = x.dtype();
    let cast = |tensor: FloatTensor<B>, dtype: DType| {
        OpTensor::<B>::of_any(OpTensor::<B>::plain(tensor).into_any().cast(dtype)).into_data()
    };
    let wide = inputs.each_ref().map(|input| cast(input.data().clone(), DType::F32));
    let (outputs, _) = compute(wide, [false; N]);
    let outputs = outputs.map(|output| cast(output, half));
    let gradient = move |outputs: [Option<FloatTensor<B>>; M], _: [bool; N]| {
        let given = outputs.into_iter().flatten().next();
        let mut gradient = given.map(|output| {
            let [x, output] = [x, output].map(|tensor| OpTensor::<B>::plain(cast(tensor, DType::F32)));
            cast(OpTensor::<B>::of_any(plain_gradient(x.into_any(), output.into_any())).into_data(), half)
        });
        [(); N].map(|()| gradient.take())
    };
    record(&inputs, [true; N], outputs, gradient).map(OpTensor::into_any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::autodiff::{tensor_of, values};
    use crate::testing::{list, tensor};
    use burn::tensor::Device;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// a + b, or a alone; counts the gradients that were made.
    #[derive(Clone)]
    struct Sum {
        two: bool,
        gradients: Arc<AtomicUsize>,
    }

    impl Op<2> for Sum {
        const NAME: &'static str = "sum";

        fn reference(self, [a, b]: [Any; 2]) -> [Any; 1] {
            let a = a.tensor::<2>();
            [if self.two { a + b.tensor() } else { a }.into()]
        }

        fn cpu(self, [a, b]: [FlexTensor; 2], _: [bool; 2]) -> ([FlexTensor; 1], impl Gradient<Flex, 2>) {
            let [rows, columns] = a.layout().shape().dims();
            let mut sum = values(&a).into_owned();
            if self.two {
                sum.iter_mut().zip(&*values(&b)).for_each(|(a, b)| *a += b);
            }
            let gradient = move |[output]: [Option<FlexTensor>; 1], wanted: [bool; 2]| {
                self.gradients.fetch_add(1, Ordering::Relaxed);
                wanted.map(|wanted| output.clone().filter(|_| wanted))
            };
            ([tensor_of(sum, [rows, columns])], gradient)
        }
    }

    fn sum(a: &Tensor<2>, b: Option<&Tensor<2>>, gradients: &Arc<AtomicUsize>) -> Tensor<2> {
        let op = Sum { two: b.is_some(), gradients: Arc::clone(gradients) };
        let [sum] = run(op, [a.clone().into(), b.cloned().into()]);
        sum.tensor()
    }

    #[test]
    fn only_tracked_inputs_are_recorded() {
        let (plain, autodiff) = (Device::flex(), Device::flex().autodiff());
        let a = tensor::<2>(1, [3, 4], &plain);
        let b = tensor::<2>(2, [4, 3], &autodiff).transpose();
        let leaf = tensor::<2>(3, [3, 4], &autodiff).require_grad();
        let made = Arc::new(AtomicUsize::new(0));

        let both = sum(&a, Some(&a), &made);
        assert!(!both.is_autodiff(), "plain tensors");

        let both = sum(&a, Some(&b), &made);
        assert!(both.is_autodiff() && !both.is_tracked(), "autodiff, nothing tracked");
        assert_eq!(list(both), list(a.clone() + b.clone()));

        let both = sum(&a, Some(&leaf), &made);
        assert!(both.is_tracked(), "one input tracked");
        let gradients = both.sum().backward();
        assert_eq!(list(leaf.grad(&gradients).unwrap()), [1.0; 12]);

        let gradients = sum(&leaf, None, &made).sum().backward();
        assert_eq!(list(leaf.grad(&gradients).unwrap()), [1.0; 12], "the stand-in receives nothing");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}
