//! The configs and studies that the program carries.

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Columns that a purpose may take.
const WIDTH: usize = 110;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// What one run trains.
    Config,
    /// Many configs and seeds.
    Study,
}

impl FileKind {
    /// In messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Study => "study",
        }
    }

    /// Its folder in a checkout.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Config => "configs",
            Self::Study => "experiments",
        }
    }

    /// What to do with one that was taken for the other kind; `name` is quoted for a shell where it needs it.
    pub(crate) fn use_of(self, name: &str) -> String {
        match self {
            Self::Config => format!("`longwave train {name}` trains it; a study names it as `base`"),
            Self::Study => format!("`longwave study {name}` runs it"),
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Config => Self::Study,
            Self::Study => Self::Config,
        }
    }

    /// Name and text of every file of the kind, in the order of names.
    pub(crate) fn shipped(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Config => CONFIGS,
            Self::Study => STUDIES,
        }
    }

    pub(crate) fn text(self, name: &str) -> Option<&'static str> {
        self.shipped().iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

/// What a file is for, on one line: the first sentence of its header, without the sources.
pub(crate) fn purpose(text: &str) -> String {
    let header = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let paragraph: Vec<&str> =
        header.take_while(|line| !line.is_empty() && !line.starts_with("Command ")).collect();
    let paragraph = paragraph.join(" ");
    let ends = paragraph.match_indices(". ").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| paragraph[at + 2..].starts_with(char::is_uppercase));
    let mut sentence = paragraph[..end.unwrap_or(paragraph.len())].trim_end_matches('.').to_owned();
    if let Some(sources) = sentence.find("arXiv").or_else(|| sentence.find("kexue"))
        && let Some(open) = sentence[..sources].rfind(" (")
    {
        sentence.truncate(open);
    }
    if sentence.chars().count() <= WIDTH {
        return sentence;
    }
    let mut short = String::new();
    for word in sentence.split(' ') {
        if short.chars().count() + 1 + word.chars().count() > WIDTH - 3 {
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    short + " .."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_says_what_it_is_for_on_one_line() {
        for kind in [FileKind::Config, FileKind::Study] {
            assert!(!kind.shipped().is_empty());
            for (name, text) in kind.shipped() {
                let purpose = purpose(text);
                let length = purpose.chars().count();
                assert!((20..=WIDTH).contains(&length), "{name}: {purpose}");
                assert!(!purpose.contains("arXiv") && !purpose.contains("Command"), "{name}: {purpose}");
            }
        }
        let rope = FileKind::Config.text("rope.toml").unwrap();
        assert_eq!(
            purpose(rope),
            "Rotary position embedding (RoPE), read past its training length in three ways"
        );
    }
}
