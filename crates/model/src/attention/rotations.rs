//! The rotation tables that the layers of a pass share.

use burn::tensor::Device;
use longwave_kernels::RotationTable;
use longwave_position::Positions;
use longwave_position::encoding::PositionMap;
use longwave_position::frequency::{Rotation, Side};

/// The rotation tables of one pass: layers that rotate alike share one.
#[derive(Debug, Default)]
pub struct Rotations {
    made: Vec<(Asked, RotationTable)>,
}

/// What decides a table.
#[derive(Debug, PartialEq)]
struct Asked {
    rotation: Rotation,
    side: Side,
    map: PositionMap,
    positions: Positions,
}

impl Rotations {
    /// The tables of q and k, each at its mapped positions; each made once a pass.
    pub fn tables(
        &mut self,
        rotation: Rotation,
        maps: (PositionMap, PositionMap),
        query_positions: &Positions,
        key_positions: &Positions,
        device: &Device,
    ) -> [RotationTable; 2] {
        let rotation = rotation.centred(key_positions);
        // Without scales q and k rotate alike.
        let key_side = if rotation.decay.is_some() { Side::Key } else { Side::Query };
        let mut table = |side, map, positions: &Positions| {
            self.table(Asked { rotation: rotation.clone(), side, map, positions: positions.clone() }, device)
        };
        [table(Side::Query, maps.0, query_positions), table(key_side, maps.1, key_positions)]
    }

    fn table(&mut self, asked: Asked, device: &Device) -> RotationTable {
        if let Some((_, table)) = self.made.iter().find(|(made, _)| *made == asked) {
            return table.clone();
        }
        let Asked { rotation, side, map, positions } = &asked;
        let table = match map {
            PositionMap::Identity => rotation.table(positions, *side, device),
            map => rotation.table(&positions.map(|position| map.at(position)), *side, device),
        };
        self.made.push((asked, table.clone()));
        table
    }
}
