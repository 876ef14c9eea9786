//! Where a model attends, as a table for the terminal.

use super::{Attention, AttentionByDistance, NEAREST, Profile};
use std::fmt::Write as _;

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
    /// What the numbers come from.
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
        let mut text = format!(
            "attention by distance: mean over the queries in the second half of {}\n{:>5}  {:>4}  {:>13}  {:>11}  {:>8}  \
             {:>8}  {:>8}",
            self.measured_on(),
            "layer",
            "head",
            "mean distance",
            "first token",
            format!("last {NEAREST}"),
            "within L",
            "beyond L",
        );
        text.push_str(if of_none { "  to no key\n" } else { "\n" });
        let mut line = |layer: usize, head: &str, profile: &Profile| {
            // Writing into a string cannot fail.
            let _ = write!(
                text,
                "{layer:>5}  {head:>4}  {:>13.1}  {:>11.4}  {:>8.4}  {:>8.4}  {:>8.4}",
                profile.mean_distance,
                profile.first_token,
                profile.nearest,
                profile.within_train_length,
                profile.beyond_train_length,
            );
            if of_none {
                let _ = write!(text, "  {:>9.4}", profile.to_no_key);
            }
            text.push('\n');
        };
        for layer in &self.layers {
            line(layer.index, "all", &layer.mean);
            for (index, head) in layer.heads.iter().enumerate() {
                line(layer.index, &index.to_string(), head);
            }
        }
        text
    }
}

/// A number of things.
fn counted(number: usize, unit: &str) -> String {
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}
