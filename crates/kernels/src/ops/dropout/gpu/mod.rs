//! Dropout on the GPU: one launch in each direction.
//!
//! A unit computes one block of the generator, 16 words, and takes 16 numbers. The generator is `ChaCha8` (Bernstein 2008)
//! with a counter of 64 bits from 0, as `longwave_core::random` has it on the host.

// Kernels take their words one by one; what the macros make of them is theirs.
#![allow(clippy::many_single_char_names, clippy::pedantic)]

#[cfg(test)]
mod tests;

use super::Share;
use crate::machine::gpu::{empty_like, grid, launch};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use longwave_core::random::StreamKey;

/// Words of a block, and numbers of a unit.
const BLOCK: usize = 16;

/// "expand 32-byte k", in words.
const CONSTANTS: [i64; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The words of a key.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Key {
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    f: u32,
    g: u32,
    h: u32,
}

#[cube]
fn turned(x: u32, #[comptime] left: u32) -> u32 {
    (x << left) | (x >> comptime!(32 - left))
}

/// A quarter round on the words a, b, c and d.
#[cube]
fn quarter(
    s: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    s[a] += s[b];
    s[d] = turned(s[d] ^ s[a], 16u32);
    s[c] += s[d];
    s[b] = turned(s[b] ^ s[c], 12u32);
    s[a] += s[b];
    s[d] = turned(s[d] ^ s[a], 8u32);
    s[c] += s[d];
    s[b] = turned(s[b] ^ s[c], 7u32);
}

/// The state before the rounds.
#[cube]
fn initial(key: Key, counter: u32) -> Array<u32> {
    let mut s = Array::<u32>::new(BLOCK);
    s[0] = u32::new(CONSTANTS[0]);
    s[1] = u32::new(CONSTANTS[1]);
    s[2] = u32::new(CONSTANTS[2]);
    s[3] = u32::new(CONSTANTS[3]);
    s[4] = key.a;
    s[5] = key.b;
    s[6] = key.c;
    s[7] = key.d;
    s[8] = key.e;
    s[9] = key.f;
    s[10] = key.g;
    s[11] = key.h;
    s[12] = counter;
    // A tensor has fewer than 2^36 numbers.
    s[13] = u32::new(0);
    s[14] = u32::new(0);
    s[15] = u32::new(0);
    s
}

/// x where the words of the stream keep it, times `keep`, and 0 elsewhere.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn dropout_kernel(
    x: &[f32],
    y: &mut [f32],
    key: Key,
    threshold: u32,
    keep: f32,
    count: usize,
    blocks: usize,
) {
    if ABSOLUTE_POS >= blocks {
        terminate!();
    }
    let start = initial(key, ABSOLUTE_POS as u32);
    let mut s = initial(key, ABSOLUTE_POS as u32);
    for _ in 0..4 {
        quarter(&mut s, 0usize, 4usize, 8usize, 12usize);
        quarter(&mut s, 1usize, 5usize, 9usize, 13usize);
        quarter(&mut s, 2usize, 6usize, 10usize, 14usize);
        quarter(&mut s, 3usize, 7usize, 11usize, 15usize);
        quarter(&mut s, 0usize, 5usize, 10usize, 15usize);
        quarter(&mut s, 1usize, 6usize, 11usize, 12usize);
        quarter(&mut s, 2usize, 7usize, 8usize, 13usize);
        quarter(&mut s, 3usize, 4usize, 9usize, 14usize);
    }
    #[unroll]
    for word in 0..BLOCK {
        let at = ABSOLUTE_POS * BLOCK + word;
        if at < count {
            y[at] = select(s[word] + start[word] < threshold, 0.0, x[at] * keep);
        }
    }
}

/// x of any shape -> the same shape.
pub(super) fn dropped(x: CubeTensor, share: Share, key: StreamKey) -> CubeTensor {
    let x = into_contiguous(x);
    let y = empty_like(&x);
    let count = x.meta.num_elements();
    let blocks = count.div_ceil(BLOCK);
    let [a, b, c, d, e, f, g, h] = key.words();
    let key = KeyLaunch::new(a, b, c, d, e, f, g, h);
    let Share { threshold, keep } = share;
    // SAFETY: units past the last block are idle, and the others stay below the count.
    unsafe {
        launch!(dropout_kernel, grid(blocks, &[&x]), [], [x, y], key, threshold, keep, count, blocks);
    }
    y
}
