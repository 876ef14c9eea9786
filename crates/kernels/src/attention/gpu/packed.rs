//! Attention to packed projections: their split and rotation, and the attention to what these give, as one operation.
//!
//! Forward these are two launches, as one after the other. Backward it is one: the kernel of attention's gradient has rows
//! of the gradient of q or k in shared memory, turns them back, and writes them where they belong in the packed rows. Apart
//! from each other, the gradients of q, k and v would be written, read again and written again: `4 * 2 n` bytes for n
//! numbers of the packed rows.

#[cfg(feature = "fusion")]
use super::Kind;
use super::backward::packed_backward_kernel;
use super::call::{Call, Inputs, Results};
#[cfg(feature = "fusion")]
use super::call::{InputsMetadata, ResultsMetadata, bias_shapes};
use super::gradient::{query_scale, shares_block, summed};
use super::launch::{Attend, BUFFERS, supports};
use super::launches::{Backward, Launches, launch_backward};
use super::plan::{Tiles, Turned};
use super::target::PackedLaunch;
use crate::Precision;
use crate::attention::{Attention, Bias, Shape};
use crate::machine::autodiff::Primitive;
use crate::machine::gpu::{address, client, empty, linear};
use crate::op::Any;
#[cfg(feature = "fusion")]
use crate::ops::rotary::gpu::TablesMetadata;
use crate::ops::rotary::gpu::{Qkv, Rotary, Split, Table, Tables, split_tables};
use crate::ops::rotary::{Heads, Layout, RotationTable};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, ExtensionType, backend_extension};
use burn_cubecl::CubeBackend;

/// Buffers that the backward kernel has more than the one that writes q, k and v apart.
const MORE_BUFFERS: u32 = 2;

/// The tiles of the device that the packed rows lie on, if the kernels can compute this there.
pub(in crate::attention) fn supports_packed(
    packed: &Any,
    shape: &Shape,
    precision: Precision,
) -> Option<Tiles> {
    let bindings = client(packed)?.properties().hardware.max_bindings;
    supports(packed, shape, precision).filter(|_| bindings >= BUFFERS + MORE_BUFFERS)
}

/// The gradients of the packed rows and of the bias, as those of [`Gradients`](super::call::Gradients).
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
struct PackedGradients<B: Backend> {
    packed: FloatTensor<B>,
    first_bias: FloatTensor<B>,
    second_bias: FloatTensor<B>,
}

/// The backward pass on the GPU.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
trait AttendPacked: Backend {
    /// The gradients of the packed rows `[batch, length, (heads + 2 key_heads) * head_dim]` and of the bias.
    #[fusion(id = "longwave_packed_attention_backward", meta = metadata)]
    fn packed_backward(
        #[extension_type] inputs: Inputs<Self>,
        #[extension_type] results: Results<Self>,
        #[extension_type] tables: Tables<Self>,
        layouts: [Option<Layout>; 2],
        call: Call,
    ) -> PackedGradients<Self>;
}

/// The shape of the packed rows.
fn packed_shape(call: &Call) -> [usize; 3] {
    let Shape { batch, heads, key_heads, queries, head_dim, .. } = call.shape;
    [batch, queries, (heads + 2 * key_heads) * head_dim]
}

#[cfg(feature = "fusion")]
fn metadata(
    inputs: &InputsMetadata,
    _: &ResultsMetadata,
    _: &TablesMetadata,
    _: &[Option<Layout>; 2],
    call: &Call,
) -> PackedGradientsMetadata {
    let spec = |shape: Vec<usize>| TensorSpec::new(shape.into(), inputs.q.dtype);
    let distances = if call.kind == Kind::ByDistance { inputs.first_bias.shape[1] } else { 0 };
    let [first_bias, second_bias] = bias_shapes(call, distances).map(spec);
    PackedGradientsMetadata { packed: spec(packed_shape(call).to_vec()), first_bias, second_bias }
}

impl AttendPacked for CubeBackend {
    fn packed_backward(
        inputs: Inputs<Self>,
        results: Results<Self>,
        tables: Tables<Self>,
        layouts: [Option<Layout>; 2],
        call: Call,
    ) -> PackedGradients<Self> {
        let packed = empty(&inputs.q, packed_shape(&call));
        let [q_used, k_used] = layouts.map(|layout| layout.is_some());
        let q_table = Table::new(tables.q_cos, tables.q_sin, q_used);
        let k_table = Table::new(tables.k_cos, tables.k_sin, k_used);
        let pairs =
            [(q_used, &q_table), (k_used, &k_table)].map(|(used, table)| if used { table.half } else { 0 });
        let mut pass = Backward::new(inputs, results, call, &pairs);
        let width = pass.launches.width;
        let [q_turned, k_turned] = [0, 1]
            .map(|part| Turned { pairs: pairs[part] / width, layout: layouts[part].unwrap_or_default() });
        let Launches { plan, address: bits, .. } = &mut pass.launches;
        (plan.q_turned, plan.k_turned) = (q_turned, k_turned);
        *bits = (*bits).max(address(&[&packed]));
        launch_backward!(
            packed_backward_kernel,
            pass,
            PackedLaunch::new(linear(&packed), q_table.turns(width), k_table.turns(width))
        );
        let [first_bias, second_bias] = pass.into_biases();
        PackedGradients { packed, first_bias, second_bias }
    }
}

/// What the gradient needs.
#[derive(Clone)]
pub(in crate::attention) struct Kept {
    inputs: Inputs<Cube>,
    output: Primitive,
    log_sums: Primitive,
    tables: Tables<Cube>,
    layouts: [Option<Layout>; 2],
    call: Call,
    /// Whether the batch shares a block of bias.
    shared: bool,
}

impl Kept {
    /// The gradients of the packed rows and the two tensors of a bias.
    pub(in crate::attention) fn gradients(
        self,
        output_gradient: Primitive,
        bias_wanted: bool,
    ) -> [Primitive; 3] {
        let Self { inputs, output, log_sums, tables, layouts, mut call, shared } = self;
        call.learned = bias_wanted;
        // Nothing reads the gradient of the log sums: they are no output.
        let log_sums_gradient = log_sums.clone();
        let results = Results { output, log_sums, output_gradient, log_sums_gradient };
        let PackedGradients { packed, first_bias, second_bias } =
            Cube::packed_backward(inputs, results, tables, layouts, call);
        [packed, summed(first_bias, &call, shared), second_bias]
    }
}

/// The output `[batch, heads, length, head_dim]` of tensors that [`supports_packed`] accepts; the shape is that of q, k and v.
pub(in crate::attention) fn packed_forward(
    packed: Primitive,
    [first_bias, second_bias]: [Primitive; 2],
    heads: Heads,
    tables: [Option<&RotationTable>; 2],
    options: &Attention,
    shape: Shape,
    tiles: Tiles,
) -> (Primitive, Kept) {
    let (tables, layouts) = split_tables(&packed, tables);
    let split = Split { batch: shape.batch, length: shape.queries, heads, layouts, given: [true; 3] };
    let Qkv { q, k, v } = Cube::split(packed, tables.clone(), split);
    let call = Call::new(options, shape, tiles);
    // What stands in the place of a missing one must not be copied to lie in order.
    let second_bias = if matches!(options.bias, Bias::Pair { .. }) { second_bias } else { q.clone() };
    let first_bias = if matches!(options.bias, Bias::None) { q.clone() } else { first_bias };
    let inputs = Inputs { query_scale: query_scale(options, &q), q, k, v, first_bias, second_bias };
    let (output, log_sums) = Cube::forward(inputs.clone(), call);
    let shared = shares_block(options);
    (output.clone(), Kept { inputs, output, log_sums, tables, layouts, call, shared })
}
