//! The launches of the kernels.

use super::{HeadRowsLaunch, Packed, PackedPart, TurnsLaunch, merge_kernel, rotate_kernel, split_kernel};
use crate::machine::gpu::{
    StridesLaunch, empty, grid, head_strides, launch, linear, rows, strided, strides, width,
};
use crate::ops::rotary::{Heads, Layout};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// The settings of a split.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::rotary) struct Split {
    pub(in crate::ops::rotary) batch: usize,
    pub(in crate::ops::rotary) length: usize,
    pub(in crate::ops::rotary) heads: Heads,
    /// The layouts of the tables of q and k; `None` where there is none, and another tensor in its place.
    pub(in crate::ops::rotary) layouts: [Option<Layout>; 2],
    /// Which of q, k and v have a gradient; another one stands in the place of those that have none.
    pub(in crate::ops::rotary) given: [bool; 3],
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
            PackedPart { heads, head_dim, pairs, turned, given: self.given[index] }
        };
        let Heads { query, key_value, .. } = self.heads;
        Packed { q: part(0, query), k: part(1, key_value), v: part(2, key_value) }
    }

    /// The arguments of the launch of a split or of a merge; `distances` are the strides of what is read by strides.
    fn launch(&self, tables: Tables, distances: impl Iterator<Item = usize>) -> Launch {
        let [q_turned, k_turned] = self.layouts.map(|layout| layout.is_some());
        let q = Table::new(tables.q_cos, tables.q_sin, q_turned);
        let k = Table::new(tables.k_cos, tables.k_sin, k_turned);
        let pairs = q_turned.then_some(q.half).into_iter().chain(k_turned.then_some(k.half));
        let numbers: Vec<usize> = distances.chain(pairs).chain([self.heads.head_dim]).collect();
        let width = width(&q.cos.client, numbers.into_iter());
        let parts = self.parts(width, [q.half, k.half]);
        Launch { q, k, width, parts, count: self.batch * self.length * parts.heads() * parts.units() }
    }
}

/// What the launches of the split and of the merge have in common.
struct Launch {
    q: Table,
    k: Table,
    /// Numbers of a vector.
    width: usize,
    parts: Packed,
    /// Units.
    count: usize,
}

/// q, k and v: their values, or their gradients.
#[derive(Clone, Debug)]
pub(in crate::ops::rotary) struct Qkv {
    pub(in crate::ops::rotary) q: CubeTensor,
    pub(in crate::ops::rotary) k: CubeTensor,
    pub(in crate::ops::rotary) v: CubeTensor,
}

/// The cosines and sines for q and for k; where one of them has no table, other tensors in their place.
#[derive(Clone, Debug)]
pub(in crate::ops::rotary) struct Tables {
    pub(in crate::ops::rotary) q_cos: CubeTensor,
    pub(in crate::ops::rotary) q_sin: CubeTensor,
    pub(in crate::ops::rotary) k_cos: CubeTensor,
    pub(in crate::ops::rotary) k_sin: CubeTensor,
}

/// A table as the kernels read it.
pub(in crate::ops::rotary) struct Table {
    cos: CubeTensor,
    sin: CubeTensor,
    /// The pairs of a row.
    pub(in crate::ops::rotary) half: usize,
    /// Numbers between batch rows; 0 if they share one.
    per_batch: usize,
    /// Whether it is a table, and not another tensor in the place of one.
    used: bool,
}

impl Table {
    /// Of tensors that are those of a table, or (`used` is false) only stand in the place of one.
    pub(in crate::ops::rotary) fn new(cos: CubeTensor, sin: CubeTensor, used: bool) -> Self {
        let (cos, sin) = if used { (into_contiguous(cos), into_contiguous(sin)) } else { (cos, sin) };
        let shape = cos.meta.shape();
        let (rows, length, half) = (shape[0], shape[1], shape[2]);
        Self { half, per_batch: if rows == 1 { 0 } else { length * half }, cos, sin, used }
    }

    /// As the kernels read it, in vectors of `width`.
    pub(in crate::ops::rotary) fn turns<N: Size>(&self, width: usize) -> TurnsLaunch<'static, N> {
        // What stands in the place of a table is not read.
        let argument = if self.used { linear } else { strided };
        let [cos, sin] = [&self.cos, &self.sin].map(argument);
        TurnsLaunch::new(cos, sin, self.per_batch / width)
    }
}

/// `[batch, heads, length, head_dim]` as the kernels read it, in vectors of `width`.
fn rows_of<N: Size>(tensor: &CubeTensor, width: usize) -> HeadRowsLaunch<'static, N> {
    HeadRowsLaunch::new(strided(tensor), head_strides(tensor, width))
}

/// packed -> q, k, v; q and k turned.
pub(in crate::ops::rotary) fn split(packed: CubeTensor, tables: Tables, split: Split) -> Qkv {
    let packed = rows(packed);
    let [q, k, v] = split.shapes().map(|shape| empty(&packed, shape));
    let launch = split.launch(tables, strides(&packed));
    let Launch { width, count, .. } = launch;
    if count == 0 {
        return Qkv { q, k, v };
    }
    let (cubes, dim, address) = grid(count, &[&packed, &q, &k, &launch.q.cos, &launch.k.cos]);
    let lies = packed.meta.strides();
    let lies = StridesLaunch::new(lies[0] / width, split.heads.head_dim / width, lies[1] / width);
    // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
    unsafe {
        launch!(
            split_kernel,
            &q.client,
            cubes,
            dim,
            address,
            width,
            HeadRowsLaunch::new(strided(&packed), lies),
            launch.q.turns(width),
            launch.k.turns(width),
            linear(&q),
            linear(&k),
            linear(&v),
            split.length,
            count,
            launch.parts,
        );
    }
    Qkv { q, k, v }
}

/// The gradients of q, k, v -> that of packed; those of q and k turned back.
pub(in crate::ops::rotary) fn merge(gradients: Qkv, tables: Tables, split: Split) -> CubeTensor {
    let [q, k, v] = [gradients.q, gradients.k, gradients.v].map(rows);
    let packed = empty(&q, split.packed());
    let launch = split.launch(tables, [&q, &k, &v].into_iter().flat_map(strides));
    let Launch { width, count, .. } = launch;
    if count == 0 {
        return packed;
    }
    let (cubes, dim, address) = grid(count, &[&packed, &q, &k, &v, &launch.q.cos, &launch.k.cos]);
    // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
    unsafe {
        launch!(
            merge_kernel,
            &packed.client,
            cubes,
            dim,
            address,
            width,
            rows_of(&q, width),
            rows_of(&k, width),
            rows_of(&v, width),
            launch.q.turns(width),
            launch.k.turns(width),
            linear(&packed),
            split.length,
            count,
            launch.parts,
        );
    }
    packed
}

/// x `[batch, heads, length, head_dim]`, turned, or turned back.
pub(in crate::ops::rotary) fn rotate(
    x: CubeTensor,
    cos: CubeTensor,
    sin: CubeTensor,
    layout: Layout,
    back: bool,
) -> CubeTensor {
    let x = rows(x);
    let shape: [usize; 4] = std::array::from_fn(|axis| x.meta.shape()[axis]);
    let [_, heads, length, head_dim] = shape;
    let table = Table::new(cos, sin, true);
    let output = empty(&x, shape);
    let width = width(&x.client, strides(&x).chain([head_dim, table.half]));
    let part = PackedPart {
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
    // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
    unsafe {
        launch!(
            rotate_kernel,
            &x.client,
            cubes,
            dim,
            address,
            width,
            rows_of(&x, width),
            table.turns(width),
            linear(&output),
            length,
            count,
            part,
            back,
        );
    }
    output
}
