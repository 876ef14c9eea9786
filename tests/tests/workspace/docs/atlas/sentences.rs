//! What a newcomer can rely on, in single sentences: `docs/src/results.md`. Numbers and verdicts come from the committed results.

use super::results::Study;
use super::{GENERATED, Studies};
use std::fmt::Write as _;

/// A sentence. `{encodings|LABEL|READING|8}` is the perplexity of a reading at 8L in the study of encodings, and
/// `{extensions|..}` one in that of extensions.
struct Sentence {
    text: &'static str,
    /// The claims that it rests on, word for word as a study has them.
    claims: &'static [&'static str],
    /// The pages of the atlas about it.
    pages: &'static [&'static str],
}

const SENTENCES: &[Sentence] = &[
    Sentence {
        text: "RoPE breaks past its training length: read as trained, it has a perplexity of {encodings|rope|direct|1} at L, \
               {encodings|rope|direct|2} at 2L and {encodings|rope|direct|8} at 8L.",
        claims: &["none, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "Position interpolation without further training is no help at 2L ({extensions|rope|linear|2}): whether it is worse than no change \
               depends on the seed.",
        claims: &["rope, linear > rope, direct at 2L"],
        pages: &["extensions/linear"],
    },
    Sentence {
        text: "NTK-aware base conversion is better than no change at 2L ({extensions|rope|ntk no log_n|2}) and at 4L \
               ({extensions|rope|ntk no log_n|4}, where no change gives {extensions|rope|direct no log_n|4}).",
        claims: &["rope, ntk < rope, direct at 2L", "rope, ntk < rope, direct at 4L"],
        pages: &["extensions/ntk"],
    },
    Sentence {
        text: "At 8L YaRN is far ahead of NTK: {encodings|rope|yarn|8} and {encodings|rope|ntk|8}.",
        claims: &["rope, yarn < rope, ntk at 8L"],
        pages: &["extensions/yarn"],
    },
    Sentence {
        text: "The two ramps that are called YaRN are two methods at short training lengths: at 8L that of the code reads \
               {extensions|rope|yarn ramp=code no log_n|8}, that of the paper {extensions|rope|yarn ramp=paper no log_n|8}.",
        claims: &["rope, yarn ramp=code < rope, yarn ramp=paper at 8L"],
        pages: &["extensions/yarn"],
    },
    Sentence {
        text: "Su's mixed base conversion is better than his fixed one at 8L.",
        claims: &["rope, su_ntk_mixed < rope, su_ntk_fixed at 8L"],
        pages: &["extensions/su_ntk_mixed"],
    },
    Sentence {
        text: "ReRoPE with a window of L/2 is better than every change of frequencies among the claims: \
               {extensions|rope|rerope window=L/2 no log_n no allow_untrained|8} at 8L.",
        claims: &["rope, rerope window=L/2 < rope, su_ntk_mixed at 8L", "rope, rerope < rope, ntk at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "Its window must stay below L: with a window of L it reads {extensions|rope|rerope window=L no log_n \
               allow_untrained=true|8} at 8L.",
        claims: &["rope, rerope window=L allow_untrained=true > rope, rerope window=L/2 at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "Leaky ReRoPE is better than the mixed base conversion too.",
        claims: &["rope, leaky_rerope < rope, su_ntk_mixed at 8L"],
        pages: &["extensions/leaky_rerope"],
    },
    Sentence {
        text: "Scaling by log n after the fact helps ReRoPE ({extensions|rope|rerope window=L/2 log_n=true no allow_untrained|8} at \
               8L), whose distances stay known.",
        claims: &["rope, rerope window=L/2 log_n=true < rope, rerope window=L/2 at 8L"],
        pages: &["extensions/rerope"],
    },
    Sentence {
        text: "It does not help NTK.",
        claims: &["rope, ntk log_n=true < rope, ntk at 8L"],
        pages: &["extensions/ntk"],
    },
    Sentence {
        text: "Normalised keys make RoPE break later: {extensions|key norm|direct no log_n|8} at 8L, read as trained.",
        claims: &["key norm, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "A layer with windowed RoPE below one without an encoding (HWFA) is nearly flat: {extensions|hwfa|direct no log_n|8} at 8L.",
        claims: &["hwfa, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "HoPE, which drops the bands that never turn within L, breaks later than RoPE: {encodings|hope|direct|8} at 8L.",
        claims: &["hope, direct < rope, direct at 8L"],
        pages: &["encodings/rope"],
    },
    Sentence {
        text: "So does PoPE: {encodings|pope|direct|8} at 8L.",
        claims: &["pope, direct < rope, direct at 8L"],
        pages: &["encodings/pope"],
    },
    Sentence {
        text: "ALiBi is flat to 16L, but reads worse within L than RoPE in a model of two heads: {encodings|alibi|direct|1} at L.",
        claims: &["alibi, direct = alibi, window_baseline at 8L", "alibi, direct < rope, direct at 8L"],
        pages: &["encodings/alibi"],
    },
    Sentence {
        text: "KERPLE is flat and loses nothing within L: {encodings|kerple|direct|1} at L, {encodings|kerple|direct|16} at 16L.",
        claims: &["kerple, direct = kerple, window_baseline at 8L"],
        pages: &["encodings/kerple"],
    },
    Sentence {
        text: "T5's buckets hold to 2L and not to 16L, where all far distances share the last bucket.",
        claims: &["t5, direct > kerple, direct at 16L"],
        pages: &["encodings/t5"],
    },
    Sentence {
        text: "Transformer-XL's encoding extrapolates: {encodings|transformer_xl|direct|16} at 16L.",
        claims: &["transformer_xl, direct = transformer_xl, window_baseline at 8L"],
        pages: &["encodings/transformer_xl"],
    },
    Sentence {
        text: "So does Shaw's, as long as the vector that all far distances share is one that training reads: \
               {encodings|shaw|direct|8} at 8L with `p_max` = L/2. With `p_max` = L, whose last vector no text of L tokens reads, five seeds \
               had a perplexity of 29.1.",
        claims: &["shaw, direct = shaw, window_baseline at 8L"],
        pages: &["encodings/shaw"],
    },
    Sentence {
        text: "Sinusoidal positions do not extrapolate: {encodings|sinusoidal|direct|1} at L, {encodings|sinusoidal|direct|2} at 2L.",
        claims: &["sinusoidal, direct = sinusoidal, window_baseline at 8L"],
        pages: &["encodings/sinusoidal"],
    },
    Sentence {
        text: "Neither do the linear recursion nor FLOATER, which leave the range of training.",
        claims: &[
            "recursive, direct = recursive, window_baseline at 8L",
            "floater, direct = floater, window_baseline at 8L",
        ],
        pages: &["encodings/recursive", "encodings/floater"],
    },
    Sentence {
        text: "A table of learned positions is best stretched: interpolated it reads {encodings|learned|linear|8} at 8L, with a \
               hierarchical table {encodings|learned hierarchical|direct|8}, with rows that nothing trained \
               {encodings|learned|table|8}.",
        claims: &[
            "learned, linear < learned, table at 8L",
            "learned hierarchical, direct < learned, linear at 8L",
        ],
        pages: &["encodings/learned", "extensions/table"],
    },
    Sentence {
        text: "Of digits, conversion to a larger base beats no change, and interpolation beats both: {encodings|radix|direct|8} as \
               trained, {encodings|radix|convert|8} converted, {encodings|radix|linear|8} interpolated at 8L.",
        claims: &[
            "radix, convert < radix, direct at 8L",
            "radix, linear < radix, direct at 8L",
            "radix, convert < radix, linear at 8L",
        ],
        pages: &["encodings/radix", "extensions/convert"],
    },
    Sentence {
        text: "Positions that are multiplied with the tokens are learned worse than those that are added: \
               {encodings|multiplicative|direct|1} and {encodings|learned|direct|1} at L.",
        claims: &["multiplicative, direct > learned, direct at L"],
        pages: &["encodings/multiplicative"],
    },
    Sentence {
        text: "Without any encoding a model this small reads worse within L ({encodings|none|direct|1}) and breaks slowly \
               ({encodings|none|direct|8} at 8L).",
        claims: &["none, direct > rope, direct at L"],
        pages: &["encodings/none"],
    },
];

pub(super) fn page(studies: &Studies) -> String {
    let mut page = format!(
        "# What holds at this scale\n\n{GENERATED}Sentences to rely on, each with the verdict that it rests on. They are about small models: 2 layers, \
         width 64, trained on 3.1 million tokens of the State of the Union addresses in texts of L = {} tokens, {} seeds. Larger models may \
         differ. Numbers are test perplexities, with one standard deviation over seeds.\n\n",
        studies.encodings.train_length,
        studies.encodings.seeds()
    );
    for (index, sentence) in SENTENCES.iter().enumerate() {
        let links: Vec<String> = sentence.pages.iter().map(|page| link(page)).collect();
        let _ = writeln!(page, "{}. {} ({})", index + 1, filled(sentence.text, studies), links.join(", "));
        for says in sentence.claims {
            let (study, claim) = [&studies.encodings, &studies.extensions]
                .into_iter()
                .find_map(|study| Some((study, study.claims().iter().find(|claim| claim.says == *says)?)))
                .unwrap_or_else(|| panic!("no study has the claim `{says}`"));
            let _ = writeln!(page, "    - `{says}`: **{}** (`{}.toml`)", claim.verdict, study.name);
        }
    }
    page
}

fn link(page: &str) -> String {
    format!("[`{}`](atlas/{page}.md)", page.split('/').next_back().unwrap())
}

/// The sentence with its numbers.
fn filled(text: &str, studies: &Studies) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap().to_owned();
    for part in parts {
        let (place, rest) = part.split_once('}').unwrap();
        let [study, label, reading, multiple] = place.split('|').collect::<Vec<_>>()[..] else {
            panic!("{place}")
        };
        let study: &Study = if study == "encodings" { &studies.encodings } else { &studies.extensions };
        let length = multiple.parse::<usize>().unwrap() * study.train_length;
        let mean = study.curve(label, reading, "test").get(&length).copied();
        filled += &mean.unwrap_or_else(|| panic!("no study has {place}")).text();
        filled += rest;
    }
    filled
}
