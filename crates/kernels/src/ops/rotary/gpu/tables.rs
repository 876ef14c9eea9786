//! The tables of a rotation on the GPU.

use super::launch::Tables;
use crate::machine::autodiff::{OpTensor, Primitive};
use crate::ops::rotary::{Layout, RotationTable};
use burn::backend::Cube;

/// cos and sin.
pub(in crate::ops::rotary) fn cos_and_sin(table: &RotationTable) -> [Primitive; 2] {
    table.constants().map(|tensor| OpTensor::<Cube>::of_any(tensor).into_data())
}

/// The tables of q and k, and the layouts of those that turn something. In the place of one that is not there stands the
/// other one, or the packed rows; nothing reads them.
pub(in crate::ops::rotary) fn split_tables(
    packed: &Primitive,
    tables: [Option<&RotationTable>; 2],
) -> (Tables, [Option<Layout>; 2]) {
    let [q, k] = tables.map(|table| table.filter(|table| table.rotated() > 0));
    let stand_in = || [packed.clone(), packed.clone()];
    let [q_cos, q_sin] = q.or(k).map_or_else(stand_in, cos_and_sin);
    let [k_cos, k_sin] = k.or(q).map_or_else(stand_in, cos_and_sin);
    (Tables { q_cos, q_sin, k_cos, k_sin }, [q, k].map(|table| table.map(|table| table.layout)))
}
