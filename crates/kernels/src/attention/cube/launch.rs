//! The launches of the kernels, as operations of a backend: so they can take their place among those that
//! burn's fusion holds back.

use super::backward::{distance_kernel, key_kernel, query_kernel};
use super::{Kind, Plan, QUERIES, SHARED, SizesLaunch, WIDEST, forward_kernel};
use crate::attention::{Attention, Bias, Shape};
use crate::gpu::{address, empty, head_strides, rows, strides, width};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn::backend::{CubeDevice, DispatchDevice};
use burn::tensor::Tensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Cubes along each axis that every device takes.
const CUBES: usize = 65_535;

/// Buffers of the kernel that has most, with that of the sizes.
const BUFFERS: u32 = 13;

/// Whether the kernels can compute this on the device that q lies on.
pub(in crate::attention) fn takes(q: &Tensor<4>, options: &Attention, shape: &Shape) -> bool {
    if options.far.is_some() {
        return false;
    }
    let device = q.device();
    let device = match device.as_dispatch() {
        DispatchDevice::Autodiff(device) => (**device).clone(),
        device => device.clone(),
    };
    let DispatchDevice::Cube(device) = device else { return false };
    let device: CubeDevice = device;
    let client = device.client();
    let hardware = &client.properties().hardware;
    let enough = hardware.max_units_per_cube as usize >= QUERIES
        && hardware.max_shared_memory_size >= SHARED
        && hardware.max_bindings >= BUFFERS;
    let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = *shape;
    let widths = 1..=WIDEST;
    let sizes = widths.contains(&head_dim) && widths.contains(&value_dim) && batch > 0 && queries > 0;
    enough && sizes && batch.max(heads) <= CUBES && queries.max(keys).div_ceil(QUERIES) <= CUBES
}

/// What attention is told besides its tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) kind: Kind,
    scale: f32,
    /// Whether there is a scale for each query; another tensor stands in its place if not.
    scaled: bool,
    /// Whether the bias' gradient is wanted.
    pub(super) learned: bool,
    window: Option<usize>,
    sinks: usize,
    offset: usize,
}

impl Call {
    pub(super) fn new(options: &Attention, shape: Shape) -> Self {
        Self {
            shape,
            kind: match &options.bias {
                Bias::None => Kind::None,
                Bias::ByDistance(_) => Kind::ByDistance,
                Bias::Slopes(_) => Kind::Slopes,
                Bias::Pair { .. } => Kind::Pair,
                Bias::Block(_) => Kind::Block,
            },
            scale: options.scale as f32,
            scaled: options.query_scale.is_some(),
            learned: false,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
        }
    }

    fn output(&self) -> [usize; 4] {
        let Shape { batch, heads, queries, value_dim, .. } = self.shape;
        [batch, heads, queries, value_dim]
    }

    fn log_sums(&self) -> [usize; 3] {
        [self.shape.batch, self.shape.heads, self.shape.queries]
    }

    /// What the kernels are compiled for, with vectors of `width`.
    fn plan(&self, width: usize) -> Plan {
        let Shape { heads, key_heads, head_dim, value_dim, .. } = self.shape;
        let fits = SHARED / (size_of::<f32>() * (head_dim + value_dim));
        Plan {
            kind: self.kind,
            windowed: self.window.is_some(),
            scaled: self.scaled,
            learned: self.learned,
            tile: fits.min(32),
            dim: head_dim / width,
            value_dim: value_dim / width,
            group: heads / key_heads,
        }
    }

    fn sizes(&self, bias: &CubeTensor, query_scale: &CubeTensor) -> SizesLaunch {
        let Shape { heads, queries, keys, .. } = self.shape;
        let shared = |tensor: &CubeTensor| tensor.meta.shape()[0] == 1;
        let bias_shape = bias.meta.shape();
        SizesLaunch::new(
            heads,
            queries,
            keys,
            self.offset,
            self.window.unwrap_or(0),
            self.sinks,
            if self.kind == Kind::ByDistance { bias_shape[1] } else { 0 },
            if shared(bias) { 0 } else { heads * queries * keys },
            if shared(query_scale) { 0 } else { queries },
            self.scale,
        )
    }
}

/// q, k, v, the bias' tensors and the scale of queries; what is not there, another tensor stands in for.
pub(super) type Inputs<B> = [FloatTensor<B>; 6];

/// Attention on the GPU: q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`, the tensors
/// of [`Bias`] and `[1 or batch, queries]`, all f32.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(super) trait Attend: Backend {
    /// The output `[batch, heads, queries, value_dim]`, and `[batch, heads, queries]`: the logarithm of each row's sum.
    #[fusion(id = "longwave_attention", meta = forward_metadata)]
    fn forward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        first_bias: FloatTensor<Self>,
        second_bias: FloatTensor<Self>,
        query_scale: FloatTensor<Self>,
        call: Call,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of q, k, v and of the bias: of slopes `[batch, heads, queries]` and of a table
    /// `[batch, heads, distances]`, yet to be summed; of a block `[batch, heads, queries, keys]`; of pairs
    /// the queries' part and the keys'. What is not there is `[1]`.
    #[fusion(id = "longwave_attention_backward", meta = backward_metadata)]
    fn backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        first_bias: FloatTensor<Self>,
        second_bias: FloatTensor<Self>,
        query_scale: FloatTensor<Self>,
        output: FloatTensor<Self>,
        log_sums: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        call: Call,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// The shapes of the two parts of a bias' gradient.
fn bias_shapes(call: &Call, distances: usize) -> [Vec<usize>; 2] {
    let Shape { batch, heads, queries, keys, .. } = call.shape;
    match call.kind {
        _ if !call.learned => [vec![1], vec![1]],
        Kind::None => [vec![1], vec![1]],
        Kind::ByDistance => [vec![batch, heads, distances], vec![1]],
        Kind::Slopes => [vec![batch, heads, queries], vec![1]],
        Kind::Pair => [vec![batch, heads, queries], vec![batch, heads, keys]],
        Kind::Block => [vec![batch, heads, queries, keys], vec![1]],
    }
}

#[cfg(feature = "fusion")]
fn forward_metadata(
    q: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    call: &Call,
) -> (TensorSpec, TensorSpec) {
    (TensorSpec::new(call.output().into(), q.dtype), TensorSpec::new(call.log_sums().into(), q.dtype))
}

#[cfg(feature = "fusion")]
fn backward_metadata(
    q: &TensorSpec,
    k: &TensorSpec,
    v: &TensorSpec,
    first_bias: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    call: &Call,
) -> (TensorSpec, TensorSpec, TensorSpec, TensorSpec, TensorSpec) {
    let distances = if call.kind == Kind::ByDistance { first_bias.shape[1] } else { 0 };
    let [first, second] = bias_shapes(call, distances).map(|shape| TensorSpec::new(shape.into(), q.dtype));
    (q.clone(), k.clone(), v.clone(), first, second)
}

/// A new tensor of zeros beside another one.
fn zeros(like: &CubeTensor, shape: Vec<usize>) -> CubeTensor {
    burn_cubecl::ops::numeric::zeros_client(
        like.client.clone(),
        like.device.clone(),
        shape.into(),
        burn::tensor::DType::F32,
    )
}

/// Cubes of [`QUERIES`] rows.
fn cubes(rows: usize, heads: usize, batch: usize) -> CubeCount {
    CubeCount::Static(rows.div_ceil(QUERIES) as u32, heads as u32, batch as u32)
}

const UNITS: CubeDim = CubeDim::new_1d(QUERIES as u32);

impl Attend for CubeBackend {
    fn forward(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        first_bias: CubeTensor,
        second_bias: CubeTensor,
        query_scale: CubeTensor,
        call: Call,
    ) -> (CubeTensor, CubeTensor) {
        let [q, k, v] = [q, k, v].map(rows);
        let [first_bias, second_bias, query_scale] =
            [first_bias, second_bias, query_scale].map(into_contiguous);
        let (output, log_sums) = (empty(&q, call.output()), empty(&q, call.log_sums()));
        let Shape { batch, heads, queries, head_dim, value_dim, .. } = call.shape;
        let client = q.client.clone();
        let distances: Vec<usize> = [&q, &k, &v].into_iter().flat_map(strides).collect();
        let width = width(&client, distances.into_iter().chain([head_dim, value_dim]));
        let address = address(&[&q, &k, &v, &output, &first_bias]);
        let [q_strides, k_strides, v_strides] = [&q, &k, &v].map(|part| head_strides(part, width));
        let sizes = call.sizes(&first_bias, &query_scale);
        // SAFETY: units without a row read and write nothing, and the others stay within the shapes.
        unsafe {
            forward_kernel::launch_unchecked(
                &client,
                cubes(queries, heads, batch),
                UNITS,
                address,
                width,
                q.into_buffer_arg(),
                k.into_buffer_arg(),
                v.into_buffer_arg(),
                first_bias.into_buffer_arg(),
                second_bias.into_buffer_arg(),
                query_scale.into_buffer_arg(),
                output.clone().into_buffer_arg(),
                log_sums.clone().into_buffer_arg(),
                q_strides,
                k_strides,
                v_strides,
                sizes,
                call.plan(width),
            );
        }
        (output, log_sums)
    }

    fn backward(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        first_bias: CubeTensor,
        second_bias: CubeTensor,
        query_scale: CubeTensor,
        output: CubeTensor,
        log_sums: CubeTensor,
        gradient: CubeTensor,
        call: Call,
    ) -> (CubeTensor, CubeTensor, CubeTensor, CubeTensor, CubeTensor) {
        let [q, k, v, gradient] = [q, k, v, gradient].map(rows);
        let [first_bias, second_bias, query_scale, output, log_sums] =
            [first_bias, second_bias, query_scale, output, log_sums].map(into_contiguous);
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = call.shape;
        let client = q.client.clone();
        let distances: Vec<usize> = [&q, &k, &v, &gradient].into_iter().flat_map(strides).collect();
        let width = width(&client, distances.into_iter().chain([head_dim, value_dim]));
        let plan = call.plan(width);
        let table = if call.kind == Kind::ByDistance { first_bias.meta.shape()[1] } else { 0 };
        let [first_shape, second_shape] = bias_shapes(&call, table);
        // Hidden pairs of a block have the gradient 0, and no unit writes it.
        let [first, second] = [first_shape, second_shape].map(|shape| zeros(&q, shape));
        let q_gradient = empty(&q, [batch, heads, queries, head_dim]);
        let k_gradient = empty(&q, [batch, key_heads, keys, head_dim]);
        let v_gradient = empty(&q, [batch, key_heads, keys, value_dim]);
        let products = empty(&q, call.log_sums());
        let address = address(&[&q, &k, &v, &gradient, &output, &first_bias, &first]);
        let arg = |tensor: &CubeTensor| tensor.clone().into_buffer_arg();
        let stride = |tensor: &CubeTensor| head_strides(tensor, width);
        // SAFETY: units without a row read and write nothing, and the others stay within the shapes.
        unsafe {
            query_kernel::launch_unchecked(
                &client,
                cubes(queries, heads, batch),
                UNITS,
                address,
                width,
                arg(&q),
                arg(&k),
                arg(&v),
                arg(&first_bias),
                arg(&second_bias),
                arg(&query_scale),
                arg(&output),
                arg(&gradient),
                arg(&log_sums),
                arg(&q_gradient),
                arg(&products),
                arg(&first),
                stride(&q),
                stride(&k),
                stride(&v),
                stride(&gradient),
                call.sizes(&first_bias, &query_scale),
                plan,
            );
            key_kernel::launch_unchecked(
                &client,
                cubes(keys, key_heads, batch),
                UNITS,
                address,
                width,
                arg(&q),
                arg(&k),
                arg(&v),
                arg(&first_bias),
                arg(&second_bias),
                arg(&query_scale),
                arg(&gradient),
                arg(&log_sums),
                arg(&products),
                arg(&k_gradient),
                arg(&v_gradient),
                arg(&second),
                stride(&q),
                stride(&k),
                stride(&v),
                stride(&gradient),
                call.sizes(&first_bias, &query_scale),
                plan,
            );
        }
        if call.learned && call.kind == Kind::ByDistance {
            // SAFETY: as above; each unit has a distance of the table.
            unsafe {
                distance_kernel::launch_unchecked(
                    &client,
                    cubes(table, heads, batch),
                    UNITS,
                    address,
                    width,
                    arg(&q),
                    arg(&k),
                    arg(&v),
                    arg(&first_bias),
                    arg(&query_scale),
                    arg(&gradient),
                    arg(&log_sums),
                    arg(&products),
                    arg(&first),
                    stride(&q),
                    stride(&k),
                    stride(&v),
                    stride(&gradient),
                    call.sizes(&first_bias, &query_scale),
                    plan,
                );
            }
        }
        (q_gradient, k_gradient, v_gradient, first, second)
    }
}
