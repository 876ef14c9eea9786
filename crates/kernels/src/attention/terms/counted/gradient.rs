//! The gradients of gates, counts and counted vectors.

use super::Vectors;
use super::rows::{Around, Counts, TABLES, around, columns, gate_scale};
use crate::attention::block::Tile;
use crate::attention::terms::Room;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{LANES, sum, vectorised};

/// Adds to the gradient of a block's scaled q·k, which holds that of its logits without the rows' factors, what comes
/// through the gates. Then [`Counts::gradient`] holds that of the products of queries and vectors.
pub(super) fn through_counts(vectors: &Vectors, tile: Tile<'_>, room: &mut Room, gradient: &mut [f32]) {
    let stride = vectors.stride;
    let Counts { table, gradient: of_table, tables, gates, sums, counted } = Counts::of(room, vectors, tile);
    for row in 0..tile.block.rows {
        let columns = columns(tile, row);
        let at = row * tile.block.stride;
        let row_counted = counted[row].clone();
        let counted = at + row_counted.start..at + row_counted.end;
        let of_table = &mut of_table[row * stride..][..stride];
        through_row(
            &table[row * stride..][..stride],
            gate_scale(tile, vectors, row),
            &mut gradient[counted.clone()],
            &gates[counted.clone()],
            &sums[counted],
            tables,
        );
        add_up(tables, of_table);
        of_table[vectors.last()] += total(&gradient[at + columns.start..at + row_counted.start]);
    }
}

/// The gradients of the block's queries, to which it adds, and of the vectors, from that of their products.
pub(super) fn through_products(
    vectors: &Vectors,
    tile: Tile<'_>,
    room: &mut Room,
    queries: &mut [f32],
    part: &mut [f32],
) {
    let (positions, width) = (vectors.positions, vectors.width);
    let counts = Counts::of(room, vectors, tile);
    let table = Matrix::new(counts.gradient, tile.block.rows, positions, vectors.stride);
    matmul(queries, width, true, 1.0, table, vectors.rows());
    matmul(part, width, true, 1.0, table.transposed(), tile.queries());
}

vectorised! {
    /// One row: adds to the gradient of the scores what comes through their gates, and fills the gradient of the table,
    /// in parts. The first of the keys is the first that was counted.
    fn through_row(
        table: &[f32],
        gate_scale: f32,
        gradient: &mut [f32],
        gates: &[f32],
        counts: &[f32],
        tables: &mut [f32],
    ) {
        tables.fill(0.0);
        let stride = table.len();
        // The gradient of a gate is the sum of those of the counts that it is part of: its own and those of all keys before.
        let mut carried = 0.0;
        for start in (0..gradient.len()).step_by(LANES) {
            let end = gradient.len().min(start + LANES);
            let len = end - start;
            // Lanes without a key have the gradient 0.
            let (mut d, mut gate, mut count) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            d[..len].copy_from_slice(&gradient[start..end]);
            gate[..len].copy_from_slice(&gates[start..end]);
            count[..len].copy_from_slice(&counts[start..end]);
            let Around { low, below, above, share } = around(table, &count);
            let mut of_counts = [0.0; LANES];
            let mut upper = [0.0; LANES];
            for lane in 0..LANES {
                upper[lane] = d[lane] * share[lane];
                // Both sides of a whole count are the same vector, also at the limit.
                let slope = if share[lane] == 0.0 { 0.0 } else { above[lane] - below[lane] };
                of_counts[lane] = d[lane] * slope;
            }
            for lane in 0..LANES {
                let at = lane % TABLES * stride + low[lane].cast_unsigned() as usize;
                tables[at] += d[lane] - upper[lane];
                tables[at + 1] += upper[lane];
            }
            for shift in [1, 2, 4, 8] {
                let before = of_counts;
                for lane in shift..LANES {
                    of_counts[lane] = before[lane] + before[lane - shift];
                }
            }
            for lane in 0..LANES {
                let of_gate = carried + of_counts[lane];
                d[lane] += of_gate * (gate[lane] * (1.0 - gate[lane]) * gate_scale);
            }
            carried += of_counts[LANES - 1];
            gradient[start..end].copy_from_slice(&d[..len]);
        }
    }

    /// The sum of all tables.
    fn add_up(tables: &[f32], out: &mut [f32]) {
        let stride = out.len();
        for (n, x) in out.iter_mut().enumerate() {
            *x = (tables[n] + tables[stride + n]) + (tables[2 * stride + n] + tables[3 * stride + n]);
        }
    }

    fn total(x: &[f32]) -> f32 {
        sum(x)
    }
}
