//! Charts for `TensorBoard`: a curve for each series, whose step is the place on the horizontal axis, such as the length.

use crate::plot::Chart;
use longwave_core::Result;
use longwave_core::event_file::{NAME, header, now, scalars};
use longwave_core::file::existing_folder;
use std::path::Path;

/// Writes charts as an event file into `tensorboard/CURVES` of a folder. Curves are called `CHART/SERIES`.
pub(crate) fn write<'a>(
    folder: &Path,
    curves: &str,
    charts: impl IntoIterator<Item = (&'a str, &'a Chart)>,
) -> Result<()> {
    let mut bytes = header();
    let (empty, time) = (bytes.len(), now());
    for (name, chart) in charts {
        for series in &chart.series {
            let tag = format!("{name}/{}", series.name);
            for point in series.points.iter().filter(|point| point.y.is_finite() && point.x >= 0.0) {
                bytes.extend(scalars(point.x.round() as u64, time, [(tag.as_str(), point.y)]));
            }
        }
    }
    if bytes.len() == empty {
        return Ok(());
    }
    let below = folder.join("tensorboard").join(curves);
    existing_folder::make_below(folder, &below)?;
    existing_folder::write(&below.join(format!("{NAME}.0.charts")), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Point, Role, Series};

    #[test]
    fn every_finite_point_is_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let point = |x, y| Point { x, y, bar: None };
        let series = |points| Series { name: "rope, yarn".into(), points, style: 0, role: Role::Method };
        let chart = |points| Chart { series: vec![series(points)], ..Chart::default() };
        let some = chart(vec![point(128.0, 13.0), point(256.0, f64::NAN), point(512.0, 14.5)]);
        write(folder.path(), "by_length", [("perplexity", &some)]).unwrap();
        let path = folder.path().join("tensorboard/by_length/events.out.tfevents.0.charts");
        let bytes = std::fs::read(path).unwrap();
        let tag = b"perplexity/rope, yarn";
        assert_eq!(bytes.windows(tag.len()).filter(|part| part == tag).count(), 2);
        assert!(bytes.windows(4).any(|part| part == 14.5f32.to_le_bytes()));
        write(folder.path(), "training", [("loss", &chart(Vec::new()))]).unwrap();
        assert!(!folder.path().join("tensorboard/training").exists());
    }
}
