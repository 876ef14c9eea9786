//! Charts for `TensorBoard`: a curve for each series, whose step is the place on the horizontal axis, such as the length.

use crate::plot::Chart;
use longwave_core::Result;
use longwave_core::event_file::{NAME, header, now, scalars};
use longwave_core::file::{self, existing_folder};
use std::fs;
use std::path::{Path, PathBuf};

/// What charts by length and training losses are written as.
pub(crate) const BY_LENGTH: &str = "by_length";
pub(crate) const TRAINING: &str = "training";

fn below(folder: &Path, curves: &str) -> PathBuf {
    folder.join("tensorboard").join(curves)
}

fn path(folder: &Path, curves: &str) -> PathBuf {
    below(folder, curves).join(format!("{NAME}.0.charts"))
}

/// Removes what [`write`] wrote into a folder.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    for curves in [BY_LENGTH, TRAINING] {
        file::remove(&path(folder, curves))?;
        // A folder with files of others stays.
        let _ = fs::remove_dir(below(folder, curves));
    }
    let _ = fs::remove_dir(folder.join("tensorboard"));
    Ok(())
}

/// Writes charts as an event file into `tensorboard/CURVES` of a folder; without a point none is left there. Curves are called
/// `CHART/SERIES`.
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
        return file::remove(&path(folder, curves));
    }
    existing_folder::make_below(folder, &below(folder, curves))?;
    existing_folder::write(&path(folder, curves), &bytes)
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
        let bytes = fs::read(&path).unwrap();
        let tag = b"perplexity/rope, yarn";
        assert_eq!(bytes.windows(tag.len()).filter(|part| part == tag).count(), 2);
        assert!(bytes.windows(4).any(|part| part == 14.5f32.to_le_bytes()));
        write(folder.path(), "training", [("loss", &chart(Vec::new()))]).unwrap();
        assert!(!folder.path().join("tensorboard/training").exists());
        write(folder.path(), BY_LENGTH, [("perplexity", &chart(Vec::new()))]).unwrap();
        assert!(!path.exists(), "nothing of an earlier report is left");
    }
}
