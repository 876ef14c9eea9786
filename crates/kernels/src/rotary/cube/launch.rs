//! The launches of the kernels, as operations of a backend: so they can take their place among those that
//! burn's fusion holds back.

use super::{Packed, Part, merge_kernel, rotate_kernel, split_kernel};
use crate::gpu::{StridesLaunch, empty, grid, head_strides, rows, strides, width};
use crate::rotary::{Heads, Layout};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
#[cfg(feature = "fusion")]
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// What a split is told besides its tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: Heads,
    /// The layouts of the tables of q and k; `None` where there is none, and another tensor in its place.
    pub(super) layouts: [Option<Layout>; 2],
    /// Which of q, k and v have a gradient; another one stands in the place of those that have none.
    pub(super) given: [bool; 3],
}

impl Split {
    /// The shapes of q, k and v.
    fn shapes(&self) -> [[usize; 4]; 3] {
        let Heads { query, key_value, head_dim } = self.heads;
        [query, key_value, key_value].map(|count| [self.batch, count, self.length, head_dim])
    }

    fn packed(&self) -> [usize; 3] {
        [self.batch, self.length, self.heads.packed()]
    }

    /// The parts in vectors of `width`; `halves` are the pairs in a row of the tables of q and k.
    fn parts(&self, width: usize, halves: [usize; 2]) -> Packed {
        let head_dim = self.heads.head_dim / width;
        let part = |index: usize, heads: usize| {
            let turned = self.layouts.get(index).copied().flatten();
            let pairs = turned.map_or(head_dim / 2, |_| halves[index] / width);
            Part { heads, head_dim, pairs, turned, given: self.given[index] }
        };
        let Heads { query, key_value, .. } = self.heads;
        Packed { q: part(0, query), k: part(1, key_value), v: part(2, key_value) }
    }

    fn tables(&self, [q_cos, q_sin]: [CubeTensor; 2], [k_cos, k_sin]: [CubeTensor; 2]) -> [Table; 2] {
        let [q, k] = self.layouts.map(|layout| layout.is_some());
        [Table::new(q_cos, q_sin, q), Table::new(k_cos, k_sin, k)]
    }

    /// The pairs that are turned in a row of each of q and k, where there is a table.
    fn turned_pairs<'a>(&'a self, tables: [&'a Table; 2]) -> impl Iterator<Item = usize> + 'a {
        tables
            .into_iter()
            .zip(self.layouts)
            .filter(|(_, layout)| layout.is_some())
            .map(|(table, _)| table.half)
    }
}

/// The split and the rotation, on the GPU.
///
/// packed `[batch, length, heads.packed()]`; tables `[1 or batch, length, rotated / 2]`; q, k, v
/// `[batch, heads, length, head_dim]`; all f32.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(super) trait Rotary: Backend {
    /// packed -> q, k, v; q and k turned.
    #[fusion(id = "longwave_split", meta = split_metadata)]
    fn split(
        packed: FloatTensor<Self>,
        q_cos: FloatTensor<Self>,
        q_sin: FloatTensor<Self>,
        k_cos: FloatTensor<Self>,
        k_sin: FloatTensor<Self>,
        split: Split,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of q, k, v -> that of packed; those of q and k turned back.
    #[fusion(id = "longwave_merge", dtype = q, shape = Shape::from(split.packed()))]
    fn merge(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        q_cos: FloatTensor<Self>,
        q_sin: FloatTensor<Self>,
        k_cos: FloatTensor<Self>,
        k_sin: FloatTensor<Self>,
        split: Split,
    ) -> FloatTensor<Self>;

    /// x `[batch, heads, length, head_dim]`, turned, or turned back.
    #[fusion(id = "longwave_rotate", dtype = x, shape = x)]
    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        layout: Layout,
        #[fusion(scalar)] back: bool,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "fusion")]
fn split_metadata(
    packed: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    split: &Split,
) -> (TensorSpec, TensorSpec, TensorSpec) {
    let [q, k, v] = split.shapes().map(|shape| TensorSpec::new(shape.into(), packed.dtype));
    (q, k, v)
}

/// A table as the kernels read it.
struct Table {
    cos: CubeTensor,
    sin: CubeTensor,
    half: usize,
    /// Numbers between batch rows; 0 if they share one.
    per_batch: usize,
}

impl Table {
    /// Of tensors that are those of a table, or (`used` is false) only stand in the place of one.
    fn new(cos: CubeTensor, sin: CubeTensor, used: bool) -> Self {
        let (cos, sin) = if used { (into_contiguous(cos), into_contiguous(sin)) } else { (cos, sin) };
        let shape = cos.meta.shape();
        let (rows, length, half) = (shape[0], shape[1], shape[2]);
        Self { half, per_batch: if rows == 1 { 0 } else { length * half }, cos, sin }
    }
}

impl Rotary for CubeBackend {
    fn split(
        packed: CubeTensor,
        q_cos: CubeTensor,
        q_sin: CubeTensor,
        k_cos: CubeTensor,
        k_sin: CubeTensor,
        split: Split,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let packed = rows(packed);
        let (client, head_dim) = (packed.client.clone(), split.heads.head_dim);
        let [q, k, v] = split.shapes().map(|shape| empty(&packed, shape));
        let [q_table, k_table] = split.tables([q_cos, q_sin], [k_cos, k_sin]);
        let pairs: Vec<usize> = split.turned_pairs([&q_table, &k_table]).collect();
        let width = width(&client, strides(&packed).chain([head_dim]).chain(pairs.iter().copied()));
        let parts = split.parts(width, [q_table.half, k_table.half]);
        let count = split.batch * split.length * parts.heads() * parts.units();
        if count == 0 {
            return (q, k, v);
        }
        let (cubes, dim, address) = grid(count, &[&packed, &q, &k, &q_table.cos, &k_table.cos]);
        let strides = packed.meta.strides();
        let strides = StridesLaunch::new(strides[0] / width, head_dim / width, strides[1] / width);
        // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
        unsafe {
            split_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                width,
                packed.into_buffer_arg(),
                q_table.cos.into_buffer_arg(),
                q_table.sin.into_buffer_arg(),
                k_table.cos.into_buffer_arg(),
                k_table.sin.into_buffer_arg(),
                q.clone().into_buffer_arg(),
                k.clone().into_buffer_arg(),
                v.clone().into_buffer_arg(),
                strides,
                q_table.per_batch / width,
                k_table.per_batch / width,
                split.length,
                count,
                parts,
            );
        }
        (q, k, v)
    }

    fn merge(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        q_cos: CubeTensor,
        q_sin: CubeTensor,
        k_cos: CubeTensor,
        k_sin: CubeTensor,
        split: Split,
    ) -> CubeTensor {
        let [q, k, v] = [q, k, v].map(rows);
        let client = q.client.clone();
        let packed = empty(&q, split.packed());
        let [q_table, k_table] = split.tables([q_cos, q_sin], [k_cos, k_sin]);
        let pairs: Vec<usize> = split.turned_pairs([&q_table, &k_table]).collect();
        let distances: Vec<usize> = [&q, &k, &v].into_iter().flat_map(strides).collect();
        let numbers = distances.iter().chain(&pairs).copied().chain([split.heads.head_dim]);
        let width = width(&client, numbers);
        let parts = split.parts(width, [q_table.half, k_table.half]);
        let count = split.batch * split.length * parts.heads() * parts.units();
        if count == 0 {
            return packed;
        }
        let (cubes, dim, address) = grid(count, &[&packed, &q, &k, &v, &q_table.cos, &k_table.cos]);
        let [q_strides, k_strides, v_strides] = [&q, &k, &v].map(|part| head_strides(part, width));
        // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
        unsafe {
            merge_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                width,
                q.into_buffer_arg(),
                k.into_buffer_arg(),
                v.into_buffer_arg(),
                q_table.cos.into_buffer_arg(),
                q_table.sin.into_buffer_arg(),
                k_table.cos.into_buffer_arg(),
                k_table.sin.into_buffer_arg(),
                packed.clone().into_buffer_arg(),
                q_strides,
                k_strides,
                v_strides,
                q_table.per_batch / width,
                k_table.per_batch / width,
                split.length,
                count,
                parts,
            );
        }
        packed
    }

    fn rotate(x: CubeTensor, cos: CubeTensor, sin: CubeTensor, layout: Layout, back: bool) -> CubeTensor {
        let x = rows(x);
        let client = x.client.clone();
        let shape: [usize; 4] = std::array::from_fn(|axis| x.meta.shape()[axis]);
        let [_, heads, length, head_dim] = shape;
        let table = Table::new(cos, sin, true);
        let output = empty(&x, shape);
        let width = width(&client, strides(&x).chain([head_dim, table.half]));
        let part = Part {
            heads,
            head_dim: head_dim / width,
            pairs: table.half / width,
            turned: Some(layout),
            given: true,
        };
        let count = shape[..3].iter().product::<usize>() * part.units();
        if count == 0 {
            return output;
        }
        let (cubes, dim, address) = grid(count, &[&x, &output, &table.cos]);
        let strides = head_strides(&x, width);
        // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
        unsafe {
            rotate_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                width,
                x.into_buffer_arg(),
                table.cos.into_buffer_arg(),
                table.sin.into_buffer_arg(),
                output.clone().into_buffer_arg(),
                strides,
                table.per_batch / width,
                length,
                count,
                part,
                back,
            );
        }
        output
    }
}
