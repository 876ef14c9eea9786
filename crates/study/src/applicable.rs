//! The part of a study's evaluations that applies to a run: what does not is left out of it.

use crate::axis::label_of;
use crate::document::{Names, Study};
use longwave_core::{Error, Result};
use longwave_eval::sweep::ExtendEntry;
use longwave_eval::{EvaluateConfig, Evaluation, Obstacle};
use longwave_experiment::Config;
use longwave_position::Tokens;
use std::collections::{BTreeMap, HashMap};
use toml::Value;

/// An entry of `extend` that a run is not read with, at some lengths or at all.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    pub block: usize,
    pub entry: usize,
    pub extend: String,
    /// The lengths at which it is left out, in tokens.
    pub lengths: Vec<usize>,
    /// The indices of these lengths in the block.
    places: Vec<usize>,
    /// Why, for the first of them.
    pub error: Error,
}

impl LeftOut {
    /// What is left out and why, in one sentence.
    pub fn in_words(&self) -> String {
        let lengths: Vec<String> = self.lengths.iter().map(ToString::to_string).collect();
        format!("no `{}` at {} tokens: {}", self.extend, lengths.join(", "), self.error.message())
    }
}

/// Obstacles of configs by what they depend on: seeds and learning rates are not among it.
#[derive(Debug, Default)]
pub(crate) struct Applicability(HashMap<String, Result<Option<Vec<Vec<Obstacle>>>>>);

impl Applicability {
    /// Removes from a config what does not apply to its model, and gives what was removed. `places` are the indices of
    /// its blocks in the study.
    pub(crate) fn reduce(&mut self, config: &mut Config, places: &[usize]) -> Result<Vec<LeftOut>> {
        let run = &config.run;
        let key = format!(
            "{:?} {:?} {} {:?} {:?}",
            run.position,
            run.model,
            run.train.length,
            run.stages,
            config.evaluate()
        );
        let known = self.0.entry(key).or_insert_with(|| longwave_experiment::obstacles(config));
        let Some(obstacles) = known.clone()? else { return Ok(Vec::new()) };
        if obstacles.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let mut left_out = Vec::new();
        let mut blocks = Vec::new();
        for (index, (block, obstacles)) in config.evaluate().iter().zip(&obstacles).enumerate() {
            let section = format!("evaluate[{index}]");
            let place = places.get(index).copied().unwrap_or(index);
            let all = &config.evaluations()[index].block.lengths;
            let mut leave_out = |entry: usize, lengths: Vec<usize>, error: Error| {
                let at = |length: &usize| all.iter().position(|other| other == length);
                let (extend, places) =
                    (label_of(&block.extend[entry]), lengths.iter().filter_map(at).collect());
                left_out.push(LeftOut { block: place, entry, extend, places, lengths, error });
            };
            for entry in 0..block.extend.len() {
                let mut mine = obstacles.iter().filter(|obstacle| obstacle.entry == entry).peekable();
                let Some(error) = mine.peek().map(|first| first.error.clone()) else { continue };
                leave_out(entry, mine.map(|obstacle| obstacle.length).collect(), error);
            }
            for part in parts(block, obstacles, &section, config.run.train.length)? {
                // Some lengths alone may be nothing that the protocol can read.
                let Err(error) = Evaluation::new(&part, &section, config.run.train.length) else {
                    blocks.push(part);
                    continue;
                };
                let lengths = all.iter().filter(|length| part.lengths.contains(&Tokens::Count(**length)));
                let lengths: Vec<usize> = lengths.copied().collect();
                for entry in
                    (0..block.extend.len()).filter(|entry| part.extend.contains(&block.extend[*entry]))
                {
                    leave_out(entry, lengths.clone(), error.clone());
                }
            }
        }
        config.set_evaluate(blocks)?;
        Ok(left_out)
    }
}

/// Runs that an evaluation is for, gathered by what its `only` names: all of them where it names nothing.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<(usize, Vec<String>), Vec<Vec<LeftOut>>>);

impl Groups {
    /// Adds a run that is read with the blocks of these `places`, and what of them is left out.
    pub(crate) fn add(&mut self, study: &Study, names: &Names<'_>, places: &[usize], left_out: &[LeftOut]) {
        for &place in places {
            let only = study.evaluations[place].only.keys();
            let group = only.map(|name| names.get(name).unwrap_or_default().to_owned()).collect();
            let mine = left_out.iter().filter(|it| it.block == place).cloned().collect();
            self.0.entry((place, group)).or_default().push(mine);
        }
    }

    /// The blocks whose `only` is for no run at all, of a study all of whose runs are allowed.
    pub(crate) fn unread(&self, study: &Study) -> Vec<Error> {
        let is_read = |place: usize| self.0.keys().any(|(block, _)| *block == place);
        let unread = (0..study.evaluations.len()).filter(|place| !is_read(*place));
        let of = |place: usize| {
            let only = study.evaluations[place].only.iter();
            let only: Vec<String> =
                only.map(|(name, labels)| format!("{name} = [{}]", labels.join(", "))).collect();
            Error::value(
                &format!("evaluate[{place}].only"),
                format!("{{ {} }}", only.join(", ")),
                "no run of the study has such labels together",
            )
            .hint("`cargo longwave study FILE --dry-run` without the block lists the runs and their labels")
        };
        unread.map(of).collect()
    }

    /// Why the study is not allowed: what applies to no run of a group.
    pub(crate) fn refused(&self, study: &Study) -> Vec<Error> {
        let mut errors = Vec::new();
        for ((block, group), runs) in &self.0 {
            for one in runs.first().into_iter().flatten() {
                let lacks = |run: &Vec<LeftOut>, place| {
                    run.iter().any(|it| it.entry == one.entry && it.places.contains(place))
                };
                let nowhere = one.places.iter().position(|place| runs.iter().all(|run| lacks(run, place)));
                let Some(length) = nowhere.map(|index| one.lengths[index]) else { continue };
                let only = study.evaluations[*block].only.keys().zip(group);
                let only: Vec<String> = only.map(|(name, label)| format!("`{name} = {label}`")).collect();
                let of = if only.is_empty() {
                    "no run of the study".to_owned()
                } else {
                    format!("no run with {}, which `only` names,", only.join(" and "))
                };
                let key = format!("evaluate[{block}].extend[{}]", one.entry);
                let why = format!("it applies to {of} at {length} tokens: {}", one.error.message());
                let hint = one.error.hint_text().unwrap_or("remove it, or name the runs it is for in `only`");
                errors.push(Error::value(&key, &one.extend, why).hint(hint));
            }
        }
        errors
    }
}

/// A block without what does not apply: one block for each run of lengths that allow the same entries, with the windows
/// of the whole block. What the validation split decides is decided by all lengths together, so it stays whole, in a block beside them.
fn parts(
    block: &EvaluateConfig,
    obstacles: &[Obstacle],
    section: &str,
    train_length: usize,
) -> Result<Vec<EvaluateConfig>> {
    if obstacles.is_empty() {
        return Ok(vec![block.clone()]);
    }
    let whole = block.validate(section, train_length)?;
    let mut keys = block.keys.clone();
    for key in longwave_eval::protocols::keys() {
        if let Some(value) = whole.keys.get(key.name) {
            keys.set(key, Tokens::Count(value));
        }
    }
    let part = |length: usize, extend: Vec<Value>| EvaluateConfig {
        lengths: vec![Tokens::Count(length)],
        extend,
        keys: keys.clone(),
        ..block.clone()
    };
    let applies =
        |entry: usize, length: usize| !obstacles.iter().any(|it| (it.entry, it.length) == (entry, length));
    let mut fixed: Vec<(usize, &Value)> = Vec::new();
    let mut parts: Vec<EvaluateConfig> = Vec::new();
    for (entry, value) in block.extend.iter().enumerate() {
        if matches!(
            ExtendEntry::from_value(value, &format!("{section}.extend[{entry}]"))?,
            ExtendEntry::Fixed(_)
        ) {
            fixed.push((entry, value));
            continue;
        }
        let lengths = whole.lengths.iter().filter(|length| applies(entry, **length));
        let lengths: Vec<Tokens> = lengths.map(|length| Tokens::Count(*length)).collect();
        match parts.iter_mut().find(|part| part.lengths == lengths) {
            Some(part) => part.extend.push(value.clone()),
            None if lengths.is_empty() => {}
            None => parts.push(EvaluateConfig { lengths, ..part(0, vec![value.clone()]) }),
        }
    }
    let chosen = parts.len();
    for &length in &whole.lengths {
        let extend: Vec<Value> = fixed
            .iter()
            .filter(|(entry, _)| applies(*entry, length))
            .map(|(_, value)| (*value).clone())
            .collect();
        if extend.is_empty() {
            continue;
        }
        match parts[chosen..].iter_mut().find(|part| part.extend == extend) {
            Some(part) => part.lengths.push(Tokens::Count(length)),
            None => parts.push(part(length, extend)),
        }
    }
    let is_read = |part: &EvaluateConfig| Evaluation::new(part, section, train_length).is_ok();
    for part in parts.iter_mut().filter(|part| part.against.is_some() && !is_read(part)) {
        // The reading to compare with is read again beside what is chosen. Where it does not apply, the window baseline takes its place.
        let with = |(_, value): &(usize, &Value)| {
            let extend = [vec![(*value).clone()], part.extend.clone()].concat();
            EvaluateConfig { extend, ..part.clone() }
        };
        let everywhere = |(entry, _): &&(usize, &Value)| {
            whole
                .lengths
                .iter()
                .all(|length| !part.lengths.contains(&Tokens::Count(*length)) || applies(*entry, *length))
        };
        let compared = fixed.iter().filter(everywhere).map(with).find(is_read);
        *part = compared.unwrap_or(EvaluateConfig { against: None, ..part.clone() });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::plan;

    const LENGTHS: &str = "[[axis]]\nkey = \"train.length\"\nvalues = [64, 128]\n";

    /// The lengths of a block, and the kinds that it reads.
    type Block = (Vec<usize>, Vec<String>);

    /// The blocks of the first run, and what is left out of it.
    fn first(text: &str) -> (Vec<Block>, Vec<String>) {
        let plan = plan(text);
        let run = &plan.runs[0];
        let blocks = run.job.as_ref().unwrap().config.evaluations().iter().map(|it| {
            let kind = |value: &toml::Value| value.get("kind").unwrap_or(value).as_str().unwrap().to_owned();
            (it.block.lengths.clone(), it.block.extend.iter().map(kind).collect())
        });
        (blocks.collect(), run.left_out.iter().map(super::LeftOut::in_words).collect())
    }

    /// `self_extend` with groups of 4 reaches no 256 tokens from L = 64.
    #[test]
    fn a_choice_is_made_by_all_lengths_whatever_stands_beside_it() {
        let study = format!(
            "{LENGTHS}[[evaluate]]\nlengths = [128, 256]\ntarget = 64\nagainst = \"ntk\"\nextend = [\"ntk\", {{ kind = \"linear\", \
             scale = [2.0, 4.0] }}, {{ kind = \"self_extend\", group = 4 }}, {{ kind = \"longrope\", search = {{}} }}]"
        );
        let (blocks, left_out) = first(&study);
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            blocks,
            [
                // With what it is compared with.
                (vec![128, 256], named(&["ntk", "linear", "longrope"])),
                (vec![128], named(&["ntk", "self_extend"])),
                (vec![256], named(&["ntk"])),
            ]
        );
        assert!(left_out[0].starts_with("no `self_extend group=4` at 256 tokens: "), "{left_out:?}");
        // A search is for texts longer than L: a block that is cut at L alone would have none.
        let study = study.replace("[128, 256]", "[64, 256]").replace("against = \"ntk\"\n", "");
        assert_eq!(first(&study).0[0], (vec![64, 256], named(&["linear", "longrope"])));
    }

    /// A text that repeats a passage says nothing up to L, where the passage has no copy.
    #[test]
    fn lengths_that_say_nothing_by_themselves_are_left_out() {
        let study = "[[axis]]\nkey = \"position\"\nvalues = [\"learned\", \"rope\"]\n[set]\ntrain.length = 64\n\
                     [[evaluate]]\nlengths = [\"L\", \"2L\"]\n[[evaluate]]\nlengths = [\"L\", \"3L\"]\nprotocol = \"repeated_text\"";
        let (blocks, left_out) = first(study);
        assert_eq!(blocks.iter().map(|block| &block.0).collect::<Vec<_>>(), [&[64]]);
        assert_eq!(left_out.len(), 3, "{left_out:?}");
        assert!(
            left_out[2].starts_with("no `direct` at 64 tokens: ")
                && left_out[2].contains("no length reaches back"),
            "{left_out:?}"
        );
    }
}
