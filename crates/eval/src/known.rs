//! What is measured already.

use crate::row::ResultRow;
use longwave_core::Result;
use serde_json::Value;
use std::collections::HashMap;

/// Rows by what they measure: those of before, and those of an evaluation so far, by their place. A value that is given and one that is chosen may
/// be equal: their two rows hold one measurement, which is made once.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    before: HashMap<String, Vec<&'a ResultRow>>,
    places: HashMap<String, usize>,
}

impl<'a> Known<'a> {
    pub(crate) fn new(rows: &'a [ResultRow]) -> Result<Self> {
        let mut before: HashMap<String, Vec<&ResultRow>> = HashMap::new();
        for row in rows {
            before.entry(row.measurement()?).or_default().push(row);
        }
        Ok(Self { before, places: HashMap::new() })
    }

    /// The place of a row of the evaluation that holds this measurement.
    pub(crate) fn add(&mut self, measurement: String, place: usize) {
        self.places.entry(measurement).or_insert(place);
    }

    /// A row that holds the measurement, where `rows` are those of the evaluation so far: the one that was chosen among the same where there is one.
    pub(crate) fn find<'r>(
        &self,
        measurement: &str,
        chosen_among: Option<&Value>,
        rows: &'r [ResultRow],
    ) -> Option<&'r ResultRow>
    where
        'a: 'r,
    {
        let alike = self.before.get(measurement).map_or(&[][..], Vec::as_slice);
        let same = alike.iter().find(|row| row.chosen_among.as_ref() == chosen_among);
        let earlier = || self.places.get(measurement).map(|place| &rows[*place]);
        same.or(alike.first()).copied().or_else(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example::row;
    use serde_json::json;

    #[test]
    fn a_measurement_is_found_whatever_it_was_chosen_among() {
        let given = row("linear", 128, 2.0);
        let chosen = ResultRow { chosen_among: Some(json!({ "scale": [1.5, 2.0] })), ..given.clone() };
        let before = [chosen.clone(), given.clone()];
        let known = Known::new(&before).unwrap();
        let measurement = given.measurement().unwrap();
        for one in &before {
            assert_eq!(known.find(&measurement, one.chosen_among.as_ref(), &[]), Some(one));
        }
        let mut known = Known::new(&before[..1]).unwrap();
        assert_eq!(known.find(&measurement, None, &[]), Some(&chosen));
        let now = [row("linear", 256, 3.0)];
        let other = now[0].measurement().unwrap();
        assert_eq!(known.find(&other, None, &now), None);
        known.add(other.clone(), 0);
        assert_eq!(known.find(&other, None, &now), Some(&now[0]));
    }
}
