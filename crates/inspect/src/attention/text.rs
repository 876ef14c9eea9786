//! Where a model attends, as a table for the terminal.

use super::{Attention, AttentionByDistance, NEAREST, Profile};
use longwave_report::grid::{Grid, Header};

/// A share below this one shows as 0.
const SHOWN: f64 = 5e-5;

impl Attention {
    /// A row a layer and a head, or why there is none.
    pub fn text(&self) -> String {
        match self {
            Self::ByDistance(measured) => measured.text(),
            Self::None { why_not } => format!("attention by distance: not measured, because {why_not}\n"),
        }
    }
}

impl AttentionByDistance {
    pub fn measured_on(&self) -> String {
        let [shortest, longest] = self.tokens;
        let up_to = if shortest < longest { "up to " } else { "" };
        format!(
            "{} of {up_to}{longest} tokens, from {} of the split `{}`",
            counted(self.windows, "window"),
            counted(self.documents, self.unit),
            self.split
        )
    }

    fn text(&self) -> String {
        let of_none = self
            .layers
            .iter()
            .flat_map(|layer| layer.heads.iter().chain([&layer.mean]))
            .any(|head| head.to_no_key >= SHOWN);
        let last = format!("last {NEAREST}");
        let names = ["layer", "head", "mean distance", "first token", &last, "within L", "beyond L"];
        let names = names.into_iter().chain(of_none.then_some("to no key"));
        let row = |layer: usize, head: String, of: &Profile| {
            let shares = [of.first_token, of.nearest, of.within_train_length, of.beyond_train_length];
            let shares = shares.into_iter().chain(of_none.then_some(of.to_no_key));
            let first = [layer.to_string(), head, format!("{:.1}", of.mean_distance)];
            first.into_iter().chain(shares.map(|share| format!("{share:.4}"))).collect::<Vec<_>>()
        };
        let rows = self.layers.iter().flat_map(|layer| {
            let heads = layer.heads.iter().enumerate();
            let heads = heads.map(|(head, of)| row(layer.index, head.to_string(), of));
            std::iter::once(row(layer.index, "all".to_owned(), &layer.mean)).chain(heads)
        });
        format!(
            "attention by distance: mean over the queries in the second half of {}\n{}",
            self.measured_on(),
            Grid::of(names.map(|name| Header::number(name).at_least(if name == last { 8 } else { 0 })), rows)
                .lines()
        )
    }
}

fn counted(number: usize, unit: &str) -> String {
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}
