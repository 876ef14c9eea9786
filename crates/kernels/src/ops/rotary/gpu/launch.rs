//! The launches of the kernels.

use super::{HeadRowsLaunch, Packed, PackedPart, TurnsLaunch, merge_kernel, rotate_kernel, split_kernel};
use crate::machine::autodiff::{OpTensor, Primitive};
use crate::machine::gpu::{
    StridesLaunch, empty, grid, head_strides, launch, linear, rows, strided, strides, width,
};
use crate::ops::rotary::{Heads, Layout, RotationTable};
use burn::backend::Cube;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use cubecl::prelude::*;

/// A table as the kernels read it.
#[derive(Clone)]
pub(in crate::ops::rotary) struct Table {
    cos: Primitive,
    sin: Primitive,
    /// `None` where other tensors stand in the place of a table, which nothing reads.
    layout: Option<Layout>,
}

impl Table {
    pub(in crate::ops::rotary) fn new(table: &RotationTable) -> Self {
        let [cos, sin] =
            table.constants().map(|tensor| into_contiguous(OpTensor::<Cube>::of_any(tensor).into_data()));
        Self { cos, sin, layout: Some(table.layout) }
    }

    /// The pairs of a row.
    fn half(&self) -> usize {
        self.cos.meta.shape()[2]
    }

    /// In vectors of `width`.
    fn turns<N: Size>(&self, width: usize) -> TurnsLaunch<'static, N> {
        let [rows, length, half] = self.cos.meta.shape().dims();
        let per_batch = if rows == 1 { 0 } else { length * half };
        let argument = if self.layout.is_some() { linear } else { strided };
        let [cos, sin] = [&self.cos, &self.sin].map(argument);
        TurnsLaunch::new(cos, sin, per_batch / width)
    }
}

/// A split of packed rows: its sizes, and the tables of q and k.
#[derive(Clone)]
pub(in crate::ops::rotary) struct Split {
    batch: usize,
    length: usize,
    heads: Heads,
    tables: [Table; 2],
}

/// What the launches of the split and of the merge have in common.
struct Launch {
    /// Numbers of a vector.
    width: usize,
    parts: Packed,
    /// Units.
    count: usize,
}

impl Split {
    /// In the place of a table that turns nothing stands the other one, or the packed rows.
    pub(in crate::ops::rotary) fn new(
        packed: &Primitive,
        heads: Heads,
        tables: [Option<&RotationTable>; 2],
    ) -> Self {
        let [batch, length, _] = packed.meta.shape().dims();
        let tables = tables.map(|table| table.filter(|table| table.rotated() > 0).map(Table::new));
        let stand_in = match tables.iter().flatten().next() {
            Some(other) => Table { layout: None, ..other.clone() },
            None => Table { cos: packed.clone(), sin: packed.clone(), layout: None },
        };
        Self { batch, length, heads, tables: tables.map(|table| table.unwrap_or_else(|| stand_in.clone())) }
    }

    /// `distances` are the strides of what is read by strides; `given` are the parts that have a gradient.
    fn launch(&self, given: [bool; 3], distances: impl Iterator<Item = usize>) -> Launch {
        let Heads { query, key_value, head_dim } = self.heads;
        let halves = self.tables.iter().filter(|table| table.layout.is_some()).map(Table::half);
        let numbers: Vec<usize> = distances.chain(halves).chain([head_dim]).collect();
        let width = width(&self.tables[0].cos.client, numbers.into_iter());
        let part = |index: usize, heads: usize| {
            let table = self.tables.get(index).filter(|table| table.layout.is_some());
            let pairs = table.map_or(head_dim / width / 2, |table| table.half() / width);
            let turned = table.and_then(|table| table.layout);
            PackedPart { heads, head_dim: head_dim / width, pairs, turned, given: given[index] }
        };
        let parts = Packed { q: part(0, query), k: part(1, key_value), v: part(2, key_value) };
        Launch { width, parts, count: self.batch * self.length * parts.heads() * parts.units() }
    }

    /// packed -> q, k, v; q and k turned.
    pub(in crate::ops::rotary) fn forward(&self, packed: Primitive) -> [Primitive; 3] {
        let Heads { query, key_value, head_dim } = self.heads;
        let (packed, [q_table, k_table], length) = (rows(packed), &self.tables, self.length);
        let [q, k, v] =
            [query, key_value, key_value].map(|count| empty(&packed, [self.batch, count, length, head_dim]));
        let Launch { width, parts, count } = self.launch([true; 3], strides(&packed));
        if count == 0 {
            return [q, k, v];
        }
        let grid = grid(count, &[&packed, &q, &k, &q_table.cos, &k_table.cos]);
        let lies = packed.meta.strides();
        let lies = StridesLaunch::new(lies[0] / width, head_dim / width, lies[1] / width);
        let source = HeadRowsLaunch::new(strided(&packed), lies);
        let (q_turns, k_turns) = (q_table.turns(width), k_table.turns(width));
        let [of_q, of_k, of_v] = [&q, &k, &v].map(linear);
        // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
        unsafe {
            launch!(
                split_kernel,
                grid,
                [width],
                [],
                source,
                q_turns,
                k_turns,
                of_q,
                of_k,
                of_v,
                length,
                count,
                parts
            );
        }
        [q, k, v]
    }

    /// The gradients of q, k, v, of which there is at least one -> that of packed; those of q and k turned back.
    pub(in crate::ops::rotary) fn backward(&self, gradients: [Option<Primitive>; 3]) -> Primitive {
        let given = gradients.each_ref().map(Option::is_some);
        // Another gradient stands in the place of those that are not there.
        let any = gradients.iter().flatten().next().expect("at least one output has a gradient").clone();
        let [q, k, v] = gradients.map(|gradient| rows(gradient.unwrap_or_else(|| any.clone())));
        let ([q_table, k_table], length) = (&self.tables, self.length);
        let packed = empty(&q, [self.batch, length, self.heads.packed()]);
        let Launch { width, parts, count } = self.launch(given, [&q, &k, &v].into_iter().flat_map(strides));
        if count == 0 {
            return packed;
        }
        let grid = grid(count, &[&packed, &q, &k, &v, &q_table.cos, &k_table.cos]);
        let (q_turns, k_turns) = (q_table.turns(width), k_table.turns(width));
        let (q, k, v) = (rows_of(&q, width), rows_of(&k, width), rows_of(&v, width));
        let target = linear(&packed);
        // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
        unsafe {
            launch!(merge_kernel, grid, [width], [], q, k, v, q_turns, k_turns, target, length, count, parts);
        }
        packed
    }
}

/// `[batch, heads, length, head_dim]` as the kernels read it, in vectors of `width`.
fn rows_of<N: Size>(tensor: &Primitive, width: usize) -> HeadRowsLaunch<'static, N> {
    HeadRowsLaunch::new(strided(tensor), head_strides(tensor, width))
}

/// x `[batch, heads, length, head_dim]`, turned, or turned back.
pub(in crate::ops::rotary) fn rotate(x: Primitive, table: &Table, back: bool) -> Primitive {
    let x = rows(x);
    let shape @ [batch, heads, length, head_dim] = x.meta.shape().dims();
    let output = empty(&x, shape);
    let width = width(&x.client, strides(&x).chain([head_dim, table.half()]));
    let (head_dim, pairs) = (head_dim / width, table.half() / width);
    let part = PackedPart { heads, head_dim, pairs, turned: table.layout, given: true };
    let count = batch * heads * length * part.units();
    if count == 0 {
        return output;
    }
    let grid = grid(count, &[&x, &output, &table.cos]);
    let (source, turns, target) = (rows_of(&x, width), table.turns(width), linear(&output));
    // SAFETY: the kernel leaves units past `count` idle, and the others stay within the shapes.
    unsafe {
        launch!(rotate_kernel, grid, [width], [], source, turns, target, length, count, part, back);
    }
    output
}
