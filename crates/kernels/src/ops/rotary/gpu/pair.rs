//! The rotation of two vectors whose numbers are partners.

use crate::ops::rotary::Layout;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Two vectors: the partners are their numbers of one index (half), or two neighbours (interleaved).
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Pair<N: Size> {
    pub(super) first: Vector<f32, N>,
    pub(super) second: Vector<f32, N>,
}

/// Partners (a, b) become `(a cos - b sin, a sin + b cos)` (Su et al. 2021); with `-sin` they are turned back.
#[cube]
pub(super) fn turned<N: Size>(
    pair: Pair<N>,
    cos: Vector<f32, N>,
    sin: Vector<f32, N>,
    #[comptime] layout: Layout,
) -> Pair<N> {
    let (a, b) = (pair.first, pair.second);
    if comptime!(layout == Layout::Interleaved) {
        let mut one = Vector::<f32, N>::empty();
        let mut two = Vector::<f32, N>::empty();
        let size = N::value();
        #[unroll]
        for index in 0..size {
            let even = comptime!(2 * index);
            let odd = comptime!(2 * index + 1);
            let x = number::<N>(a, b, even);
            let y = number::<N>(a, b, odd);
            let c = cos.extract(index);
            let s = sin.extract(index);
            put::<N>(&mut one, &mut two, even, x * c - y * s);
            put::<N>(&mut one, &mut two, odd, x * s + y * c);
        }
        Pair::<N> { first: one, second: two }
    } else {
        Pair::<N> { first: a * cos - b * sin, second: a * sin + b * cos }
    }
}

/// Number `index` of a, then b.
#[cube]
fn number<N: Size>(a: Vector<f32, N>, b: Vector<f32, N>, #[comptime] index: usize) -> f32 {
    let size = N::value();
    if comptime!(index < size) { a.extract(index) } else { b.extract(comptime!(index - size)) }
}

/// Sets number `index` of one, then two.
#[cube]
fn put<N: Size>(one: &mut Vector<f32, N>, two: &mut Vector<f32, N>, #[comptime] index: usize, value: f32) {
    let size = N::value();
    if comptime!(index < size) {
        one.insert(index, value);
    } else {
        two.insert(comptime!(index - size), value);
    }
}
