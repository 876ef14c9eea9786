//! The launches of the kernels, as operations of a backend: so they can take their place among those that
//! burn's fusion holds back.

use super::backward::{OfKeysLaunch, OfQueriesLaunch, UpstreamLaunch, backward_kernel, distance_kernel};
use super::{
    Kind, Plan, QUERIES, ReadLaunch, RowStridesLaunch, SHARED, SizesLaunch, TILE, WIDEST, forward_kernel,
};
use crate::attention::{Attention, Bias, Shape};
use crate::gpu::{
    address, client, empty, empty_of, head_strides, launch, linear, rows, strided, strides, width, zeros,
};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Cubes along each axis that every device takes.
const CUBES: usize = 65_535;

/// Buffers of the kernel that has most, with that of the sizes.
const BUFFERS: u32 = 17;

/// Whether the kernels can compute this on the device that q lies on.
pub(in crate::attention) fn supports(q: &Tensor<4>, shape: &Shape) -> bool {
    let Some(client) = client(q) else { return false };
    let hardware = &client.properties().hardware;
    let enough = hardware.max_units_per_cube as usize >= QUERIES
        && hardware.max_shared_memory_size >= SHARED
        && hardware.max_bindings >= BUFFERS;
    let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = *shape;
    let widths = 1..=WIDEST;
    let sizes = widths.contains(&head_dim) && widths.contains(&value_dim) && batch > 0 && queries > 0;
    enough
        && sizes
        && batch.max(heads) <= CUBES
        && queries.div_ceil(QUERIES) + keys.div_ceil(QUERIES) <= CUBES
}

/// The settings of a call.
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
    /// The distances that are read, as far as any occurs.
    distances: [usize; 2],
    /// Whether the log sums have a gradient; another tensor stands in its place if not.
    pub(super) log_sums_given: bool,
}

impl Call {
    pub(super) fn new(options: &Attention, shape: Shape) -> Self {
        let reach = options.query_offset + shape.queries;
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
            // Kernels may count in 32 bits. What no distance reaches is enough, and stays small.
            distances: [options.distances.start, options.distances.end].map(|distance| distance.min(reach)),
            log_sums_given: false,
        }
    }

    #[cfg(feature = "fusion")]
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
        let fits = SHARED / (size_of::<f32>() * (head_dim + value_dim + 1));
        Plan {
            kind: self.kind,
            windowed: self.window.is_some(),
            scaled: self.scaled,
            learned: self.learned,
            ranged: self.distances != [0, self.offset + self.shape.queries],
            log_sums_given: self.log_sums_given,
            tile: fits.min(TILE),
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
            // Kernels may count in 32 bits. What no distance and no key reaches is enough, and stays small.
            self.window.unwrap_or(0).min(self.offset + queries),
            self.sinks.min(keys),
            self.distances[0],
            self.distances[1],
            if self.kind == Kind::ByDistance { bias_shape[1] } else { 0 },
            if shared(bias) { 0 } else { heads * queries * keys },
            if shared(query_scale) { 0 } else { queries },
            self.scale,
        )
    }
}

/// The inputs of attention: q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`, the
/// tensors of [`Bias`] and the scale of queries `[1 or batch, queries]`, all f32. Another
/// tensor stands in the place of a missing one.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Inputs<B: Backend> {
    pub(super) q: FloatTensor<B>,
    pub(super) k: FloatTensor<B>,
    pub(super) v: FloatTensor<B>,
    pub(super) first_bias: FloatTensor<B>,
    pub(super) second_bias: FloatTensor<B>,
    pub(super) query_scale: FloatTensor<B>,
}

/// The gradients of q, k, v and of the bias: of slopes `[batch, heads, queries]` and of a table
/// `[batch, heads, distances]`, yet to be summed; of a block `[batch, heads, queries, keys]`; of pairs the queries'
/// part and the keys'. What is not there is `[1]`.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Gradients<B: Backend> {
    pub(super) q: FloatTensor<B>,
    pub(super) k: FloatTensor<B>,
    pub(super) v: FloatTensor<B>,
    pub(super) first_bias: FloatTensor<B>,
    pub(super) second_bias: FloatTensor<B>,
}

/// The output and the log sums of a call, and their gradients.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Results<B: Backend> {
    pub(super) output: FloatTensor<B>,
    pub(super) log_sums: FloatTensor<B>,
    pub(super) output_gradient: FloatTensor<B>,
    pub(super) log_sums_gradient: FloatTensor<B>,
}

/// Attention on the GPU.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(super) trait Attend: Backend {
    /// The output `[batch, heads, queries, value_dim]`, and `[batch, heads, queries]`: the logarithm of each row's sum.
    #[fusion(id = "longwave_attention", meta = forward_metadata)]
    fn forward(#[extension_type] inputs: Inputs<Self>, call: Call) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of what was read.
    #[fusion(id = "longwave_attention_backward", meta = backward_metadata)]
    fn backward(
        #[extension_type] inputs: Inputs<Self>,
        #[extension_type] results: Results<Self>,
        call: Call,
    ) -> Gradients<Self>;
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
fn forward_metadata(inputs: &InputsMetadata, call: &Call) -> (TensorSpec, TensorSpec) {
    let dtype = inputs.q.dtype;
    (TensorSpec::new(call.output().into(), dtype), TensorSpec::new(call.log_sums().into(), dtype))
}

#[cfg(feature = "fusion")]
fn backward_metadata(inputs: &InputsMetadata, _: &ResultsMetadata, call: &Call) -> GradientsMetadata {
    let spec = |shape: Vec<usize>| TensorSpec::new(shape.into(), inputs.q.dtype);
    let distances = if call.kind == Kind::ByDistance { inputs.first_bias.shape[1] } else { 0 };
    let [first_bias, second_bias] = bias_shapes(call, distances).map(spec);
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(TensorSpec::clone);
    GradientsMetadata { q, k, v, first_bias, second_bias }
}

const UNITS: CubeDim = CubeDim::new_1d(QUERIES as u32);

impl Inputs<CubeBackend> {
    /// Inputs whose last axes lie contiguously, and all axes where kernels know no strides.
    fn laid_out(self) -> Self {
        Self {
            q: rows(self.q),
            k: rows(self.k),
            v: rows(self.v),
            first_bias: into_contiguous(self.first_bias),
            second_bias: into_contiguous(self.second_bias),
            query_scale: into_contiguous(self.query_scale),
        }
    }

    /// Those that are read in rows of channels.
    fn in_rows(&self) -> [&CubeTensor; 3] {
        [&self.q, &self.k, &self.v]
    }

    /// All of it as the kernels read it, in vectors of `width`.
    fn read<N: Size>(&self, call: &Call, width: usize) -> ReadLaunch<'static, N> {
        let [q, k, v] = self.in_rows().map(|tensor| head_strides(tensor, width));
        ReadLaunch::new(
            strided(&self.q),
            strided(&self.k),
            strided(&self.v),
            linear(&self.first_bias),
            linear(&self.second_bias),
            linear(&self.query_scale),
            RowStridesLaunch::new(q, k, v),
            call.sizes(&self.first_bias, &self.query_scale),
        )
    }
}

impl Results<CubeBackend> {
    /// What the backward kernels read of them.
    fn upstream<N: Size>(&self, width: usize) -> UpstreamLaunch<'static, N> {
        let gradient = &self.output_gradient;
        UpstreamLaunch::new(
            strided(gradient),
            head_strides(gradient, width),
            linear(&self.log_sums),
            linear(&self.log_sums_gradient),
        )
    }
}

/// What the launches of one call have in common.
struct Launches {
    inputs: Inputs<CubeBackend>,
    call: Call,
    /// Numbers of a vector.
    width: usize,
    address: AddressType,
}

impl Launches {
    /// Of a call that besides its inputs reads `in_rows`, and reads or writes `others`.
    fn new(inputs: Inputs<CubeBackend>, call: Call, in_rows: &[&CubeTensor], others: &[&CubeTensor]) -> Self {
        let Shape { head_dim, value_dim, .. } = call.shape;
        let in_rows = [&inputs.in_rows(), in_rows].concat();
        let distances: Vec<usize> = in_rows.iter().copied().flat_map(strides).collect();
        let width = width(&inputs.q.client, distances.into_iter().chain([head_dim, value_dim]));
        let address = address(&[&in_rows, &[&inputs.first_bias][..], others].concat());
        Self { inputs, call, width, address }
    }

    /// So many cubes for a head.
    fn cubes(&self, count: usize, heads: usize) -> CubeCount {
        CubeCount::Static(count as u32, heads as u32, self.call.shape.batch as u32)
    }
}

/// Launches a kernel with the inputs that all kernels read, and further arguments.
macro_rules! launch_reading {
    ($kernel:ident, $launches:expr, $cubes:expr; $($argument:expr),+ $(,)?) => {
        // SAFETY: units without a row, a key or a distance read and write nothing, and the others stay within
        // the shapes.
        unsafe {
            launch!(
                $kernel,
                &$launches.inputs.q.client,
                $cubes,
                UNITS,
                $launches.address,
                $launches.width,
                $launches.inputs.read(&$launches.call, $launches.width),
                $($argument,)+
                $launches.call.plan($launches.width),
            );
        }
    };
}

/// The heads of each position side by side, or apart again.
fn swapped(output: CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(output, 1, 2)
}

impl Attend for CubeBackend {
    fn forward(inputs: Inputs<Self>, call: Call) -> (CubeTensor, CubeTensor) {
        let inputs = inputs.laid_out();
        let Shape { batch, heads, queries, value_dim, .. } = call.shape;
        // So the product that follows reads the heads as one row.
        let output = empty(&inputs.q, [batch, queries, heads, value_dim]);
        let log_sums = empty(&inputs.q, call.log_sums());
        let launches = Launches::new(inputs, call, &[], &[&output]);
        let cubes = launches.cubes(queries.div_ceil(QUERIES), heads);
        launch_reading!(forward_kernel, launches, cubes; linear(&output), linear(&log_sums));
        (swapped(output), log_sums)
    }

    fn backward(inputs: Inputs<Self>, results: Results<Self>, call: Call) -> Gradients<Self> {
        let inputs = inputs.laid_out();
        let results = Results {
            output: into_contiguous(swapped(results.output)),
            log_sums: into_contiguous(results.log_sums),
            output_gradient: rows(results.output_gradient),
            log_sums_gradient: into_contiguous(results.log_sums_gradient),
        };
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = call.shape;
        let distances = if call.kind == Kind::ByDistance { inputs.first_bias.meta.shape()[1] } else { 0 };
        // Hidden pairs of a block have the gradient 0, and no unit writes it.
        let has_hidden = call.learned && call.kind == Kind::Block;
        let [first_bias, second_bias] = bias_shapes(&call, distances).map(|shape| {
            if has_hidden { zeros(&inputs.q, shape) } else { empty_of(&inputs.q, shape.into()) }
        });
        let q = empty(&inputs.q, [batch, heads, queries, head_dim]);
        let k = empty(&inputs.q, [batch, key_heads, keys, head_dim]);
        let v = empty(&inputs.q, [batch, key_heads, keys, value_dim]);
        let products = empty(&inputs.q, call.log_sums());
        let launches =
            Launches::new(inputs, call, &[&results.output_gradient], &[&results.output, &first_bias]);
        let width = launches.width;
        let query_cubes = queries.div_ceil(QUERIES);
        launch_reading!(
            backward_kernel, launches, launches.cubes(query_cubes + keys.div_ceil(QUERIES), heads);
            results.upstream(width),
            linear(&results.output),
            OfQueriesLaunch::new(linear(&q), linear(&products), linear(&first_bias)),
            OfKeysLaunch::new(linear(&k), linear(&v), linear(&second_bias)),
            query_cubes,
        );
        if call.learned && call.kind == Kind::ByDistance {
            launch_reading!(
                distance_kernel, launches, launches.cubes(distances.div_ceil(QUERIES), heads);
                results.upstream(width), linear(&products), linear(&first_bias),
            );
        }
        Gradients { q, k, v, first_bias, second_bias }
    }
}
